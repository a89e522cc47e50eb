"""Results of a study's analysis, each computed from the database: `PARTS`.

Pages, the report and `report --json` read the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from evaluation.analysis.answers import AnswerDistributions, DimensionAnswers, answers, dimension_answers
from evaluation.analysis.bot_means import BotMeans, bot_means
from evaluation.analysis.comparisons import Comparisons, compare
from evaluation.analysis.conditions import ConditionResults, condition_results
from evaluation.analysis.correlations import (
    FEWEST,
    CorrelationMatrix,
    CorrelationRow,
    HybridCorrelations,
    bot_matrix,
    dimension_matrix,
    get_distinct_columns,
    mean_by_bot,
    metric_matrix,
)
from evaluation.analysis.formula_model import FormulaModel
from evaluation.analysis.planning import RaterPlan, plan_raters
from evaluation.analysis.population import PopulationResult, population_result
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.analysis.rating_models import RatingModels, rating_models
from evaluation.analysis.trajectories import (
    Grouping,
    Kind,
    TrajectoryResult,
    best_and_worst,
    by_trait,
    get_point_values,
    trajectories,
)
from evaluation.data.populations import read_margins
from evaluation.replacement.result import ReplacementResult
from webapp.conversations.selectors import chat_seconds
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.analysis_tables import VOTES, metric_frame, participants_of, scales_of, turn_values
from webapp.jobs.selectors.fits import fit_leading, fits_newest
from webapp.jobs.selectors.metrics import metric_titles
from webapp.jobs.selectors.selfplay import run_with_metrics
from webapp.ratings.selectors import CountedWork, study_conversations, study_ratings
from webapp.results.bot_means import StudyPowered, study_powered
from webapp.results.fingerprint import Reads
from webapp.results.formula_models import study_model
from webapp.results.helped_means import StudyHelped, study_helped
from webapp.results.item_results import StudyItems, study_items
from webapp.results.replacement import study_replacement
from webapp.results.study_data import StudyData
from webapp.studies.models import Participant, Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import participant_backgrounds, questions_of_study

TRAITS = ("EI", "persona")
"""Factors whose levels are compared turn by turn, the first that the bots carry."""
MEASURES: dict[Kind, tuple[str, ...]] = {
    "best-worst": (VOTES, "words_user", "sentiment_user", "word_coherence_average_user_bot"),
    "by-trait": ("words_user", "laughter_user", "word_coherence_average_user_bot", "sentiment_user"),
}


def _grouping(data: StudyData, kind: Kind) -> Grouping:
    if kind == "by-trait":
        return by_trait(data.per_conversation, data.factors, TRAITS)
    controls = [bot for bot, info in data.bots.items() if info.is_control]
    return best_and_worst(data.per_conversation, data.headline.key, controls)


@dataclass(frozen=True, slots=True)
class StudyTrajectories:
    """Trajectories of conversations: Figures 3 and 4 of the paper."""

    best_worst: TrajectoryResult
    by_trait: TrajectoryResult

    def get_trajectory(self, kind: str) -> TrajectoryResult | None:
        """Return the trajectories of this kind, or None."""
        return next((trajectory for trajectory in self._trajectory_pair if trajectory.grouping.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values by kind."""
        return {trajectory.grouping.kind: trajectory.to_json() for trajectory in self._trajectory_pair}

    @property
    def _trajectory_pair(self) -> tuple[TrajectoryResult, TrajectoryResult]:
        return self.best_worst, self.by_trait


def study_trajectories(data: StudyData) -> StudyTrajectories:
    """Return the trajectories of the paper's measures; none without groups."""
    return StudyTrajectories(_trajectories(data, "best-worst"), _trajectories(data, "by-trait"))


