"""Quality of a study's data: attention checks, flags, durations, and reported replies.

Replies are listed that participants reported or filters marked. Every list takes few queries.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import Count, F, Q

from chatbots.registry import title_of
from evaluation.analysis.agreement import OwnAgreement
from evaluation.result_json import result_load
from webapp.conversations.models import Conversation, ReplyMark, ReplyReport, Turn
from webapp.dashboard.narrative.phrases import reason_text
from webapp.ratings.attention_results import CheckKind
from webapp.ratings.flag_selectors import Flag, flag_counts, flags_of_people
from webapp.ratings.flag_store.models import FlagState, TaskFlag
from webapp.ratings.flags.base import flag_kinds, percent
from webapp.ratings.selectors import study_dimensions
from webapp.ratings.test_retest import STATISTIC_NAME
from webapp.studies.models import Participant, Study
from webapp.studies.reply_filters.base import reply_filters

_KINDS: dict[CheckKind, Any] = {
    "quiz": "Questions about the instructions, first try",
    "before": "Attention checks before the task",
    "item": "Attention checks among the items",
    "gold": "Items with a known right answer",
    "after": "Attention checks after the task",
    "chat": "Attention checks in the chat",
}


@dataclass(frozen=True, slots=True)
class KindShown:
    """One kind of checks: how many were answered, and how many of them passed."""

    title: Any
    n: int
    n_passed: int


@dataclass(frozen=True, slots=True)
class OwnShown:
    """Self-agreement of participants on one question; `why` gives the reason for a missing value."""

    title: str
    found: OwnAgreement
    why: str


@dataclass(frozen=True, slots=True)
class ChecksShown:
    """Content of the page's part on checks.

    Attributes:
        kinds: kinds of check that at least one participant met.
        own: self-agreement of participants on each question; empty without repeated items.
        people: some of the participants who answered twice, the lowest share first.
        n_people: number of all participants who answered twice.
    """

    kinds: list[KindShown]
    own: list[OwnShown]
    people: list[dict[str, Any]]
    n_people: int


def checks_shown(study: Study, state: FlagState | None) -> ChecksShown | None:
    """Return the results of checks when flags were last computed, or None before that."""
    told = state.found.get(STATISTIC_NAME) if state is not None else None
    if told is None:
        return None
    titles = {dimension.key: dimension.title for dimension in study_dimensions(study)}
    kinds = told["kinds"]
    return ChecksShown(
        kinds=[KindShown(title, **kinds[kind]) for kind, title in _KINDS.items() if kind in kinds],
        own=[
            OwnShown(titles[key], found, reason_text(found.same.reason))
            for key, one in told["own"].items()
            if key in titles
            for found in [result_load(one, OwnAgreement)]
        ],
        people=told["people"],
        n_people=told["n_people"],
    )


FLAGGED_ON_A_PAGE = 50
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
    start = (page - 1) * FLAGGED_ON_A_PAGE
    ids = [row["participant"] for row in ranked[start : start + FLAGGED_ON_A_PAGE + 1]]
    listed = ids[:FLAGGED_ON_A_PAGE]
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
        people=[PersonRow(pk, pk.hex[:6], flags.get(pk, []), chats.get(pk, [])) for pk in listed if pk in people],
        n_flagged=n_flagged,
        n_shown=sum(one.n_people for one in flags_found.kinds if one.name == flag) if flag else n_flagged,
        first=start + 1,
        has_more=len(ids) > FLAGGED_ON_A_PAGE,
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


ON_A_PAGE = 50
NAMES_MODEL = "names_model"


@dataclass(frozen=True, slots=True)
class Reported:
    """One report as its list shows it.

    Attributes:
        by: the title of the bot, or the item's name for the model.
        chat, turn: of a reply of a conversation; item: the name of the item of any other.
        is_synthetic: a scripted participant made it.
    """

    pk: int
    reason: str
    words: str
    text: str
    by: str
    at: datetime
    seen_at: datetime | None
    seen_by: str
    is_synthetic: bool
    chat: UUID | None = None
    turn: int | None = None
    item: str = ""


@dataclass(frozen=True, slots=True)
class Marked:
    """Counts of a bot's replies that a filter matched.

    Attributes:
        marked: matched replies, out of `replies`; withheld: those blocked, which participants did not read.
    """

    bot_id: str
    filter: str
    marked: int
    withheld: int
    replies: int


def reports_page(study: Study, number: str) -> Page[Any]:
    """Return a page of the study's reports: what nobody has seen first, then the newest."""
    found = ReplyReport.objects.filter(participant__study=study).select_related(
        "participant", "turn__conversation__bot", "item"
    )
    page: Page[Any] = Paginator(
        found.order_by(F("seen_at").asc(nulls_first=True), "-created_at", "-pk"), ON_A_PAGE
    ).get_page(number)
    page.object_list = [_reported(one) for one in page.object_list]
    return page


