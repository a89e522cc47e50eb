"""Retention job: automatic erasure of recruitment ids and texts, as promised.

A worker runs it every hour, and `manage.py erase --due` on demand; repeated runs do no harm. A participant's ids are
erased a set number of days after the study has ended, or after the last decision about their pay if that is later;
after a withdrawal, within 90 days. Texts are erased after the study's end. Their rows stay, so that ratings and numbers
of messages do not change. Apps register in `AppConfig.ready()` where they store ids and texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from webapp.core.audit_trail import ERASE, record
from webapp.core.clean_up import clean_up_title, clean_ups_repeat
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.models import CleanUp, Installation
from webapp.studies.models import Erasure, Item, Participant, PlatformIds, QuestionAnswers, Study, Task
from webapp.studies.models.participants import IMPORT_PLATFORM
from webapp.studies.privacy import erased_follow_up, people_locked

log = logging.getLogger(__name__)

WITHDRAWN_IDS_KEPT = timedelta(days=90)
IdsEraser = Callable[[QuerySet[Participant], dict[tuple[UUID, str], str]], dict[str, int]]
Holder = Callable[[Study, datetime], QuerySet[Any]]


@dataclass(frozen=True, slots=True)
class TextsKind:
    """Place where texts are stored.

    Attributes:
        rows: rows of a study that still have texts.
        blank: removes the texts from these rows.
    """

    rows: Callable[[Study], QuerySet[Any]]
    blank: Callable[[Study, QuerySet[Any]], None]


_ids_erasers: list[IdsEraser] = []
_holders: list[Holder] = []
_texts_kinds: dict[str, TextsKind] = {}


def ids_eraser(erase: IdsEraser) -> None:
    """Register a function that erases ids in other apps.

    It gets substitutes for visit ids, and returns row counts by table.
    """
    _ids_erasers.append(erase)


def ids_holder(holds: Holder) -> None:
    """Register a function that returns participants whose ids are kept longer.

    The reason is a later decision about their pay.
    """
    _holders.append(holds)


def texts_kind(table: str, kind: TextsKind) -> None:
    """Register rows that hold texts, counted under `table`."""
    _texts_kinds[table] = kind


@dataclass(frozen=True, slots=True)
class Clock:
    """State of a study's retention job.

    Attributes:
        ids_at, texts_at: times of their erasure; None if none is set or the study has not ended.
        n_ids, n_texts: number of participants with ids, and of rows with texts.
        unfinished: unfinished clean-ups of erasures, with their titles.
        n_later: number of participants whose ids are kept after `ids_at`, because their pay was decided later.
        done: erasures so far, newest first.
    """

    ids_days: int | None
    texts_days: int | None
    ids_at: datetime | None
    texts_at: datetime | None
    n_ids: int
    n_texts: int
    n_later: int
    unfinished: list[tuple[str, CleanUp]]
    done: list[Erasure]


def clock_of(study: Study) -> Clock:
    """Return the state of the study's retention.

    The number of queries is constant.
    """
    rights, ended = study.values.rights, study.ended_at
    ids, texts = rights.ids_kept_days, rights.texts_kept_days
    n_later = 0
    if ended is not None and ids is not None:
        n_later = len(_find_holders(study, ended) & set(_with_ids(study).values_list("pk", flat=True)))
    return Clock(
        ids_days=ids,
        texts_days=texts,
        ids_at=ended + timedelta(days=ids) if ended is not None and ids is not None else None,
        texts_at=ended + timedelta(days=texts) if ended is not None and texts is not None else None,
        n_ids=_with_ids(study).count() if ids is not None else 0,
        n_texts=sum(texts_counts(study).values()) if texts is not None else 0,
        n_later=n_later,
        unfinished=[(clean_up_title(row.kind), row) for row in CleanUp.objects.order_by("pk")],
        done=list(study.erasures.all()[:5]),
    )


def ids_due(study: Study, now: datetime) -> QuerySet[Participant]:
    """Return the participants whose recruitment ids are due for erasure at `now`."""
    due = Q(withdrawn_at__lte=now - WITHDRAWN_IDS_KEPT)
    days = study.values.rights.ids_kept_days
    if days is not None and study.ended_at is not None:
        since = now - timedelta(days=days)
        if study.ended_at <= since:
            due |= ~Q(pk__in=_find_holders(study, since))
    return _with_ids(study).filter(due)


def texts_are_due(study: Study, now: datetime) -> bool:
    """Return True if the study's texts are due for erasure at `now`."""
    days = study.values.rights.texts_kept_days
    return days is not None and study.ended_at is not None and study.ended_at <= now - timedelta(days=days)