def _trajectories(data: StudyData, kind: Kind) -> TrajectoryResult:
    grouping = _grouping(data, kind)
    # Items and single replies have no trajectory.
    if len(grouping.groups) < 2 or get_protocol(data.study).judges_items or get_protocol(data.study).marks_turns:
        return TrajectoryResult(grouping, ())
    values = turn_values(data.conversations, grouping.conversations, MEASURES[kind])
    people = participants_of(data.conversations, grouping.conversations)
    return trajectories(grouping, values, MEASURES[kind], people, scales_of(MEASURES[kind]))


def study_point(
    study: Study,
    study_courses: StudyTrajectories,
    kind: str,
    column: str,
    group: int,
    exchange: int,
    **counted_work: Unpack[CountedWork],
) -> tuple[Grouping, dict[str, float]] | None:
    """Return the conversations and groups behind a trajectory's point, or None.

    Args:
        kind, column, group: identify the trajectory; the group by its position in the figure.
        exchange: from 1.
    """
    result = study_courses.get_trajectory(kind)
    if result is None or column not in MEASURES[result.grouping.kind]:
        return None
    grouping = result.grouping
    chats = study_conversations(study, **counted_work)
    values = turn_values(chats, grouping.conversations, [column])
    behind = get_point_values(grouping, values.get(column, {}), group, exchange)
    return (grouping, behind) if behind else None


def point_ratings(study: Study, conversations: Sequence[str], key: str) -> dict[str, tuple[str, float]]:
    """Return bot and mean rating of a few conversations, by conversation.

    Args:
        key: key of the averaged measure: a dimension or the headline.
    """
    means = study_ratings(study, only=conversations).per_conversation()
    return {str(pk): (str(row["bot"]), float(row[key])) for pk, row in means.iterrows()}


@dataclass(frozen=True, slots=True)
class StudyCorrelations:
    """Three correlation matrices of a study; None if empty.

    Attributes:
        fit: id of the hybrid fit shown in them.
        run: id of the self-play run whose metrics are correlated with ratings.
    """

    dimensions: CorrelationMatrix | None
    metrics: CorrelationMatrix | None
    bots: CorrelationMatrix | None
    fit: int | None
    run: int | None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        matrices = {"dimensions": self.dimensions, "metrics": self.metrics, "bots": self.bots}
        return {
            "fit": self.fit,
            "run": self.run,
            **{kind: matrix.to_json() if matrix else None for kind, matrix in matrices.items()},
        }


def study_correlations(data: StudyData, run: SelfPlayRun | None = None) -> StudyCorrelations:
    """Return the correlations in a study.

    Args:
        run: self-play run to use; None: that of the leading fit, or the newest with enough of the bots.
    """
    fit = fit_leading(data.study, data.excluded_flags)
    hybrid = HybridCorrelations(fit.result) if fit is not None and fit.result else None
    bots = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    run = run or (fit.run if fit is not None else None) or run_with_metrics(bots, FEWEST)
    among = dimension_matrix(data.ratings) if len(data.dimensions) > 1 else None
    over_bots = bot_matrix(
        _known_of_bots(data, run),
        {d.key: mean_by_bot(data.ratings.values(d.key), data.bot, bots) for d in data.all_dimensions},
        bots,
        hybrid,
    )
    return StudyCorrelations(
        among,
        _metrics(data, hybrid),
        over_bots if over_bots.n_corrected else None,
        fit.pk if fit is not None else None,
        run.pk if run is not None else None,
    )


def _metrics(data: StudyData, hybrid: HybridCorrelations | None) -> CorrelationMatrix | None:
    """Return metrics and ratings by conversation, without controls; None without metrics."""
    ratings = data.per_conversation
    frame = data.metrics.reindex(ratings.index)
    columns = [
        name for name in metric_titles(ingredients=False) if name in frame and frame[name].notna().sum() >= FEWEST
    ]
    if not columns:
        return None
    keep = ~ratings["bot"].isin([bot for bot, info in data.bots.items() if info.is_control])
    keys = [dimension.key for dimension in data.all_dimensions]
    return metric_matrix(ratings[keep], frame.loc[keep, columns], keys, hybrid)


