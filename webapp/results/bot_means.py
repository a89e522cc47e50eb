"""Means of bots: summary of their ratings, and prediction-powered means.

The summary has means with intervals, votes, and pairs too close to order; it is read in a constant number of
queries, however many conversations there are. Prediction-powered means also use unrated conversations, by the
hybrid metric and by every stored metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from django.db.models import Count, QuerySet

from evaluation.analysis.prediction_powered import PoweredMeans, powered_by
from evaluation.data.ratings import RatingDimension
from evaluation.findings import Reason
from evaluation.hybrid.features import HybridError
from evaluation.hybrid.levels import predict_conversations
from evaluation.hybrid.results import KeptFit
from evaluation.stats.means import Interval
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import synthetic_count
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.fits import fit_leading
from webapp.jobs.selectors.metrics import metric_titles
from webapp.ratings.models import Rating
from webapp.ratings.selectors import (
    MODEL_LOOKUP,
    NO_MODEL,
    BotInfo,
    CountedWork,
    as_counted,
    dimensions_led,
    ratings_counted,
    study_bots,
    study_conversations,
    study_dimensions,
    study_ratings,
    study_whole,
)
from webapp.results.study_data import StudyData
from webapp.search.index_statistics import conversations_by_bot, replies_of_bots
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    from evaluation.analysis.bot_means import BotMeans
    from evaluation.analysis.comparisons import Comparisons

_NO_RATING = Reason("no_rating_yet", "no rating yet")


@dataclass(frozen=True, slots=True)
class BotSummary:
    """Ratings and votes of one bot.

    If items are rated, `n_conversations` is the number of its items.
    """

    bot: BotInfo
    n_conversations: int
    n_ratings: int
    intervals: dict[str, Interval]
    n_replies: int
    votes_up: int
    votes_down: int


@dataclass(frozen=True, slots=True)
class StudySummary:
    """All bots of a study by the mean of the leading dimension, best first.

    Attributes:
        means: means of every rated bot; compared: every pair of them by the leading dimension, without plans. Both are
            None without ratings.
    """

    dimensions: list[RatingDimension]
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
    means_and_comparisons: tuple[BotMeans, Comparisons] | None = None,
    **counted_work: Unpack[CountedWork],
) -> StudySummary:
    """Summarise every bot of the study: means with intervals, votes and orderings.

    Args:
        means_and_comparisons: results of these conversations, if already computed.
    """
    questions = [as_counted(dimension) for dimension in study_dimensions(study)]
    dimensions = dimensions_led(questions, study_whole(study))
    bots = study_bots(study)
    conversations = study_conversations(study, **counted_work)
    rated = ratings_counted(study, **counted_work)
    counts = _counts(study, conversations, rated)
    replies = replies_of_bots(study, conversations)
    if means_and_comparisons is None:
        means_and_comparisons = _results(study, counted_work)
    means, compared = means_and_comparisons or (None, None)
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


def _counts(study: Study, conversations: QuerySet[Conversation], rated: QuerySet[Rating]) -> dict[str, int]:
    """Return each bot's number of conversations, or of rated items."""
    if get_protocol(study).judges_items:
        of_models = rated.order_by().values_list(MODEL_LOOKUP).annotate(n=Count("item", distinct=True))
        return {model or NO_MODEL: n for model, n in of_models}
    return conversations_by_bot(conversations)


def _rank(summary: BotSummary, dimensions: Sequence[RatingDimension]) -> tuple[float, str, int]:
    """Return the sort key: best first, ties by name, unrated bots last."""
    leading = summary.intervals[dimensions[0].key].mean if dimensions else None
    if leading is None:
        return float("inf"), "", summary.bot.slot
    return -leading, summary.bot.bot_id, summary.bot.slot


def _results(study: Study, counted_work: CountedWork) -> tuple[BotMeans, Comparisons] | None:
    """Compute all resampled results; None without ratings."""
    from evaluation.analysis.bot_means import bot_means
    from evaluation.analysis.comparisons import compare

    ratings = study_ratings(study, **counted_work)
    if not len(ratings) or not ratings.dimensions:
        return None
    return bot_means(ratings), compare(ratings, plans=False)


HYBRID_SOURCE = "hybrid"
PREFERRED_SOURCE = (HYBRID_SOURCE, "sentiment_user", "words_user")
"""Default metric: the first of these that exists. Fixed, because the best of many looks better than it is."""


@dataclass(frozen=True, slots=True)
class StudyPowered:
    """Means with and without predictions of unrated conversations.

    Attributes:
        first: default predictor; None if there is none.
        fit: id of the predicting hybrid fit, or None.
        n_unrated: number of unrated conversations.
        by: results by predictor: "hybrid" or a metric column.
    """

    first: str | None
    fit: int | None
    n_unrated: int
    by: Mapping[str, PoweredMeans]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "first": self.first,
            "fit": self.fit,
            "n_unrated": self.n_unrated,
            "by": {name: means.to_json() for name, means in self.by.items()},
        }


def study_powered(data: StudyData) -> StudyPowered:
    """Return the gain by predictions of unrated conversations.

    Empty if items are rated.
    """
    if get_protocol(data.study).judges_items:
        return StudyPowered(None, None, 0, {})
    frame = data.metrics
    values = data.ratings.values()
    rated = set(data.ratings.conversation[np.isfinite(values)].tolist())
    is_unrated = ~frame.index.isin(rated) & frame["bot"].isin(data.ratings.bots)
    n_unrated = int(is_unrated.sum())
    if not n_unrated:
        return StudyPowered(None, None, 0, {})
    # A column is useful if both rated and unrated conversations have it.
    predicted = {
        name: frame[name].to_numpy(dtype=float)
        for name in metric_titles(ingredients=False)
        if name in frame and frame.loc[is_unrated, name].notna().any()
    }
    fit = fit_leading(data.study, data.excluded_flags)
    by_fit = None if fit is None else _by_fit(fit, data)
    if by_fit is not None:
        predicted = {HYBRID_SOURCE: by_fit, **predicted}
    powered_means = powered_by(data.ratings, frame.index.tolist(), frame["bot"].tolist(), predicted)
    first = next((name for name in (*PREFERRED_SOURCE, *sorted(powered_means)) if name in powered_means), None)
    return StudyPowered(first, fit.pk if fit is not None and by_fit is not None else None, n_unrated, powered_means)


def _by_fit(fit: HybridFit, data: StudyData) -> np.ndarray | None:
    """Return the fit's predictions; None if it needs values not stored.

    For example, sentence embeddings are not stored.
    """
    try:
        stored_fit = KeptFit.from_json(fit.kept or {})
        predicted = predict_conversations(stored_fit, data.metrics)
    except (HybridError, KeyError):
        return None
    return predicted if np.isfinite(predicted).any() else None