def ids_erase(*, people: QuerySet[Participant], kind: str = Erasure.Kind.IDS) -> dict[str, int]:
    """Erase the platforms' ids of these participants and their visits.

    Returns the number of rows by table.

    A substitute replaces the platform's id of each visit, so that decisions stay with their tasks.
    """
    with transaction.atomic():
        people = people_locked(people)
        tasks = Task.objects.filter(participant__in=people).exclude(submission="")
        visits = tasks.order_by("pk").values_list("participant", "submission")
        stand_ins: dict[tuple[UUID, str], str] = {}
        for person, submission in visits:
            stand_ins.setdefault((person, submission), f"erased-{len(stand_ins) + 1}")
        removed: dict[str, int] = {}
        for erase in _ids_erasers:
            removed |= erase(people, stand_ins)
        for (person, submission), stand_in in stand_ins.items():
            tasks.filter(participant=person, submission=submission).update(submission=stand_in)
        ids = PlatformIds.objects.filter(participant__in=people)
        removed = {"platform_ids": ids.count(), "visits": len(stand_ins), **removed}
        ids.delete()
        studies = set(people.values_list("study_id", flat=True))
        for study_id in studies:
            n = people.filter(study=study_id).count()
            Erasure.objects.create(study_id=study_id, kind=kind, n_people=n, removed=removed)
            record(ERASE, Study.everywhere.get(pk=study_id), kind=kind, participants=n)
        erased_follow_up(studies)
    return removed


def texts_counts(study: Study) -> dict[str, int]:
    """Return the number of rows in each table that still hold texts."""
    return {table: kind.rows(study).count() for table, kind in _texts_kinds.items()}


def texts_erase(*, study: Study) -> dict[str, int]:
    """Erase all texts that the study's participants wrote or read.

    Returns the number of rows by table.
    """
    with transaction.atomic():
        removed = {name: n for name, n in texts_counts(study).items() if n}
        if not removed:
            return {}
        for name in removed:
            kind = _texts_kinds[name]
            kind.blank(study, kind.rows(study))
        n_people = study.participants.filter(is_synthetic=False).count()
        Erasure.objects.create(study=study, kind=Erasure.Kind.TEXTS, n_people=n_people, removed=removed)
        record(ERASE, study, kind=Erasure.Kind.TEXTS, participants=n_people)
        erased_follow_up({study.pk})
    return removed


def retention_due(now: datetime | None = None) -> list[tuple[Study, str, dict[str, int]]]:
    """Return the erasures due in all studies.

    Each has the study, `ids` or `texts`, and rows by table. Nothing is changed.
    """
    now = now or database_now()
    erasures: list[tuple[Study, str, dict[str, int]]] = []
    for study in Study.objects.all():
        if n := ids_due(study, now).count():
            erasures.append((study, "ids", {"platform_ids": n}))
        if texts_are_due(study, now):
            counts = {name: n for name, n in texts_counts(study).items() if n}
            erasures += [(study, "texts", counts)] if counts else []
    return erasures


CLOCK_JUMP = timedelta(days=1)
"""Pause of retention after a jump of the database's time, so that an administrator can check."""


def retention_run() -> list[tuple[Study, str, dict[str, int]]]:
    """Erase all due data of all studies.

    Returns them in the form of `retention_due`; a second run erases nothing.

    Erasures whose clean-up failed or was killed are finished first.

    Raises:
        Refused: if the database's time jumped; nothing was erased.
    """
    clean_ups_repeat()
    now = database_now()
    if held_until := _hold_after_jump(now):
        raise Refused(
            "clock",
            "the database's time has jumped by more than a day since the last retention run, or Confab was off; "
            f"nothing is erased before {held_until:%Y-%m-%d %H:%M} UTC. Check the clock of the database server",
        )
    erased = []
    for study, kind, _counts in retention_due(now):
        if kind == "ids":
            removed = ids_erase(people=ids_due(study, now))
        else:
            removed = texts_erase(study=study)
        log.info("study %s: erased %s by its retention clock: %s", study.key, kind, removed)
        erased.append((study, kind, removed))
    return erased


