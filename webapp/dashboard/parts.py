"""The parts of a study's analysis, for pages and the report: results of `webapp.dashboard.results` put into words."""

from __future__ import annotations

from collections.abc import Callable

from evaluation.analysis.correlations import HybridCorrelations
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.results import (
    study_correlations,
    study_models,
    study_point,
    study_raters,
    study_trajectories,
)
from webapp.dashboard.wording.correlations import correlations_section
from webapp.dashboard.wording.hybrid_section import hybrid_section
from webapp.dashboard.wording.models import models_section
from webapp.dashboard.wording.raters import raters_section
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.dashboard.wording.trajectories import group_title, point_table, trajectories_section
from webapp.runs.models import SelfPlayRun
from webapp.runs.selectors.fits import fits_newest


def models_part(data: StudyData) -> Section:
    """Return what the ratings depend on."""
    return models_section(study_models(data), data.headline, data.bots)


def raters_part(data: StudyData, *, names: bool = True) -> Section:
    """Return what is known of the raters.

    Args:
        names: whether to list flagged raters one by one.
    """
    return raters_section(study_raters(data), data.all_dimensions, data.bots, names=names)


def trajectories_part(data: StudyData) -> Section:
    """Return how conversations unfold."""
    return trajectories_section(
        study_trajectories(data, "best-worst"),
        study_trajectories(data, "by-trait"),
        headline=data.headline,
        study_key=data.study.key,
        point_link=data.point_link,
    )


def hybrid_part(data: StudyData) -> Section:
    """Return the stored fits of the hybrid metric."""
    return hybrid_section(
        fits_newest(data.study),
        study_key=data.study.key,
        bots=data.bots,
        dimensions={dimension.key: dimension.title for dimension in data.dimensions},
        link=data.link,
    )


def correlations_part(data: StudyData, run: SelfPlayRun | None = None) -> Section:
    """Return what moves together.

    Args:
        run: self-play whose metrics are set against the bots' ratings; None: `study_correlations` chooses.
    """
    found = study_correlations(data, run)
    result = found.fit.result if found.fit is not None else None
    return correlations_section(
        found.dimensions,
        found.metrics,
        found.bots,
        questions=data.all_dimensions,
        study_key=data.study.key,
        run=found.run.pk if found.run else None,
        hybrid=HybridCorrelations(result) if result else None,
        fit=found.fit.pk if found.fit else None,
        controls_in_fit=any(
            bot in data.bots and data.bots[bot].is_control and of_bot["human_mean"] is not None
            for bot, of_bot in (result or {"bots": {}})["bots"].items()
        ),
    )


def point_part(
    data: StudyData,
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
    found = study_point(data, kind, column, group, exchange)
    if found is None:
        return None
    grouping, values = found
    frame = data.per_conversation.loc[list(values)]
    return point_table(
        values,
        measure=column,
        group=group_title(grouping, group),
        exchange=exchange,
        headline=data.headline,
        bots={str(pk): data.bots[bot] for pk, bot in frame["bot"].items()},
        ratings={str(pk): float(value) for pk, value in frame[data.headline.key].items()},
        link=link,
    )
