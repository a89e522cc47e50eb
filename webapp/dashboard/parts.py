"""The parts of a study's analysis, for pages and the report: results of `webapp.dashboard.results` put into words."""

from __future__ import annotations

from collections.abc import Callable

from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.results import study_point, study_trajectories
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.dashboard.wording.trajectories import group_title, point_table, trajectories_section


def trajectories_part(data: StudyData) -> Section:
    """Return how conversations unfold."""
    return trajectories_section(
        study_trajectories(data, "best-worst"),
        study_trajectories(data, "by-trait"),
        headline=data.headline,
        study_key=data.study.key,
        point_link=data.point_link,
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
