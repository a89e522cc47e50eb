"""Quality of a study's data: attention checks, flags, durations, and reported replies.

Every list takes few queries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Count, F, Q

from chatbots.registry import title_of
from evaluation.analysis.agreement import OwnAgreement
from evaluation.number_format import result_load, span
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import wilson
from webapp.conversations.models import Conversation, DistressMark, ReplyMark, ReplyReport, Turn
from webapp.core.language import plural
from webapp.insights.narrative.phrases import reason_text
from webapp.ratings.attention_results import STATISTIC_NAME
from webapp.ratings.check_kinds import CHECK_KINDS
from webapp.ratings.flag_selectors import FlagExclusions, flag_counts, left_out_counts
from webapp.ratings.flag_store.models import FlagState, TaskFlag
from webapp.ratings.flags.base import flag_kinds, percent
from webapp.ratings.flags.machine_score import SIGNALS
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Study
from webapp.studies.reply_filters.base import reply_filters


@dataclass(frozen=True, slots=True)
class KindShown:
    """Kind of check, with its numbers of answers and passes."""

    title: Any
    n: int
    n_passed: int


@dataclass(frozen=True, slots=True)
class OwnShown:
    """Self-agreement of participants on one question; `reason` explains a missing value."""

    title: str
    agreement: OwnAgreement
    reason: str


@dataclass(frozen=True, slots=True)
class ChecksShown:
    """Content of the page's part on checks.

    Attributes:
        kinds: kinds of check that at least one participant met.
        self_agreements: self-agreement of participants on each question; empty without repeated items.
        people: some of the participants who answered twice, the lowest share first.
        n_people: number of all participants who answered twice.
    """

    kinds: list[KindShown]
    self_agreements: list[OwnShown]
    people: list[dict[str, Any]]
    n_people: int


def checks_shown(study: Study, state: FlagState | None) -> ChecksShown | None:
    """Return the results of checks at the last computation of flags.

    None before that.
    """
    statistics = state.found.get(STATISTIC_NAME) if state is not None else None
    if statistics is None:
        return None
    titles = {dimension.key: dimension.title for dimension in study_dimensions(study)}
    kinds = statistics["kinds"]
    return ChecksShown(
        kinds=[KindShown(kind.title, **kinds[name]) for name, kind in CHECK_KINDS.items() if name in kinds],
        self_agreements=[
            OwnShown(titles[key], agreement, reason_text(agreement.same.reason))
            for key, stored in statistics["own"].items()
            if key in titles
            for agreement in [result_load(stored, OwnAgreement)]
        ],
        people=statistics["people"],
        n_people=statistics["n_people"],
    )


@dataclass(frozen=True, slots=True)
class KindRow:
    """Row of a kind of flag.

    Attributes:
        n_tasks: tasks with the flag; n_possible: tasks that could have it.
        share: share of the tasks that could have it; empty if none could.
        why_none: why it could not be computed; empty otherwise.
    """

    name: str
    title: Any
    rule: Any
    n_people: int
    n_tasks: int
    n_possible: int
    share: str
    why_none: Any


@dataclass(frozen=True, slots=True)
class FlagsCounted:
    """Numbers of participants with each kind of flag, and with any flag."""

    kinds: list[KindRow]
    n_flagged: int


def flags_counted(study: Study, state: FlagState) -> FlagsCounted:
    """Count the participants with flags, in two queries.

    A participant with several flags counts once in each kind, and once in the total.
    """
    counts = flag_counts(study)
    rows = TaskFlag.objects.filter(participant__study=study).order_by()
    return FlagsCounted(
        [_kind(kind, state, counts.get(kind.name, 0)) for kind in flag_kinds],
        rows.values("participant").distinct().count(),
    )


def _kind(kind: Any, state: FlagState, n_people: int) -> KindRow:
    counts = state.get_kind_results(kind.name)
    reason_key = counts.get("why_none", "")
    return KindRow(
        name=kind.name,
        title=kind.title,
        rule=kind.rule,
        n_people=n_people,
        n_tasks=counts.get("n") or 0,
        n_possible=counts.get("of") or 0,
        share=percent(counts["n"], counts["of"]) if counts.get("of") else "",
        why_none=kind.reasons.get(reason_key, "Not checked yet.") if reason_key or not counts else "",
    )


@dataclass(frozen=True, slots=True)
class SignalRow:
    """Row of a signal of the machine score: shares of participants, rehearsals and decided people as text."""

    title: Any
    rule: Any
    participants: str
    detection: str
    false_alarms: str


def signal_rows(state: FlagState) -> list[SignalRow]:
    """Return detection and false alarms of each signal, with 90 % intervals."""
    about = state.get_kind_results("machine_score").get("about", {})
    return [
        SignalRow(signal.title, signal.rule, *(_share_text(*about[group][signal.name]) for group in _GROUPS))
        for signal in SIGNALS
        if about
    ]


_GROUPS = ("all", "rehearsal", "human")


def _share_text(k: int, n: int) -> str:
    if not n:
        return "not known"
    low, high = wilson(np.array(k / n), n, RATING_LEVEL)
    return f"{k} of {n} {span(float(low), float(high), shares=True)}"


NAMES_MODEL = "names_model"


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


def reports_of_person(participant: UUID) -> list[tuple[ReplyReport, str, str]]:
    """Return a participant's reports, unseen ones first.

    Each has the reply's text, and its bot or model.
    """
    reports = ReplyReport.objects.filter(participant=participant).select_related("turn__conversation__bot", "item")
    rows = []
    for report in reports.order_by(F("seen_at").asc(nulls_first=True), "-created_at", "-pk"):
        if report.turn is not None:
            rows.append((report, report.turn.withheld_text or report.turn.text, report.turn.conversation.bot.title))
            continue
        assert report.item is not None, "a report is of a turn or of an item"
        replies, position = report.item.responses, report.response or 0
        reply = replies[position] if position < len(replies) else {}
        rows.append((report, reply.get("text", ""), reply.get("model") or "unknown"))
    return rows


def reports_by_person(study: Study, *, include_synthetic: bool) -> dict[UUID, tuple[int, int]]:
    """Return numbers of reported replies by participant, in one query.

    Each comes with the number of unseen reports.
    """
    rows = ReplyReport.objects.filter(participant__study=study).order_by()
    if not include_synthetic:
        rows = rows.filter(participant__is_synthetic=False)
    counts = rows.values_list("participant").annotate(n=Count("pk"), unseen=Count("pk", filter=Q(seen_at=None)))
    return {person: (n, unseen) for person, n, unseen in counts}


def reports_unseen(studies: Collection[Study]) -> dict[int, int]:
    """Return numbers of unseen reports by participants, in one query.

    They are keyed by the study's primary key.
    """
    rows = (
        ReplyReport.objects.filter(seen_at=None, participant__study__in=studies, participant__is_synthetic=False)
        .order_by()
        .values_list("participant__study")
        .annotate(n=Count("pk"))
    )
    return dict(rows)


def distress_unseen(studies: Collection[Study]) -> dict[int, int]:
    """Return numbers of marked messages that nobody has seen yet, by the study's primary key, in one query."""
    rows = DistressMark.objects.filter(seen_at=None, turn__conversation__study__in=studies)
    counts = rows.filter(turn__conversation__is_synthetic=False).order_by().values_list("turn__conversation__study")
    return dict(counts.annotate(n=Count("pk")))


