"""Privacy of participants: consent, pseudonyms, erasure, and withdrawal.

Consent: the texts and promises of a study's version that participants agree to.

Erasure: all data of participants, by kind, counted beforehand and deleted at once. Every app registers in
`AppConfig.ready()` the participants' data that it stores, as with health checks. Foreign keys also cascade, so that no
other deletion of a participant leaves their texts behind.

Withdrawal after the end: a participant's data are deleted; data for their pay stay until the retention job
(`retention.py`). The last page has a personal link. The version of the participant's last task sets its time limit, so
that a later version cannot shorten it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core import signing
from django.db import transaction
from django.db.models import Count, Model, Q, QuerySet
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from webapp.bots.services import bot_reasons_forget
from webapp.core.audit_trail import ERASE, record
from webapp.core.clean_up import clean_up_kind, clean_up_on_commit
from webapp.core.clock import database_now
from webapp.core.database import journal_emptied
from webapp.core.errors import Refused
from webapp.studies.assignment.counterbalance import study_count_anew
from webapp.studies.models import Erasure, Outcome, Participant, Slot, Study, StudyVersion, Task
from webapp.studies.recruitment.completion import pay_text, store_shown_completion
from webapp.studies.settings import Rights, StudyValues

log = logging.getLogger(__name__)

AGREED_TEXTS = (
    "title",
    "minutes",
    "payment",
    "promises_pay_on_failure",
    "organisation",
    "contact",
    "consent_points",
    "consent_text",
    "instructions_text",
    "content_notice",
    "content_notice_ticked",
    "typing_notice",
)
AGREED_KEYS = (*AGREED_TEXTS, *Rights.model_fields)
"""Names of the values that participants agree to."""


def shows_only_form(values: StudyValues) -> bool:
    """Return True if participants consent by the study's own form only.

    Without consent points or Confab's sentences.
    """
    return values.texts.consent_layout == "form" and bool(values.texts.consent_text.strip())


def points_agreed_to(values: StudyValues) -> str:
    """Return the consent points.

    They include human partners, if these are disclosed before consent.
    """
    points = "" if shows_only_form(values) else values.texts.consent_points
    notice = values.people.people_notice if values.people.disclosure == "before" else ""
    return "\n".join(filter(None, [points, notice]))


def consent_texts(values: StudyValues) -> dict[str, Any]:
    """Return the exact texts and promises that a participant consents to."""
    typing_notice = values.typing.typing_notice if values.typing.is_agreed_to else ""
    of_texts = {**dict(values.texts), **dict(values.comfort), "typing_notice": typing_notice}
    of_texts["consent_points"] = points_agreed_to(values)
    agreed_texts = {name: _stripped(of_texts[name]) for name in AGREED_TEXTS} | {"payment": pay_text(values)}
    parts = {"parts": values.sittings.model_dump_json(exclude_defaults=True)} if values.sittings.parts else {}
    return {**agreed_texts, **dict(values.rights), **parts}


def consent_version(values: StudyValues) -> str:
    """Return a digest of everything that a participant consents to."""
    return terms_digest(consent_texts(values))


def terms_digest(texts: Mapping[str, Any]) -> str:
    """Return the digest of consented texts."""
    text = json.dumps(texts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stripped(value: Any) -> Any:
    """Return a text without surrounding spaces, which browsers' forms remove as well."""
    return value.strip() if isinstance(value, str) else value


def pseudonym(study: Study, name: str) -> str:
    """Return a participant's name in exports: stable, and not identifying.

    Args:
        name: name as in exports: an imported rater's, or the participant's random id.
    """
    digest = salted_hmac("confab.package", f"{study.key}\n{name}", algorithm="sha256")
    return f"p{digest.hexdigest()[:16]}"


Rows = Callable[[QuerySet[Participant]], QuerySet[Any]]


def rows_of(model: type[Model], path: str = "participant") -> Rows:
    """Return a function that returns participants' rows of a model.

    Args:
        path: lookup path from the row to its participant.
    """
    return lambda people: model._default_manager.filter(**{f"{path}__in": people})


@dataclass(frozen=True, slots=True)
class ErasureKind:
    """Kind of participants' data.

    Attributes:
        title: name on the page that lists the data to be deleted.
        rows: function that returns all rows of this kind that belong to these participants.
        lock: True if these rows must be locked during the deletion, because other writes wait for them.
        for_pay: True if it is kept when a participant withdraws after the end, so that they can be paid.
    """

    title: Any
    rows: Rows
    lock: bool = False
    for_pay: bool = False


_kinds: dict[str, ErasureKind] = {}
_follow: list[Callable[[Collection[int]], None]] = []
_people_gone: list[Callable[[Collection[UUID]], None]] = []


