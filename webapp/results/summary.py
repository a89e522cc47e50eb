"""Summary of the ratings of a study's bots: means with intervals, votes, pairs too close to order.

Reads only, a constant number of queries however many conversations there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Count, QuerySet

from evaluation.ratings import Dimension
from evaluation.reasons import Reason
from evaluation.stats.intervals import Interval
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import synthetic_count
from webapp.ratings.bots import MODEL, NO_MODEL, BotInfo, study_bots
from webapp.ratings.models import Rating
from webapp.ratings.selectors import (
    as_counted,
    dimensions_led,
    ratings_counted,
    study_conversations,
    study_dimensions,
    study_ratings,
    study_whole,
)
from webapp.reading.totals import conversations_by_bot
from webapp.reading.votes import replies_of_bots
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items

if TYPE_CHECKING:
    from evaluation.analysis.comparisons import BotMeans, Comparisons

_NO_RATING = Reason("no_rating_yet", "no rating yet")


@dataclass(frozen=True, slots=True)
class BotSummary:
    """One bot's ratings and votes; where items are rated, `n_conversations` is the number of its items."""

    bot: BotInfo
    n_conversations: int
    n_ratings: int
    intervals: dict[str, Interval]
    n_replies: int
    votes_up: int
    votes_down: int


@dataclass(frozen=True, slots=True)
class StudySummary:
    """All bots of a study, by the mean of the leading dimension, best first.

    Attributes:
        means: of every bot with a rating; compared: every pair of them by the leading dimension, without
            plans. Both None without a rating.
    """

    dimensions: list[Dimension]
    bots: list[BotSummary]
    n_synthetic: int
    means: BotMeans | None = None
    compared: Comparisons | None = None

    @property
    def n_ratings(self) -> int:
        """Ratings of all bots."""
        return sum(bot.n_ratings for bot in self.bots)


def bot_summary(
    study: Study,
    *,
    include_synthetic: bool = False,
    include_failed: bool = False,
    without: Sequence[str] = (),
    found: tuple[BotMeans, Comparisons] | None = None,
) -> StudySummary:
    """Summarise every bot of the study: means with intervals, votes and orderings.

    Args:
        without: names of flags; what people with one of them did is left out.
        found: means and comparisons of these conversations, where they are there; else they are computed.
    """
    questions = [as_counted(dimension) for dimension in study_dimensions(study)]
    dimensions = dimensions_led(questions, study_whole(study))
    bots = study_bots(study)
    counted: dict[str, Any] = {
        "include_synthetic": include_synthetic,
        "include_failed": include_failed,
        "without": without,
    }
    conversations = study_conversations(study, **counted)
    rated = ratings_counted(study, **counted)
    counts = _counts(study, conversations, rated)
    replies = replies_of_bots(study, conversations)
    if found is None:
        found = _results(study, counted)
    means, compared = found or (None, None)
    n_ratings = means.n_ratings if means is not None else {}
    summaries = [
        BotSummary(
            bot=bot,
            n_conversations=counts.get(bot_id, 0),
            n_ratings=n_ratings.get(bot_id, 0),
            intervals=(means.intervals(bot_id) if means is not None else {})
            or {d.key: Interval(None, None, None, 0, _NO_RATING) for d in dimensions},
            n_replies=replies[bot_id]["replies"],
            votes_up=replies[bot_id]["up"],
            votes_down=replies[bot_id]["down"],
        )
        for bot_id, bot in bots.items()
    ]
    return StudySummary(
        dimensions=dimensions,
        bots=sorted(summaries, key=lambda bot: _rank(bot, dimensions)),
        n_synthetic=synthetic_count(study),
        means=means,
        compared=compared,
    )


def _counts(
    study: Study, conversations: QuerySet[Conversation], rated: QuerySet[Rating]
) -> dict[str, int]:
    """Return the number of conversations of each bot, or of rated items of each model."""
    if judges_items(study):
        of_models = rated.order_by().values_list(MODEL).annotate(n=Count("item", distinct=True))
        return {model or NO_MODEL: n for model, n in of_models}
    return conversations_by_bot(conversations)


def _rank(summary: BotSummary, dimensions: Sequence[Dimension]) -> tuple[float, str, int]:
    """Return the key that sorts bots best first, equals by name and bots without a rating last, in their own order."""
    leading = summary.intervals[dimensions[0].key].mean if dimensions else None
    if leading is None:
        return float("inf"), "", summary.bot.slot
    return -leading, summary.bot.bot_id, summary.bot.slot


def _results(study: Study, counted: Mapping[str, Any]) -> tuple[BotMeans, Comparisons] | None:
    """Compute everything that is resampled; None without a rating."""
    from evaluation.analysis.comparisons import bot_means, compare

    ratings = study_ratings(study, **counted)
    if not len(ratings) or not ratings.dimensions:
        return None
    return bot_means(ratings), compare(ratings, plans=False)
