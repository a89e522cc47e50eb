"""What people thought of each bot of a study: means with intervals, votes, pairs too close to order.

Reads only, a constant number of queries however many conversations there are. Resampling is kept in
the cache under the newest change of the ratings it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.cache import cache
from django.db.models import Count, Max, Q, QuerySet

from evaluation.ratings import Dimension, Ratings
from evaluation.stats.bootstrap import Interval
from evaluation.stats.compare import ORDER_ALPHA, Comparison
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.bots import BotInfo, study_bots
from webapp.ratings.models import Rating
from webapp.ratings.selectors import (
    as_counted,
    dimensions_led,
    study_conversations,
    study_dimensions,
    study_ratings,
    study_whole,
)
from webapp.studies.models import Study

LEVEL = 0.90
"""Of the intervals of means."""
_CACHE_S = 3600


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

    dimensions: list[Dimension]
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


def bot_summary(
    study: Study, *, include_synthetic: bool = False, include_failed: bool = False
) -> StudySummary:
    """Means with intervals, votes and orderings for every bot of the study."""
    questions = [as_counted(dimension) for dimension in study_dimensions(study)]
    dimensions = dimensions_led(questions, study_whole(study))
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


def _rank(summary: BotSummary, dimensions: Sequence[Dimension]) -> tuple[float, int]:
    leading = summary.intervals[dimensions[0].key].mean if dimensions else None
    return (float("inf") if leading is None else -leading, summary.bot.slot)


def _numbers(
    study: Study,
    dimensions: Sequence[Dimension],
    conversations: QuerySet[Conversation],
    flags: tuple[bool, bool],
) -> dict[str, Any]:
    """Everything resampled, from the cache where no rating has changed since."""
    stamp = Rating.objects.filter(conversation__in=conversations).aggregate(
        n=Count("pk"), newest=Max("updated_at"), changed=Max("conversation__updated_at")
    )
    turned = ",".join(dimension.key for dimension in dimensions if dimension.reversed)
    key = (
        f"bot-summary-3:{study.pk}:{study.rubric_id}:{turned}:{flags[0]:d}{flags[1]:d}:{stamp['n']}:"
        f"{stamp['newest'].timestamp()}:{stamp['changed'].timestamp()}"
        if stamp["n"]
        else None
    )
    found = cache.get(key) if key else None
    if found is None:
        ratings = study_ratings(study, include_synthetic=flags[0], include_failed=flags[1])
        found = _compute(ratings, dimensions)
        if key:
            cache.set(key, found, _CACHE_S)
    return found


def _compute(ratings: Ratings, dimensions: Sequence[Dimension]) -> dict[str, Any]:
    from evaluation.stats.bootstrap import mean_interval
    from evaluation.stats.compare import pairwise, too_close

    present = sorted(ratings.bots)
    intervals: dict[str, dict[str, Interval]] = {}
    for bot_id in present:
        of_bot = ratings.bot == bot_id
        intervals[bot_id] = {
            d.key: mean_interval(
                ratings.values(d.key)[of_bot], list(ratings.unit[of_bot]), level=LEVEL
            )
            for d in dimensions
        }
    pairs = []
    if dimensions and len(present) > 1:
        pairs = pairwise(
            ratings.values(), ratings.bot.tolist(), ratings.unit.tolist(), level=1 - ORDER_ALPHA
        )
    tested = [pair for pair in pairs if pair.p is not None]
    return {
        "n": {bot_id: int((ratings.bot == bot_id).sum()) for bot_id in present},
        "intervals": intervals,
        "too_close": too_close(tested),
        "n_pairs": len(tested),
        "comparisons": pairs,
        "untested": sorted({f"{p.a} and {p.b}: {p.reason}" for p in pairs if p.p is None}),
    }
