"""Withdrawal after the end: a participant's data are deleted, data for their pay stay until the retention job.

The last page has a personal link. The version of the participant's last task sets its time limit, so that a later
version cannot shorten it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.core import signing
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.studies.erasure import erased_follow_up, erasure_kinds, people_locked
from webapp.studies.models import Erasure, Outcome, Participant, Slot, Task
from webapp.studies.outcomes import told_keep

_SALT = "confab.withdraw"


def withdrawal_token(participant: Participant) -> str:
    """Return the token in the participant's link to withdraw; it is valid as long as they may."""
    return signing.Signer(salt=_SALT).sign(participant.pk.hex)


def withdrawal_of(token: str) -> Participant | None:
    """Return the link's participant; None for an invalid link, and if they have been erased."""
    try:
        person = UUID(hex=signing.Signer(salt=_SALT).unsign(token))
    except (signing.BadSignature, ValueError):
        return None
    rows = Participant.objects.select_related("study__version__rubric", "platform_ids")
    return rows.filter(pk=person).first()


def withdrawal_until(participant: Participant) -> datetime | None:
    """Return the time limit for withdrawing; None if the study has none after the end, or no task has ended."""
    ended = participant.tasks.exclude(outcome="").exclude(outcome=Outcome.NO_CONSENT)
    last = ended.exclude(ended_at=None).select_related("version").order_by("-ended_at").first()
    if last is None or last.ended_at is None or not last.version.values.rights.withdrawal_days:
        return None
    return last.ended_at + timedelta(days=last.version.values.rights.withdrawal_days)


def may_withdraw(participant: Participant) -> bool:
    """Return True if they may withdraw now: while a task is open, and until the time limit after the end."""
    if participant.withdrawn_at is not None:
        return False
    until = withdrawal_until(participant)
    is_open = participant.tasks.filter(state=Task.State.OPEN).exists()
    return is_open or (until is not None and timezone.now() <= until)


def withdrawal_loss(participant: Participant) -> dict[str, int]:
    """Return the number of rows of each kind that would be deleted; kinds without rows are left out."""
    people = Participant.objects.filter(pk=participant.pk)
    kinds = {name: kind for name, kind in erasure_kinds().items() if not kind.for_pay}
    counted = {name: kind.rows(people).count() for name, kind in kinds.items()}
    return {name: n for name, n in counted.items() if n}


def participant_withdraw(*, participant: Participant) -> Mapping[str, int]:
    """Erase a participant's data, in one transaction. Returns the number of rows by kind; done twice, nothing.

    Each task's outcome and code, decisions about pay and the platform's ids stay, and the participant cannot begin
    again. Files of exports are deleted and results computed again, as with every erasure.

    Raises:
        Refused: `too_late`.
    """
    with transaction.atomic():
        people = people_locked(Participant.objects.filter(pk=participant.pk))
        person = people.get()
        if person.withdrawn_at is not None:
            return {}
        if not may_withdraw(person):
            raise Refused("too_late", _("The time to withdraw is over."))
        removed = withdrawal_loss(person)
        for kind in reversed(erasure_kinds().values()):
            if not kind.for_pay:
                kind.rows(people).delete()
        _tasks_emptied(person)
        people.update(withdrawn_at=timezone.now(), entry_nonce="", move_nonce="")
        erased_follow_up({person.study_id})
        Erasure.objects.create(
            study_id=person.study_id, kind=Erasure.Kind.WITHDRAWN, n_people=1, removed=removed
        )
    participant.refresh_from_db()
    return removed


def _tasks_emptied(person: Participant) -> None:
    """Clear the participant's tasks, except their outcome and the code and link shown."""
    tasks = Task.objects.filter(participant=person)
    Slot.objects.filter(task__in=tasks).delete()
    for task in tasks.exclude(outcome=""):  # of an earlier release, which kept nothing yet
        told_keep(task=task)
    open_ones = list(tasks.filter(state=Task.State.OPEN))
    tasks.filter(state=Task.State.OPEN).update(
        state=Task.State.WITHDRAWN, outcome=Outcome.WITHDRAWN, ended_at=timezone.now()
    )
    for task in open_ones:
        task.refresh_from_db()
        told_keep(task=task)
    tasks.filter(Q(state=Task.State.COMPLETED)).update(state=Task.State.WITHDRAWN)
    tasks.update(payload={}, drawn_by={})
