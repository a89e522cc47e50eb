"""Withdrawal after the end: a participant's data are deleted.

Data for their pay stay until the retention job (`retention.py`). The last page has a personal link. The version of the
participant's last task sets its time limit, so that a later version cannot shorten it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.core import signing
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from webapp.core.audit_trail import ERASE, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import Erasure, Outcome, Participant, Slot, Task
from webapp.studies.privacy.erasure import erased_follow_up, erasure_kinds, people_locked
from webapp.studies.recruitment.completion import store_shown_completion

_SALT = "confab.withdraw"


def withdrawal_token(participant: Participant) -> str:
    """Return the token of the participant's withdrawal link.

    It is valid until the time limit.
    """
    return signing.Signer(salt=_SALT).sign(participant.pk.hex)


def withdrawal_of(token: str) -> Participant | None:
    """Return the participant of a link.

    None for an invalid link or an erased participant.
    """
    try:
        person = UUID(hex=signing.Signer(salt=_SALT).unsign(token))
    except (signing.BadSignature, ValueError):
        return None
    rows = Participant.objects.select_related("study__version__rubric", "platform_ids")
    return rows.filter(pk=person).first()


def withdrawal_until(participant: Participant) -> datetime | None:
    """Return the time limit for withdrawing.

    None without a limit or before a task has ended.
    """
    ended = participant.tasks.exclude(outcome="").exclude(outcome=Outcome.NO_CONSENT)
    last = ended.exclude(ended_at=None).select_related("version").order_by("-ended_at").first()
    if last is None or last.ended_at is None or not last.version.values.rights.withdrawal_days:
        return None
    return last.ended_at + timedelta(days=last.version.values.rights.withdrawal_days)


def may_withdraw(participant: Participant, until: datetime | None) -> bool:
    """Return True if the participant may withdraw.

    They may during an open task, and until the time limit after it.
    """
    if participant.withdrawn_at is not None:
        return False
    is_early = until is not None and database_now() <= until
    return is_early or participant.tasks.filter(state=Task.State.OPEN).exists()


def query_participant(participant: Participant) -> QuerySet[Participant]:
    """Return a queryset of one participant, as erasures expect it."""
    return Participant.objects.filter(pk=participant.pk)


def withdrawal_loss(participant: Participant) -> dict[str, int]:
    """Return the number of rows to delete by kind, without empty kinds."""
    people = query_participant(participant)
    kinds = {name: kind for name, kind in erasure_kinds().items() if not kind.for_pay}
    counts = {name: kind.rows(people).count() for name, kind in kinds.items()}
    return {name: n for name, n in counts.items() if n}


def participant_withdraw(*, participant: Participant) -> Mapping[str, int]:
    """Erase a participant's data in one transaction (idempotent).

    Returns the number of rows by kind.

    Each task's outcome and code, decisions about pay and the platform's ids stay, and the participant cannot start
    again. As with every erasure, export files are deleted and results recomputed.

    Raises:
        Refused: `too_late`.
    """
    with transaction.atomic():
        people = people_locked(Participant.objects.filter(pk=participant.pk))
        person = people.get()
        if person.withdrawn_at is not None:
            return {}
        if not may_withdraw(person, withdrawal_until(person)):
            raise Refused("too_late", _("The time to withdraw is over."))
        removed = withdrawal_loss(person)
        for kind in reversed(erasure_kinds().values()):
            if not kind.for_pay:
                kind.rows(people).delete()
        _tasks_emptied(person)
        people.update(withdrawn_at=database_now(), entry_nonce="", move_nonce="")
        erased_follow_up({person.study_id})
        Erasure.objects.create(study_id=person.study_id, kind=Erasure.Kind.WITHDRAWN, n_people=1, removed=removed)
        record(ERASE, person.study, kind=Erasure.Kind.WITHDRAWN, participants=1)
    participant.refresh_from_db()
    return removed


def _tasks_emptied(person: Participant) -> None:
    """Clear the participant's tasks, except outcome, code and link."""
    tasks = Task.objects.filter(participant=person)
    Slot.objects.filter(task__in=tasks).delete()
    for task in tasks.exclude(outcome=""):  # from an earlier release, which stored nothing yet
        store_shown_completion(task=task)
    open_ones = list(tasks.filter(state=Task.State.OPEN))
    tasks.filter(state=Task.State.OPEN).update(
        state=Task.State.WITHDRAWN, outcome=Outcome.WITHDRAWN, ended_at=database_now()
    )
    for task in open_ones:
        task.refresh_from_db()
        store_shown_completion(task=task)
    tasks.filter(Q(state=Task.State.COMPLETED)).update(state=Task.State.WITHDRAWN)
    tasks.update(payload={}, drawn_by={})
