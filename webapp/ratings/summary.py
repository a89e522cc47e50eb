"""What people thought of each bot of a study: means with intervals, votes, pairs too close to order.

Reads only, a constant number of queries however many conversations there are. Resampling is kept in
the cache under the newest change of the ratings it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.core.cache import cache
from django.db.models import Count, Max, Q, QuerySet
from django.utils.translation import gettext as _

from evaluation.stats.bootstrap import Interval
from evaluation.stats.compare import ORDER_ALPHA, Comparison
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study

LEVEL = 0.90
"""Of the intervals of means."""
_CACHE_S = 3600
_OVERALL = ("quality", "overall", "overall_quality")
"""Keys by which the question about the whole is known."""
_PERSON = "p "
"""Begins the name of a unit that is a person."""
MEAN_KEY = "mean_of_all"
"""Of the mean of all dimensions, where no question is about the whole."""


@dataclass(frozen=True, slots=True)
class DimensionInfo:
    """One question of the rubric."""

    key: str
    title: str
    low: float
    high: float
    low_label: str = ""
    high_label: str = ""


@dataclass(frozen=True, slots=True)
class BotInfo:
    """A bot of a study with its slot: the place that fixes its mark on every page, from 1."""

    bot_id: str
    title: str
    slot: int
    is_control: bool


@dataclass(frozen=True, slots=True)
class BotSummary:
    """One bot's ratings and votes."""

    bot: BotInfo
    n_conversations: int
    n_ratings: int
    intervals: dict[str, Interval]
    n_replies: int
    votes_up: int
    votes_down: int


@dataclass(frozen=True, slots=True)
class StudySummary:
    """All bots of a study, by the mean of the leading dimension, best first."""

    dimensions: list[DimensionInfo]
    bots: list[BotSummary]
    n_synthetic: int
    too_close: list[tuple[str, str]]
    n_pairs: int
    level: float = LEVEL
    untested: list[str] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    """Of every pair of bots by the leading dimension."""

    @property
    def n_ratings(self) -> int:
        """Ratings of all bots."""
        return sum(bot.n_ratings for bot in self.bots)

    @property
    def n_told_apart(self) -> int:
        """Pairs that people can tell apart: in order by Holm's correction for all `n_pairs` tested."""
        return sum(pair.ordered for pair in self.comparisons)


@dataclass(frozen=True, slots=True)
class RatingTable:
    """Ratings of a study as columns, all of one length.

    Attributes:
        bot_ids: whom each rates.
        units: what is resampled whole: the participant who rated, or the conversation where nobody is
            named (names like "slot 1" in imported data are no persons).
        conversations: which conversation.
        answers: per dimension, NaN where not answered.
    """

    bot_ids: list[str]
    units: list[str]
    conversations: list[str]
    answers: dict[str, np.ndarray]

    @property
    def n_raters(self) -> int:
        """People who gave one of these ratings; who is not named is not counted."""
        return len({unit for unit in self.units if unit.startswith(_PERSON)})


def study_conversations(
    study: Study, *, include_synthetic: bool = False, include_failed: bool = False
) -> QuerySet[Conversation]:
    """Conversations that count for the study's numbers."""
    states = [Conversation.State.COMPLETED]
    if include_failed:
        states.append(Conversation.State.FAILED)
    found = Conversation.objects.filter(study=study, state__in=states).exclude(
        source=Conversation.Source.SELFPLAY
    )
    return found if include_synthetic else found.filter(is_synthetic=False)


def study_dimensions(study: Study) -> list[DimensionInfo]:
    """The rubric's questions in order, the one about the whole before all others; the first one leads."""
    rubric = study.rubric
    found = [
        DimensionInfo(
            dimension.key,
            dimension.title,
            rubric.low if dimension.low is None else dimension.low,
            rubric.high if dimension.high is None else dimension.high,
            dimension.low_label,
            dimension.high_label,
        )
        for dimension in rubric.dimensions.all()
    ]
    return sorted(found, key=lambda dimension: dimension.key not in _OVERALL)


