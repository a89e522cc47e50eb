"""The results of a study, each made from what is stored: what pages, the report and `report --json` read."""

from __future__ import annotations

from evaluation.analysis.trajectories import (
    Grouping,
    Kind,
    TrajectoryResult,
    behind_point,
    best_and_worst,
    by_trait,
    trajectories,
)
from webapp.dashboard.analysis.study_data import StudyData
from webapp.runs.selectors.courses import VOTES, turn_values

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
