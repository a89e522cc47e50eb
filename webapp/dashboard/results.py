"""The results of a study, each made from what is stored: what pages, the report and `report --json` read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.answers import answers
from evaluation.analysis.comparisons import with_plans
from evaluation.analysis.correlations import (
    FEWEST,
    CorrelationMatrix,
    HybridCorrelations,
    Row,
    bot_matrix,
    counted_once,
    dimension_matrix,
    mean_by_bot,
    metric_matrix,
)
from evaluation.analysis.models import RatingModels, rating_models
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.analysis.trajectories import (
    Grouping,
    Kind,
    TrajectoryResult,
    behind_point,
    best_and_worst,
    by_trait,
    trajectories,
)
from webapp.conversations.selectors import chat_seconds
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.column_titles import metric_titles
from webapp.ratings.summary import bot_summary
from webapp.runs.models import HybridFit, SelfPlayRun
from webapp.runs.selectors.courses import VOTES, turn_values
from webapp.runs.selectors.fits import fit_leading, fits_newest
from webapp.runs.selectors.frames import metric_frame
from webapp.runs.selectors.selfplay import run_with_metrics

TRAITS = ("EI", "persona")
"""Factors whose levels are compared turn by turn, the first that the bots carry."""
MEASURES: dict[Kind, tuple[str, ...]] = {
    "best-worst": (VOTES, "words_user", "sentiment_user", "word_coherence_average_user_bot"),
    "by-trait": (
        "words_user",
        "laughter_user",
        "word_coherence_average_user_bot",
        "sentiment_user",
    ),
}


def grouping_of(data: StudyData, kind: Kind) -> Grouping:
    """Return which conversations of a study are compared."""
    if kind == "by-trait":
        return by_trait(data.per_conversation, data.factors, TRAITS)
    controls = [bot for bot, info in data.bots.items() if info.is_control]
    return best_and_worst(data.per_conversation, data.headline.key, controls)


def study_trajectories(data: StudyData, kind: Kind) -> TrajectoryResult:
    """Return the courses of the paper's measures; without groups to compare there are none."""
    grouping = grouping_of(data, kind)
    if len(grouping.groups) < 2:
        return TrajectoryResult(grouping, ())
    values = turn_values(data.conversations, grouping.conversations, MEASURES[kind])
    return trajectories(grouping, values, MEASURES[kind])


def study_point(
    data: StudyData, kind: str, column: str, group: int, exchange: int
) -> tuple[Grouping, dict[str, float]] | None:
    """Return the conversations behind a point of a course with their values, and the groups; None for no such point.

    Args:
        kind, column, group: which course; the group by its place in the figure.
        exchange: from 1.
    """
    known = next((one for one in MEASURES if one == kind), None)
    if known is None or column not in MEASURES[known]:
        return None
    grouping = grouping_of(data, known)
    values = turn_values(data.conversations, grouping.conversations, [column])
    found = behind_point(grouping, values.get(column, {}), group, exchange)
    return (grouping, found) if found else None


@dataclass(frozen=True, slots=True)
class StudyCorrelations:
    """The three matrices of a study; None where there is nothing to correlate.

    Attributes:
        fit: whose rows stand in them.
        run: self-play whose metrics are set against the bots' ratings.
    """

    dimensions: CorrelationMatrix | None
    metrics: CorrelationMatrix | None
    bots: CorrelationMatrix | None
    fit: HybridFit | None
    run: SelfPlayRun | None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        matrices = {"dimensions": self.dimensions, "metrics": self.metrics, "bots": self.bots}
        return {
            "fit": self.fit.pk if self.fit else None,
            "run": self.run.pk if self.run else None,
            **{kind: matrix.to_json() if matrix else None for kind, matrix in matrices.items()},
        }