def _reported(one: ReplyReport) -> Reported:
    about: dict[str, Any] = {}
    if one.turn is not None:
        chat = one.turn.conversation
        text, by = one.turn.withheld_text or one.turn.text, chat.bot.title
        about = {"chat": chat.pk, "turn": one.turn.index}
    else:
        assert one.item is not None, "a report is of a turn or of an item"
        replies = one.item.responses
        at = one.response or 0
        reply = replies[at] if at < len(replies) else {}
        text, by = reply.get("text", ""), reply.get("model") or "unknown"
        about = {"item": one.item.key}
    return Reported(
        one.pk,
        str(ReplyReport.Reason(one.reason).label),
        one.words,
        text,
        by,
        one.created_at,
        one.seen_at,
        one.seen_by,
        one.participant.is_synthetic,
        **about,
    )


def reports_unseen(studies: Collection[Study]) -> dict[int, int]:
    """Return numbers of unseen reports by participants, by the study's primary key, in one query."""
    rows = (
        ReplyReport.objects.filter(seen_at=None, participant__study__in=studies, participant__is_synthetic=False)
        .order_by()
        .values_list("participant__study")
        .annotate(n=Count("pk"))
    )
    return dict(rows)


def marks_of_study(study: Study) -> list[Marked]:
    """Return for each bot of the study's chats and each filter how often it found something, in two queries."""
    chats = Q(
        conversation__study=study,
        conversation__source=Conversation.Source.CHAT,
        conversation__is_synthetic=False,
        speaker=Turn.Speaker.BOT,
    )
    return _marked(chats)


def marks_of_bots(bot_ids: Collection[str], name: str = NAMES_MODEL) -> dict[str, Marked]:
    """Return counts of these bots' replies that a filter matched, self-play included, in two queries."""
    replies = Q(conversation__bot__bot_id__in=list(bot_ids), speaker=Turn.Speaker.BOT)
    return {one.bot_id: one for one in _marked(replies, name)}


def _marked(replies: Q, name: str = "") -> list[Marked]:
    """Return a row for each bot and filter that found something in these replies."""
    marks = ReplyMark.objects.filter(turn__in=Turn.objects.filter(replies))
    if name:
        marks = marks.filter(filter=name)
    found = (
        marks.order_by("turn__conversation__bot__bot_id", "filter")
        .values_list("turn__conversation__bot__bot_id", "filter")
        .annotate(n=Count("pk"), withheld=Count("pk", filter=Q(is_withheld=True)))
    )
    rows = list(found)
    if not rows:
        return []
    counted = (
        Turn.objects.filter(replies, conversation__bot__bot_id__in={row[0] for row in rows})
        .order_by()
        .values_list("conversation__bot__bot_id")
        .annotate(n=Count("pk"))
    )
    n_replies = dict(counted)
    return [
        Marked(bot_id, title_of(reply_filters, name), n, withheld, n_replies[bot_id])
        for bot_id, name, n, withheld in rows
    ]