def distress_chats(study: Study) -> list[DistressMark]:
    """Return the study's latest marked messages with their chats, unseen ones first, at most 50."""
    marks = DistressMark.objects.filter(turn__conversation__study=study).select_related("turn__conversation")
    return list(marks.order_by(F("seen_at").asc(nulls_first=True), "-created_at")[:50])


def marks_of_study(study: Study) -> list[Marked]:
    """Return filter matches for each bot of the study's chats.

    This takes two queries.
    """
    chats = Q(
        conversation__study=study,
        conversation__source=Conversation.Source.CHAT,
        conversation__is_synthetic=False,
        speaker=Turn.Speaker.BOT,
    )
    return _marked(chats)


def marks_of_bots(bot_ids: Collection[str], name: str = NAMES_MODEL) -> dict[str, Marked]:
    """Return filter matches for these bots, including self-play.

    This takes two queries.
    """
    replies = Q(conversation__bot__bot_id__in=list(bot_ids), speaker=Turn.Speaker.BOT)
    return {marked.bot_id: marked for marked in _marked(replies, name)}


def _marked(replies: Q, name: str = "") -> list[Marked]:
    """Return a row for each bot and filter that matched these replies."""
    marks = ReplyMark.objects.filter(turn__in=Turn.objects.filter(replies))
    if name:
        marks = marks.filter(filter=name)
    matches = (
        marks.order_by("turn__conversation__bot__bot_id", "filter")
        .values_list("turn__conversation__bot__bot_id", "filter")
        .annotate(n=Count("pk"), withheld=Count("pk", filter=Q(is_withheld=True)))
    )
    rows = list(matches)
    if not rows:
        return []
    reply_counts = (
        Turn.objects.filter(replies, conversation__bot__bot_id__in={row[0] for row in rows})
        .order_by()
        .values_list("conversation__bot__bot_id")
        .annotate(n=Count("pk"))
    )
    n_replies = dict(reply_counts)
    return [
        Marked(bot_id, title_of(reply_filters, name), n, withheld, n_replies[bot_id])
        for bot_id, name, n, withheld in rows
    ]


def left_out_words(exclusions: FlagExclusions) -> str:
    """Compose a sentence on the number of excluded participants, by flag."""
    flags = ", ".join(f"{title} ({n})" for title, n in exclusions.by_flag)
    people = plural(exclusions.n_people, "person is", "people are")
    return f"{exclusions.n_left_out} of {exclusions.n_people} {people} excluded: {flags}."


def left_out_sentence(study: Study, excluded_flags: Sequence[str]) -> str:
    """Describe in a report who is excluded; empty if nobody is."""
    if not excluded_flags:
        return ""
    words = left_out_words(left_out_counts(study, excluded_flags))
    return f"{words} Participants with several flags are counted under each."