def study_headline(study: Study, dimensions: Sequence[DimensionInfo]) -> DimensionInfo | None:
    """What the study's bots are ranked by; None without any question.

    The question about the whole. Without one the first, or the mean of all of them in imported ratings:
    there the order of the questions means nothing.
    """
    if not dimensions:
        return None
    first = dimensions[0]
    scales = {(dimension.low, dimension.high) for dimension in dimensions}
    if not study.is_imported or first.key in _OVERALL or len(dimensions) == 1 or len(scales) > 1:
        return first
    return DimensionInfo(MEAN_KEY, _("Mean of all dimensions"), first.low, first.high)


def study_whole(study: Study) -> list[str]:
    """Keys of the questions whose mean is the headline: what a hybrid metric predicts unless told otherwise."""
    dimensions = study_dimensions(study)
    headline = study_headline(study, dimensions)
    if headline is None:
        return []
    if headline.key == MEAN_KEY:
        return [dimension.key for dimension in dimensions]
    return [headline.key]


def with_headline(study: Study, dimensions: list[DimensionInfo]) -> list[DimensionInfo]:
    """The dimensions, led by the headline."""
    headline = study_headline(study, dimensions)
    return dimensions if headline is None or headline in dimensions else [headline, *dimensions]


def study_bots(study: Study) -> dict[str, BotInfo]:
    """Every bot of the study and of its conversations, with its slot.

    The study's own order comes first; bots met only in the data follow by name. Controls are those
    registered so and those that the study's own table of bots calls so.
    """
    seen = {
        row["bot__bot_id"]: row
        for row in Conversation.objects.filter(study=study)
        .values("bot__bot_id", "bot__title", "bot__is_control")
        .order_by("bot__bot_id")
        .distinct()
    }
    ids = list(dict.fromkeys([*study.bots, *sorted(seen)]))
    registered = _registered(set(ids) - set(seen))
    marked = BotColumns.from_json(study.bot_columns).control
    bots = {}
    for slot, bot_id in enumerate(ids, start=1):
        row = seen.get(bot_id)
        title, control = registered.get(bot_id, (bot_id, False))
        if row is not None:
            title, control = row["bot__title"], row["bot__is_control"]
        bots[bot_id] = BotInfo(bot_id, title or bot_id, slot, control or bot_id in marked)
    return bots


def _registered(ids: set[str]) -> dict[str, tuple[str, bool]]:
    if not ids:
        return {}
    from chatbots.registry import bots as registry
    from webapp.bots.selectors import bots_discover

    bots_discover()
    return {bot.name: (bot.title, bot.is_control) for bot in registry if bot.name in ids}


def rating_table(
    study: Study, dimensions: Sequence[DimensionInfo], conversations: QuerySet[Conversation]
) -> RatingTable:
    """All ratings of these conversations, as columns."""
    rows = list(
        Rating.objects.filter(conversation__in=conversations)
        .order_by("pk")
        .values_list(
            "pk",
            "conversation__bot__bot_id",
            "participant_id",
            "conversation_id",
            "answers",
        )
    )
    answers = {
        dimension.key: np.array([_value(row[4].get(dimension.key)) for row in rows], dtype=float)
        for dimension in dimensions
        if dimension.key != MEAN_KEY
    }
    if any(dimension.key == MEAN_KEY for dimension in dimensions):
        # Undefined where one is missing: a mean of fewer questions is another question.
        answers[MEAN_KEY] = np.mean(list(answers.values()), axis=0)
    return RatingTable(
        bot_ids=[row[1] for row in rows],
        units=[f"{_PERSON}{row[2]}" if row[2] else f"c {row[3]}" for row in rows],
        conversations=[str(row[3]) for row in rows],
        answers=answers,
    )


def raters_count(conversations: QuerySet[Conversation]) -> int:
    """People who rated one of these conversations: `RatingTable.n_raters`, counted by the database."""
    rated = Rating.objects.filter(conversation__in=conversations, participant__isnull=False)
    return rated.aggregate(n=Count("participant", distinct=True))["n"]


def _value(answer: Any) -> float:
    return float(answer) if isinstance(answer, int | float) else float("nan")