def _known_of_bots(data: StudyData, run: SelfPlayRun | None) -> Sequence[tuple[CorrelationRow, dict[str, float]]]:
    """Return the known values of the bots.

    They come from self-play, their own figures, and their rated chats.
    """
    titles = metric_titles(ingredients=False)
    known: list[tuple[CorrelationRow, dict[str, float]]] = []
    if run is not None:
        table = metric_frame(run=run)
        played = table.groupby("bot")[[name for name in titles if name in table]].mean()
        known += [(row, _by_bot(played[row.name])) for row in get_distinct_columns(played, titles)]
    known += [(CorrelationRow(name, "bot"), values) for name, values in data.bot_columns.items()]
    frame = data.metrics
    chats = frame.groupby("bot")[[name for name in titles if name in frame]].mean()
    known += [(CorrelationRow(str(name), "chats"), _by_bot(chats[name])) for name in chats.columns]
    return known


def _by_bot(column: Any) -> dict[str, float]:
    return {str(bot): float(value) for bot, value in column.items()}


@dataclass(frozen=True, slots=True)
class StudyComparisons:
    """Means of the bots, significant differences, and raters needed.

    Attributes:
        compared: all pairs by the headline measure, with planned sample sizes.
        planned: raters needed for relevant differences; None with one bot.
    """

    means: BotMeans
    compared: Comparisons
    planned: RaterPlan | None

    def to_json(self) -> dict[str, Any]:
        """Return the comparisons as plain JSON values."""
        return self.compared.to_json()


def study_comparisons(data: StudyData) -> StudyComparisons:
    """Return means, comparisons and plans."""
    planned = plan_raters(data.ratings) if len(data.rated_bots) > 1 else None
    return StudyComparisons(bot_means(data.ratings), compare(data.ratings), planned)


@dataclass(frozen=True, slots=True)
class StudyDimensions:
    """Significant pairs of bots for every question.

    Attributes:
        compared: comparisons by question key, headline first, without planned sample sizes.
    """

    compared: Mapping[str, Comparisons]

    def to_json(self) -> dict[str, Any]:
        """Return the comparisons as plain JSON values, by question."""
        return {key: comparisons.to_json() for key, comparisons in self.compared.items()}


def _dimensions_compared(data: StudyData) -> StudyDimensions:
    """Compare all bots by every question, each corrected for its own pairs."""
    dimension_keys = {
        dimension.key: None if dimension == data.headline else dimension.key for dimension in data.all_dimensions
    }
    return StudyDimensions(
        {key: compare(data.ratings, dimension_key, plans=False) for key, dimension_key in dimension_keys.items()}
    )


def study_population(data: StudyData) -> PopulationResult:
    """Return the bots weighted to the study's population, and by group of participants.

    Scripted participants count only as long as nobody else has rated: readers know their ratings and could subtract
    them, so they must not make a group large enough to be shown.
    """
    planning, ratings = data.study.values.planning, data.ratings
    if data.counted_work.get("include_synthetic"):
        people = Participant.objects.filter(study=data.study, is_synthetic=False).values_list("pk", flat=True)
        is_person = np.isin(ratings.rater.astype(str), [str(pk) for pk in people])
        ratings = ratings.select(is_person) if is_person.any() else ratings
    backgrounds = participant_backgrounds(data.study)
    margins = {key: shares for key, shares in read_margins(planning.margins).items() if key in backgrounds}
    return population_result(ratings, backgrounds, margins, smallest=planning.smallest_group)


@dataclass(frozen=True, slots=True)
class StudyAnswers:
    """Distribution of the answers.

    Attributes:
        headline: distribution of the headline measure: a question, or the mean of several.
        answers: distribution of every question.
    """

    headline: DimensionAnswers
    answers: AnswerDistributions

    def to_json(self) -> dict[str, Any]:
        """Return the answers as plain JSON values."""
        return self.answers.to_json()


def study_answers(data: StudyData) -> StudyAnswers:
    """Return the distribution of the answers over the study's bots."""
    return StudyAnswers(dimension_answers(data.ratings), answers(data.ratings, list(data.bots)))