def study_correlations(data: StudyData, run: SelfPlayRun | None = None) -> StudyCorrelations:
    """Return what moves together in a study.

    Args:
        run: self-play to set against the ratings; None: that of the leading fit, or the newest that has enough of
            the bots.
    """
    fit = fit_leading(data.study)
    hybrid = HybridCorrelations(fit.result) if fit is not None and fit.result else None
    bots = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    run = run or (fit.run if fit is not None else None) or run_with_metrics(bots, FEWEST)
    among = dimension_matrix(data.ratings) if len(data.dimensions) > 1 else None
    over_bots = bot_matrix(
        _known_of_bots(data, run),
        {
            d.key: mean_by_bot(data.ratings.values(d.key), data.bot, bots)
            for d in data.all_dimensions
        },
        bots,
        hybrid,
    )
    return StudyCorrelations(
        among,
        _metrics(data, hybrid),
        over_bots if over_bots.n_corrected else None,
        fit,
        run,
    )


def _metrics(data: StudyData, hybrid: HybridCorrelations | None) -> CorrelationMatrix | None:
    """Return metrics with ratings over conversations, controls left out; None where no metric is computed."""
    ratings = data.per_conversation
    frame = data.metrics.reindex(ratings.index)
    columns = [
        name for name in metric_titles() if name in frame and frame[name].notna().sum() >= FEWEST
    ]
    if not columns:
        return None
    keep = ~ratings["bot"].isin([bot for bot, info in data.bots.items() if info.is_control])
    keys = [dimension.key for dimension in data.all_dimensions]
    return metric_matrix(ratings[keep], frame.loc[keep, columns], keys, hybrid)


def _known_of_bots(
    data: StudyData, run: SelfPlayRun | None
) -> Sequence[tuple[Row, dict[str, float]]]:
    """Return what is known of the bots: self-play, their own figures, and their rated chats."""
    titles = metric_titles()
    known: list[tuple[Row, dict[str, float]]] = []
    if run is not None:
        table = metric_frame(run=run)
        played = table.groupby("bot")[[name for name in titles if name in table]].mean()
        known += [(row, _by_bot(played[row.name])) for row in counted_once(played, titles)]
    known += [(Row(name, "bot"), values) for name, values in data.bot_columns.items()]
    frame = data.metrics
    chats = frame.groupby("bot")[[name for name in titles if name in frame]].mean()
    known += [(Row(str(name), "chats"), _by_bot(chats[name])) for name in chats.columns]
    return known


def _by_bot(column: Any) -> dict[str, float]:
    return {str(bot): float(value) for bot, value in column.items()}


def _comparisons(data: StudyData) -> dict[str, Any] | None:
    """Return which bots people can tell apart, with plans for the others; None for a study without ratings."""
    summary = bot_summary(data.study, include_synthetic=data.include_synthetic)
    return with_plans(summary.compared, data.ratings).to_json() if summary.compared else None


def study_models(data: StudyData) -> RatingModels:
    """Return what the ratings depend on."""
    return rating_models(data.ratings, data.factors)


def study_raters(data: StudyData) -> RaterAnalysis:
    """Return whether raters agree, how each uses the scale, and whom rater filters would flag."""
    return analyse_raters(
        data.ratings, seconds=chat_seconds(data.conversations), turned=data.turned
    )


Maker = Callable[[StudyData, SelfPlayRun | None], Any]

RESULTS: dict[str, Maker] = {
    "comparisons": lambda data, run: _comparisons(data),
    "models": lambda data, run: study_models(data).to_json(),
    "answers": lambda data, run: answers(data.ratings, list(data.bots)).to_json(),
    "raters": lambda data, run: study_raters(data).to_json(),
    "hybrid": lambda data, run: [
        {"fit": fit.pk, **(fit.result or {})} for fit in fits_newest(data.study)
    ],
    "trajectories": lambda data, run: {
        kind: study_trajectories(data, kind).to_json() for kind in MEASURES
    },
    "correlations": lambda data, run: study_correlations(data, run).to_json(),
}
"""Every result of a study by its name: what `report --json` prints."""


def results_json(data: StudyData, run: SelfPlayRun | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the name and the document of every result.

    Args:
        run: self-play to set against the ratings; None: `study_correlations` chooses.
    """
    for name, make in RESULTS.items():
        yield name, make(data, run)
