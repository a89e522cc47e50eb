"""Content of the page Quality: every kind of flag, flagged participants, and task durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count

from webapp.conversations.models import Conversation
from webapp.quality.flags.base import flag_kinds, percent
from webapp.quality.models import FlagState, TaskFlag
from webapp.quality.selectors import Flag, flag_counts, flags_of_people
from webapp.studies.models import Participant, Study

PAGE = 50
_CHATS = 6


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind of flag.

    Attributes:
        n_tasks: that have it; of: that could have it.
        share: of the tasks that could have it; empty where none could.
        why_none: why it could not be looked for; empty where it was.
    """

    name: str
    title: Any
    rule: Any
    n_people: int
    n_tasks: int
    of: int
    share: str
    why_none: Any


@dataclass(frozen=True, slots=True)
class PersonRow:
    """Somebody with a flag.

    Attributes:
        name: the random id that exports have, shortened.
        chats: their newest conversations.
    """

    pk: UUID
    name: str
    flags: list[Flag]
    chats: list[UUID]


@dataclass(frozen=True, slots=True)
class QualityPage:
    """The page: of all people, and the rows of those with flags that it lists."""

    kinds: list[KindRow]
    people: list[PersonRow]
    n_flagged: int
    n_shown: int
    first: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class FlagsCounted:
    """Numbers of participants with each kind of flag, and with any flag."""

    kinds: list[KindRow]
    n_flagged: int


def flags_counted(study: Study, state: FlagState) -> FlagsCounted:
    """Count the people with flags, in two queries; who has several is counted with each kind, and once in all."""
    counts = flag_counts(study)
    rows = TaskFlag.objects.filter(participant__study=study).order_by()
    return FlagsCounted(
        [_kind(kind, state, counts.get(kind.name, 0)) for kind in flag_kinds],
        rows.values("participant").distinct().count(),
    )


def quality_page(study: Study, state: FlagState, *, flag: str = "", page: int = 1) -> QualityPage:
    """Read what the page shows, in a constant number of queries.

    Args:
        flag: of which kind people are listed; all kinds where it is empty.
    """
    flags_found = flags_counted(study, state)
    n_flagged = flags_found.n_flagged
    rows = TaskFlag.objects.filter(participant__study=study).order_by()
    if flag:
        rows = rows.filter(name=flag)
    ranked = rows.values("participant").annotate(n=Count("pk")).order_by("-n", "participant")
    start = (page - 1) * PAGE
    ids = [row["participant"] for row in ranked[start : start + PAGE + 1]]
    listed = ids[:PAGE]
    flags = flags_of_people(study, state, listed)
    chats: dict[Any, list[UUID]] = {}
    found = Conversation.objects.filter(participant__in=listed).order_by("-created_at")
    for person, pk in found.values_list("participant", "pk"):
        mine = chats.setdefault(person, [])
        if len(mine) < _CHATS:
            mine.append(pk)
    people = Participant.objects.in_bulk(listed)
    return QualityPage(
        kinds=flags_found.kinds,
        people=[
            PersonRow(pk, pk.hex[:6], flags.get(pk, []), chats.get(pk, []))
            for pk in listed
            if pk in people
        ],
        n_flagged=n_flagged,
        n_shown=sum(one.n_people for one in flags_found.kinds if one.name == flag)
        if flag
        else n_flagged,
        first=start + 1,
        has_more=len(ids) > PAGE,
    )


def _kind(kind: Any, state: FlagState, n_people: int) -> KindRow:
    told = state.of(kind.name)
    why = told.get("why_none", "")
    return KindRow(
        name=kind.name,
        title=kind.title,
        rule=kind.rule,
        n_people=n_people,
        n_tasks=told.get("n") or 0,
        of=told.get("of") or 0,
        share=percent(told["n"], told["of"]) if told.get("of") else "",
        why_none=kind.reasons.get(why, "It was not looked for yet.") if why or not told else "",
    )