def study_raters(data: StudyData) -> RaterAnalysis:
    """Return raters' agreement, scale use, and raters flagged by filters."""
    return analyse_raters(data.ratings, seconds=chat_seconds(data.conversations), turned=data.turned)


@dataclass(frozen=True, slots=True)
class AnalysisPart:
    """Kind of analysis result.

    Attributes:
        type: class of the result.
        make: computes it from a study and, if needed, a self-play run (None: chosen automatically).
        reads: its input besides ratings.
    is_costly: True if a worker computes it even for small studies.
    """

    type: type[Any]
    make: Callable[[StudyData, SelfPlayRun | None], Any]
    reads: tuple[Reads, ...] = ()
    is_costly: bool = False


PARTS: dict[str, AnalysisPart] = {
    "comparisons": AnalysisPart(StudyComparisons, lambda data, run: study_comparisons(data)),
    "dimensions": AnalysisPart(StudyDimensions, lambda data, run: _dimensions_compared(data)),
    "conditions": AnalysisPart(ConditionResults, lambda data, run: condition_results(data.ratings)),
    "population": AnalysisPart(PopulationResult, lambda data, run: study_population(data)),
    "answers": AnalysisPart(StudyAnswers, lambda data, run: study_answers(data)),
    "helped": AnalysisPart(StudyHelped, lambda data, run: study_helped(data)),
    "items": AnalysisPart(StudyItems, lambda data, run: study_items(data), ("criteria",)),
    "models": AnalysisPart(RatingModels, lambda data, run: rating_models(data.ratings, data.factors)),
    "formula": AnalysisPart(FormulaModel, lambda data, run: study_model(data)),
    "raters": AnalysisPart(RaterAnalysis, lambda data, run: study_raters(data)),
    "trajectories": AnalysisPart(StudyTrajectories, lambda data, run: study_trajectories(data), ("metrics",)),
    "correlations": AnalysisPart(StudyCorrelations, study_correlations, ("metrics", "runs")),
    "powered": AnalysisPart(StudyPowered, lambda data, run: study_powered(data), ("metrics", "runs")),
    "replacement": AnalysisPart(
        ReplacementResult, study_replacement, ("metrics", "runs", "candidates"), is_costly=True
    ),
}
"""All results of a study by name; rows of jobs store the names, so never rename one."""


def parts_of(study: Study) -> list[str]:
    """Return the parts of a study's report.

    Parts by condition need factors, by group questions before tasks, and means with a helper a helper; custom models
    are not included.
    """
    absent = {"formula"} | (set() if study.values.conditions.factors else {"conditions"})
    absent |= set() if has_backgrounds(study) else {"population"}
    absent |= set() if study.helpers.exists() else {"helped"}
    return [name for name in PARTS if name not in absent]


def has_backgrounds(study: Study) -> bool:
    """Return True if participants can be grouped by a question before tasks."""
    return any(question.is_background for question in questions_of_study(study))


def explanation_parts(study: Study) -> list[str]:
    """Return the parts that explain a study's ratings, in the order of their page.

    Studies of chats have no items, unless errors are marked in their replies. Studies of items have no trajectories and
    no metrics; studies of single replies have no trajectories.
    """
    protocol = get_protocol(study)
    absent = {"trajectories", "powered"} if protocol.judges_items else {"items"}
    if protocol.marks_turns:
        absent.add("trajectories")
    if protocol.marks_errors:
        absent.remove("items")
    parts = ("items", "models", "formula", "raters", "answers", "trajectories", "correlations", "powered")
    return [part for part in parts if part not in absent]


def hybrid_json(study: Study, excluded_flags: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the stored hybrid fits as JSON, the leading one first.

    Args:
        excluded_flags: names of flags; only fits that exclude participants with one of these.
    """
    return [{"fit": fit.pk, **(fit.result or {})} for fit in fits_newest(study, excluded_flags)]
