"""The parts of a study's analysis, for pages and the report: results of `webapp.results` put into words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evaluation.analysis.correlations import HybridCorrelations
from evaluation.analysis.models import RatingModels
from evaluation.analysis.planning import PredictionWorth, prediction_worth
from evaluation.analysis.raters import RaterAnalysis
from webapp.dashboard.wording.comparisons import comparisons_section
from webapp.dashboard.wording.correlations import correlations_section
from webapp.dashboard.wording.hybrid_section import hybrid_section
from webapp.dashboard.wording.items import items_section
from webapp.dashboard.wording.methods import Sources, methods_section, pair_methods_section
from webapp.dashboard.wording.models import models_section
from webapp.dashboard.wording.pairs import protocols_section
from webapp.dashboard.wording.powered import powered_section
from webapp.dashboard.wording.raters import raters_section
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.dashboard.wording.trajectories import (
    MOST,
    group_title,
    point_table,
    trajectories_section,
)
from webapp.ratings.bots import study_bots
from webapp.ratings.pairs import compares_pairs
from webapp.ratings.selectors import study_conversations, study_whole
from webapp.results.making import (
    StudyComparisons,
    StudyCorrelations,
    StudyTrajectories,
    point_ratings,
    study_point,
)
from webapp.results.pairs import PairPage
from webapp.results.study_data import StudyFrame
from webapp.runs.selectors.bot_facts import bot_versions
from webapp.runs.selectors.fits import fit_by_id, fit_leading, fits_newest
from webapp.runs.selectors.languages import left_out_told, metrics_left_out
from webapp.runs.selectors.metrics import versions_used
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items


def comparisons_part(frame: StudyFrame, found: StudyComparisons) -> Section:
    """Return the section of comparisons between bots."""
    return comparisons_section(frame, found.compared, found.planned, prediction_of(frame))


def prediction_of(frame: StudyFrame) -> PredictionWorth | None:
    """Return the ratings saved by the leading fit's predictions, or None without a fit."""
    fit = fit_leading(frame.study, frame.without)
    if fit is None or not fit.result:
        return None
    return prediction_worth(fit.result, study_whole(frame.study))


def models_part(frame: StudyFrame, found: RatingModels) -> Section:
    """Return the section of models: effects on the ratings."""
    return models_section(found, frame.headline, frame.bots, has_controls=bool(frame.controls))


def raters_part(frame: StudyFrame, found: RaterAnalysis, *, names: bool = True) -> Section:
    """Return the section on the raters.

    Args:
        names: whether to list flagged raters one by one.
    """
    return raters_section(
        found,
        frame.all_dimensions,
        frame.bots,
        names=names,
        of_items=judges_items(frame.study),
    )


def trajectories_part(frame: StudyFrame, found: StudyTrajectories) -> Section:
    """Return the section of trajectories over the turns of conversations."""
    return trajectories_section(
        found.best_worst,
        found.by_trait,
        headline=frame.headline,
        study_key=frame.study.key,
        has_controls=bool(frame.controls),
        point_link=frame.point_link,
    )


def hybrid_part(frame: StudyFrame) -> Section:
    """Return the stored fits of the hybrid metric."""
    return hybrid_section(
        fits_newest(frame.study, frame.without),
        study_key=frame.study.key,
        without=frame.without,
        bots=frame.bots,
        dimensions={dimension.key: dimension.title for dimension in frame.dimensions},
        link=frame.link,
    )


def correlations_part(frame: StudyFrame, found: StudyCorrelations) -> Section:
    """Return the section of correlations."""
    fit = fit_by_id(found.fit) if found.fit is not None else None
    result = fit.result if fit is not None else None
    return correlations_section(
        found.dimensions,
        found.metrics,
        found.bots,
        questions=frame.all_dimensions,
        study_key=frame.study.key,
        run=found.run,
        hybrid=HybridCorrelations(result) if result else None,
        fit=found.fit,
        has_controls=bool(frame.controls),
        controls_in_fit=any(
            bot in frame.bots and frame.bots[bot].is_control and of_bot["human_mean"] is not None
            for bot, of_bot in (result or {"bots": {}})["bots"].items()
        ),
        left_out=left_out_told(metrics_left_out(study=frame.study)),
    )


def protocols_part(study: Study, found: PairPage) -> Section | None:
    """Return one-turn beside interactive evaluation of the study's bots; None where only one of them is there."""
    if found.compared is None or found.other is None:
        return None
    compares = compares_pairs(study)
    one_turn, interactive = (study, found.other) if compares else (found.other, study)
    return protocols_section(
        found.compared,
        found.titles,
        study_bots(interactive),
        one_turn=one_turn.name,
        interactive=interactive.name,
    )


def pair_methods_part(frame: StudyFrame) -> Section:
    """Return the methods section of paired comparisons."""
    questions = list(frame.study.rubric.dimensions.all())
    sources = Sources(bots=bot_versions(frame.study), metrics=[], fits=[], questions=questions)
    return pair_methods_section(frame, sources)


def methods_part(frame: StudyFrame) -> Section:
    """Return the methods section of the analysis."""
    conversations = study_conversations(
        frame.study, include_synthetic=frame.include_synthetic, without=frame.without
    )
    return methods_section(
        frame,
        Sources(
            bots=bot_versions(frame.study),
            metrics=versions_used(conversations),
            fits=fits_newest(frame.study, frame.without),
            questions=list(frame.study.rubric.dimensions.all()),
        ),
    )


SECTIONS: dict[str, Callable[[StudyFrame, Any], Section]] = {
    "comparisons": comparisons_part,
    "items": items_section,
    "models": models_part,
    "raters": raters_part,
    "trajectories": trajectories_part,
    "correlations": correlations_part,
    "powered": powered_section,
}
"""By the name of the part, as in `webapp.results.making.PARTS`."""


def point_part(
    frame: StudyFrame,
    found: StudyTrajectories,
    kind: str,
    column: str,
    group: int,
    exchange: int,
    link: Callable[[str], str],
) -> NamedTable | None:
    """Return the conversations behind a point of a trajectory; None for no such point.

    Args:
        kind, column, group: which course; the group by its place in the figure.
        exchange: from 1.
        link: address of a conversation.
    """
    point = study_point(
        frame.study,
        found,
        kind,
        column,
        group,
        exchange,
        include_synthetic=frame.include_synthetic,
        without=frame.without,
    )
    if point is None:
        return None
    grouping, values = point
    listed = list(values)[:MOST]
    rated = point_ratings(frame.study, listed, frame.headline.key)
    gone = set(listed) - rated.keys()  # since the courses were computed
    values = {pk: value for pk, value in values.items() if pk not in gone}
    return point_table(
        values,
        measure=column,
        group=group_title(grouping, group),
        exchange=exchange,
        headline=frame.headline,
        bots={pk: frame.bots[bot] for pk, (bot, _mean) in rated.items()},
        ratings={pk: mean for pk, (_bot, mean) in rated.items()},
        link=link,
    )