def bot_summary(
    study: Study, *, include_synthetic: bool = False, include_failed: bool = False
) -> StudySummary:
    """Means with intervals, votes and orderings for every bot of the study."""
    dimensions = with_headline(study, study_dimensions(study))
    bots = study_bots(study)
    conversations = study_conversations(
        study, include_synthetic=include_synthetic, include_failed=include_failed
    )
    counts = {
        row["bot__bot_id"]: row["n"]
        for row in conversations.values("bot__bot_id").annotate(n=Count("pk"))
    }
    votes: dict[str, dict[str, int]] = {
        row["conversation__bot__bot_id"]: row  # type: ignore[misc]
        for row in Turn.objects.filter(conversation__in=conversations, speaker=Turn.Speaker.BOT)
        .order_by()
        .values("conversation__bot__bot_id")
        .annotate(
            n=Count("pk"), up=Count("pk", filter=Q(vote=1)), down=Count("pk", filter=Q(vote=-1))
        )
    }
    n_synthetic = Conversation.objects.filter(study=study, is_synthetic=True).count()
    numbers = _numbers(study, dimensions, conversations, (include_synthetic, include_failed))
    found = [
        BotSummary(
            bot=bot,
            n_conversations=counts.get(bot_id, 0),
            n_ratings=numbers["n"].get(bot_id, 0),
            intervals=numbers["intervals"].get(bot_id)
            or {d.key: Interval(None, None, None, 0, "no rating yet") for d in dimensions},
            n_replies=votes.get(bot_id, {}).get("n", 0),
            votes_up=votes.get(bot_id, {}).get("up", 0),
            votes_down=votes.get(bot_id, {}).get("down", 0),
        )
        for bot_id, bot in bots.items()
    ]
    return StudySummary(
        dimensions=dimensions,
        bots=sorted(found, key=lambda bot: _rank(bot, dimensions)),
        n_synthetic=n_synthetic,
        too_close=numbers["too_close"],
        n_pairs=numbers["n_pairs"],
        untested=numbers["untested"],
        comparisons=numbers["comparisons"],
    )


def _rank(summary: BotSummary, dimensions: Sequence[DimensionInfo]) -> tuple[float, int]:
    leading = summary.intervals[dimensions[0].key].mean if dimensions else None
    return (float("inf") if leading is None else -leading, summary.bot.slot)


def _numbers(
    study: Study,
    dimensions: Sequence[DimensionInfo],
    conversations: QuerySet[Conversation],
    flags: tuple[bool, bool],
) -> dict[str, Any]:
    """Everything resampled, from the cache where no rating has changed since."""
    stamp = Rating.objects.filter(conversation__in=conversations).aggregate(
        n=Count("pk"), newest=Max("updated_at"), changed=Max("conversation__updated_at")
    )
    key = (
        f"bot-summary-2:{study.pk}:{study.rubric_id}:{flags[0]:d}{flags[1]:d}:{stamp['n']}:"
        f"{stamp['newest'].timestamp()}:{stamp['changed'].timestamp()}"
        if stamp["n"]
        else None
    )
    found = cache.get(key) if key else None
    if found is None:
        found = _compute(rating_table(study, dimensions, conversations), dimensions)
        if key:
            cache.set(key, found, _CACHE_S)
    return found


def _compute(table: RatingTable, dimensions: Sequence[DimensionInfo]) -> dict[str, Any]:
    from evaluation.stats.bootstrap import mean_interval
    from evaluation.stats.compare import pairwise, too_close

    bots = np.array(table.bot_ids, dtype=object)
    units = np.array(table.units, dtype=object)
    present = sorted(set(table.bot_ids))
    intervals: dict[str, dict[str, Interval]] = {}
    for bot_id in present:
        of_bot = bots == bot_id
        intervals[bot_id] = {
            d.key: mean_interval(table.answers[d.key][of_bot], list(units[of_bot]), level=LEVEL)
            for d in dimensions
        }
    pairs = []
    if dimensions and len(present) > 1:
        pairs = pairwise(
            table.answers[dimensions[0].key],
            table.bot_ids,
            table.units,
            level=1 - ORDER_ALPHA,
        )
    tested = [pair for pair in pairs if pair.p is not None]
    return {
        "n": {bot_id: int((bots == bot_id).sum()) for bot_id in present},
        "intervals": intervals,
        "too_close": too_close(tested),
        "n_pairs": len(tested),
        "comparisons": pairs,
        "untested": sorted({f"{p.a} and {p.b}: {p.reason}" for p in pairs if p.p is None}),
    }