def erasure_kind(table: str, title: Any, rows: Rows, *, lock: bool = False, for_pay: bool = False) -> None:
    """Register a kind, counted under `table`.

    A kind that depends on another is registered after it.
    """
    _kinds[table] = ErasureKind(title, rows, lock, for_pay)


def erasure_follow(act: Callable[[Collection[int]], None]) -> None:
    """Register a hook that runs after an erasure with the studies' ids.

    It removes files with participants' texts.
    """
    _follow.append(act)


def erasure_people_gone(act: Callable[[Collection[UUID]], None]) -> None:
    """Register a hook that runs after an erasure with participants' ids.

    It clears data without a foreign key.
    """
    _people_gone.append(act)


def studies_gone(study_ids: Collection[int]) -> None:
    """Remove studies' data outside the database before their rows are deleted."""
    for act in _follow:
        act(study_ids)


def erasure_kinds() -> dict[str, ErasureKind]:
    """Return all kinds of data by table name."""
    return dict(_kinds)


def erasure_counts(participants: QuerySet[Participant]) -> dict[str, int]:
    """Return the number of these participants' rows by kind."""
    return {table: kind.rows(participants).count() for table, kind in _kinds.items()}


def people_locked(participants: QuerySet[Participant]) -> QuerySet[Participant]:
    """Return the participants with all rows locked that their writes need.

    This requires a transaction. Conversations are locked before participants, as in the writing services, to avoid
    deadlocks.
    """
    people = Participant.objects.filter(pk__in=list(participants.values_list("pk", flat=True)))
    for kind in reversed(_kinds.values()):
        if kind.lock:
            rows = kind.rows(people).order_by("pk").select_for_update(of=("self",))
            list(rows.values_list("pk", flat=True))
    return people


def _clean_up(payload: Mapping[str, Any]) -> None:
    """Run all hooks even if one fails.

    Raises:
        RuntimeError: names and errors of the hooks that failed.
    """
    people, studies = {UUID(hex=person) for person in payload["people"]}, set(payload["studies"])
    hooks: list[tuple[Any, Callable[[], object]]] = [(act, partial(act, people)) for act in _people_gone if people]
    hooks += [(act, partial(act, studies)) for act in _follow]
    failed = []
    for act, run in [*hooks, (journal_emptied, journal_emptied)]:
        try:
            run()
        except Exception as error:
            log.exception("clean-up after an erasure: %s failed", act)
            failed.append(f"{getattr(act, '__name__', act)} ({type(error).__name__}: {error})")
    if failed:
        raise RuntimeError("; ".join(failed))


CLEAN_UP = "erasure"
clean_up_kind(CLEAN_UP, "Files and results after an erasure", _clean_up)


def erased_follow_up(study_ids: Collection[int], *, people: Collection[UUID] = ()) -> None:
    """Recount the studies' work and schedule clean-up after an erasure.

    The clean-up removes files and results with erased data.

    Args:
        people: erased participants; none if the participants stay.
    """
    clean_up_on_commit(CLEAN_UP, {"studies": sorted(study_ids), "people": sorted(person.hex for person in people)})
    versions = StudyVersion.objects.filter(study__in=study_ids)
    bot_reasons_forget({bot_id for version in versions for bot_id in version.values.bots})
    for study_id in study_ids:
        study_count_anew(study_id=study_id)


def participants_erase(*, participants: QuerySet[Participant], notes: bool = False) -> dict[str, int]:
    """Delete all data of these participants, in one transaction.

    Returns the number of rows by kind.

    Embeddings of their texts are deleted, too (`webapp/conversations/erasure.py`), as with every deletion.
    Figures computed from them (fits, reports already written) stay, because they name no participant.

    Args:
        notes: True if their studies record the erasure.
    """
    with transaction.atomic():
        people = people_locked(participants)
        removed = erasure_counts(people)
        n_people = dict(people.order_by().values_list("study").annotate(n=Count("pk")))
        ids = set(people.values_list("pk", flat=True))
        for kind in reversed(_kinds.values()):
            rows = kind.rows(people)
            _log_entries_of(rows).delete()
            rows.delete()
        erased_follow_up(n_people, people=ids)
        reason = Erasure.Kind.ASKED if notes else "scripted"
        for study in Study.everywhere.filter(pk__in=n_people):
            record(ERASE, study, kind=reason, participants=n_people[study.pk])
        if notes:
            for study_id, n in n_people.items():
                Erasure.objects.create(study_id=study_id, kind=Erasure.Kind.ASKED, n_people=n, removed=removed)
    return removed


def _log_entries_of(rows: QuerySet[Any]) -> QuerySet[LogEntry]:
    """Return the admin log's entries about these rows, by primary key."""
    return LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(rows.model),
        object_id__in=[str(pk) for pk in rows.values_list("pk", flat=True)],
    )


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