def _hold_after_jump(now: datetime) -> datetime | None:
    """Record this run, and return until when retention is paused.

    None if it is not.

    A jump ahead pauses it for a day. If the time then goes back by more than a day, the jump was an error and the pause
    ends.
    """
    with transaction.atomic():
        Installation.load()
        installation = Installation.objects.select_for_update().get()
        if (looked_at := installation.retention_looked_at) is not None:
            if now - looked_at > CLOCK_JUMP:
                installation.retention_held_until = now + CLOCK_JUMP
            elif looked_at - now > CLOCK_JUMP:
                installation.retention_held_until = None
        installation.retention_looked_at = now
        installation.save(update_fields=["retention_looked_at", "retention_held_until"])
    held_until = installation.retention_held_until
    return held_until if held_until is not None and now < held_until else None


def _with_ids(study: Study) -> QuerySet[Participant]:
    return Participant.objects.filter(study=study, platform_ids__isnull=False).exclude(platform=IMPORT_PLATFORM)


def _find_holders(study: Study, since: datetime) -> set[UUID]:
    participant_ids: set[UUID] = set()
    for holds in _holders:
        participant_ids.update(holds(study, since).values_list("participant", flat=True))
    return participant_ids


def written_keys(study: Study) -> set[str]:
    """Return the keys of all written questions, in all versions."""
    questions = (question for version in study.versions.all() for question in _all_questions(version.values))
    return {question.key for question in questions if question.kind == "text"}


def _all_questions(values: Any) -> list[Any]:
    return [*values.questions, *values.after]


def answers_without(answers: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    """Return answers without those to written questions."""
    return {key: value for key, value in answers.items() if key not in keys}


def having_keys(rows: QuerySet[Any], column: str, keys: set[str]) -> QuerySet[Any]:
    """Return the rows whose JSON column has one of the keys."""
    if not keys:
        return rows.none()
    condition = Q()
    for key in sorted(keys):
        condition |= Q(**{f"{column}__has_key": key})
    return rows.filter(condition)


def _answers_rows(study: Study) -> QuerySet[Any]:
    rows = QuestionAnswers.objects.filter(participant__study=study)
    return having_keys(rows, "answers", written_keys(study))


def _answers_blank(study: Study, rows: QuerySet[Any]) -> None:
    keys = written_keys(study)
    for row in rows.iterator(chunk_size=500):
        row.answers = answers_without(row.answers, keys)
        row.save(update_fields=["answers"])


_TEXT_IN_JSON = r'"text": ?"[^"]'
"""Matches a response with a text; quotes inside a text are escaped, so that none can forge it."""


def _items_rows(study: Study) -> QuerySet[Any]:
    items = Item.objects.filter(Item.holding(study=study)).alias(responses_json=Cast("responses", TextField()))
    return items.exclude(~Q(responses_json__regex=_TEXT_IN_JSON), context=[], reference=None, panel={})


def _items_blank(study: Study, rows: QuerySet[Any]) -> None:
    for item in rows.iterator(chunk_size=500):
        item.context, item.reference, item.panel = [], None, {}
        item.responses = [{**response, "text": ""} for response in item.responses]
        item.save(update_fields=["context", "reference", "panel", "responses", "updated_at"])


def own_texts() -> None:
    """Register the columns of this app that store texts."""
    texts_kind("question_answers", TextsKind(_answers_rows, _answers_blank))
    texts_kind("items", TextsKind(_items_rows, _items_blank))


def texts_in(rows: Callable[[Study], QuerySet[Any]], column: str, empty: Any = "") -> TextsKind:
    """Return the kind of a column that is cleared as a whole."""
    return TextsKind(
        lambda study: rows(study).exclude(**{column: empty}), partial(_column_blank, column=column, empty=empty)
    )


def _column_blank(_study: Study, rows: QuerySet[Any], *, column: str, empty: Any) -> None:
    ids = list(rows.values_list("pk", flat=True))
    for start in range(0, len(ids), 500):
        rows.model._base_manager.filter(pk__in=ids[start : start + 500]).update(**{column: empty})
