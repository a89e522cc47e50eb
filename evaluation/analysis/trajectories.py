"""Trajectories of the best and worst conversations, or of bots by trait.

Figures 3 and 4 of Ghandeharioun et al. (2019): the mean by exchange for each group and measure
(`evaluation.stats.trajectories`), and for two groups the difference of their conversations' means. One person's
conversations are correlated and can be in both groups, so errors are clustered by person. With one conversation per
person and an unbounded measure this is Welch's test. p-values are corrected by Holm (1979) over the measures. The best
and worst groups are selected by score, so their means describe only the conversations beyond the cut-off scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evaluation.data.tables import SummarisedResult
from evaluation.findings import Reason
from evaluation.number_format import figure, probability, span
from evaluation.stats.comparisons import holm
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.correlation import is_constant
from evaluation.stats.gls import label_codes
from evaluation.stats.trajectories import N_EXTREME, Course, Difference, course, difference_of_means, extremes
from evaluation.stats.zscores import rater_codes

if TYPE_CHECKING:
    import pandas as pd

SEED = 2019
"""Seed of the draw among conversations at a group's cut-off score."""
MOST_BY_TRAIT = 5000
"""Maximum number of conversations for comparing traits; a sample is drawn from more."""
MOST_LEVELS = 3
"""Maximum number of trait levels in one plot."""

Kind = Literal["best-worst", "by-trait"]
Rows = Mapping[str, Sequence[float | None]]
"""Values by exchange for each conversation."""
Direction = Literal["higher", "lower", "none"]


@dataclass(frozen=True, slots=True)
class TrajectoryGroup:
    """Group of conversations: `best`, `worst` or a level of a trait."""

    name: str
    conversations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of conversations to compare.

    Attributes:
        kind: the best with the worst, or the levels of a trait.
        groups: empty if nothing can be compared.
        trait: factor whose levels are compared.
        n_drawn: number of sampled conversations; None if all are included.
        lowest_best, highest_worst: cut-off scores of the groups.
        n_tied: number of conversations with these scores, from which the last members were drawn, best and worst.
        reason: reason for fewer conversations than requested, or no groups.
    """

    kind: Kind
    groups: tuple[TrajectoryGroup, ...] = ()
    trait: str = ""
    n_drawn: int | None = None
    lowest_best: float | None = None
    highest_worst: float | None = None
    n_tied: tuple[int, int] = (0, 0)
    reason: Reason | None = None

    @property
    def conversations(self) -> list[str]:
        """All compared conversations."""
        return [conversation for group in self.groups for conversation in group.conversations]


@dataclass(frozen=True, slots=True)
class GroupContrast:
    """Difference between two groups' conversation means.

    Attributes:
        first, second: means over the conversations; None without one.
        low, high: interval of first − second; None where one group does not vary or has fewer than two people.
        p, p_holm: p-values of no difference; None if neither group varies.
        direction: direction of the first group; `none` if not significant after Holm's correction.
        n_apart, n_compared: number of exchanges without overlapping intervals, and of those with both intervals.
    """

    first: float | None
    second: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    direction: Direction
    n_apart: int
    n_compared: int

    @property
    def difference(self) -> float | None:
        """Mean of the first group minus that of the second."""
        return None if self.first is None or self.second is None else self.first - self.second

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        known = self.low is not None and self.high is not None
        return {
            "first": self.first,
            "second": self.second,
            "difference": self.difference,
            "ci": [self.low, self.high] if known else None,
            "p": self.p,
            "p_holm": self.p_holm,
            "direction": self.direction,
            "n_apart": self.n_apart,
            "n_compared": self.n_compared,
        }


@dataclass(frozen=True, slots=True)
class TrajectoryMeasure:
    """Trajectories of one measure by exchange.

    Attributes:
        name: name of the column, or `votes`.
        courses: one per group; empty without values.
        contrast: difference between two groups.
    """

    name: str
    courses: tuple[Course, ...]
    contrast: GroupContrast | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TrajectoryResult(SummarisedResult):
    """Trajectories of measures in groups of conversations.

    Attributes:
        n_people: number of participants, counting each unknown one separately; None if nothing was compared.
    """

    grouping: Grouping
    measures: tuple[TrajectoryMeasure, ...]
    level: float = RATING_LEVEL
    n_people: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; undefined is None."""
        grouping = self.grouping
        return {
            "kind": grouping.kind,
            "trait": grouping.trait or None,
            "groups": {group.name: len(group.conversations) for group in grouping.groups},
            "n_drawn": grouping.n_drawn,
            "lowest_best": grouping.lowest_best,
            "highest_worst": grouping.highest_worst,
            "reason": grouping.reason.to_json() if grouping.reason else None,
            "level": self.level,
            "n_people": self.n_people,
            "measures": {
                measure.name: {
                    "courses": {
                        group.name: _course_json(course)
                        for group, course in zip(grouping.groups, measure.courses, strict=False)
                    },
                    "contrast": measure.contrast.to_json() if measure.contrast else None,
                }
                for measure in self.measures
            },
        }

    def summary(self) -> str:
        """Return the groups and their differences as text."""
        grouping = self.grouping
        title = grouping.kind if not grouping.trait else f"by {grouping.trait}"
        sizes = ", ".join(f"{group.name} {len(group.conversations):,}" for group in grouping.groups)
        lines = [f"Trajectories, {title}: {sizes or grouping.reason}"]
        for measure in self.measures:
            contrast = measure.contrast
            if not measure.courses:
                lines.append(f"  {measure.name:36} no value")
            elif contrast is not None:
                gap = f"{figure(contrast.difference)} {span(contrast.low, contrast.high)}"
                lines.append(
                    f"  {measure.name:36} {figure(contrast.first)} − {figure(contrast.second)} = "
                    f"{gap}, Holm {probability(contrast.p_holm)}"
                )
        return "\n".join(lines)


def best_and_worst(per_conversation: pd.DataFrame, headline: str, controls: Sequence[str] = ()) -> Grouping:
    """Group the highest and lowest rated conversations.

    Args:
        per_conversation: one row each, its id as index: `bot` and the headline.
        headline: column of scores.
        controls: deliberately poor bots, whose conversations are excluded.
    """
    frame = per_conversation[~per_conversation["bot"].isin(list(controls))]
    chosen = extremes(frame[headline].to_numpy(), N_EXTREME, seed=SEED)
    if chosen.lowest_best is None or chosen.highest_worst is None:
        return Grouping("best-worst", reason=chosen.reason)
    ids = frame.index.to_numpy()
    return Grouping(
        "best-worst",
        (
            TrajectoryGroup("best", tuple(map(str, ids[chosen.best]))),
            TrajectoryGroup("worst", tuple(map(str, ids[chosen.worst]))),
        ),
        lowest_best=chosen.lowest_best,
        highest_worst=chosen.highest_worst,
        n_tied=chosen.n_tied,
        reason=chosen.reason,
    )


def by_trait(
    per_conversation: pd.DataFrame, factors: Mapping[str, Mapping[str, str]], traits: Sequence[str]
) -> Grouping:
    """Group rated conversations by a trait of their bots, `plain` first.

    Args:
        per_conversation: as in `best_and_worst`.
        factors: level of each bot by name, ignoring case.
        traits: candidate factors; the first one that the bots have is used.
    """
    trait_by_name = {trait.lower(): trait for trait in traits}
    known = {trait_by_name.get(name.lower(), name): levels for name, levels in factors.items()}
    trait = next((trait for trait in traits if trait in known), "")
    if not trait:
        text = f"no bot is known by {' or '.join(traits)}"
        return Grouping("by-trait", reason=Reason("no_trait", text, traits=", ".join(traits)))
    levels, frame = known[trait], per_conversation
    is_sample = len(frame) > MOST_BY_TRAIT
    if is_sample:
        frame = frame.sample(MOST_BY_TRAIT, random_state=SEED)
    bots = list(zip(frame.index, frame["bot"], strict=True))
    groups = [
        TrajectoryGroup(level, tuple(str(pk) for pk, bot in bots if levels.get(bot) == level))
        for level in sorted(set(levels.values()), key=lambda level: (level != "plain", level))
    ]
    groups = [group for group in groups if group.conversations][:MOST_LEVELS]
    text = f"only one level of {trait} has rated conversations"
    return Grouping(
        "by-trait",
        tuple(groups),
        trait=trait,
        n_drawn=MOST_BY_TRAIT if is_sample else None,
        reason=Reason("one_level_rated", text, trait=trait) if len(groups) < 2 else None,
    )


def trajectories(
    grouping: Grouping,
    values: Mapping[str, Rows],
    measures: Sequence[str],
    people: Mapping[str, str | None] | None = None,
    scales: Mapping[str, tuple[float, float] | None] | None = None,
) -> TrajectoryResult:
    """Compute trajectories of all measures and groups, and differences of two groups.

    Args:
        values: values by exchange (`by_exchange`), for each measure and conversation.
        measures: measures in the order of the result.
        people: participant of each conversation, None if unknown; if omitted, all are different.
        scales: limits of each measure's values; one of them can be infinite.
    """
    trajectory_measures = [
        _measure(name, grouping, values.get(name, {}), people or {}, (scales or {}).get(name)) for name in measures
    ]
    corrected = holm([m.contrast.p if m.contrast else None for m in trajectory_measures])
    return TrajectoryResult(
        grouping,
        tuple(_apply_correction(measure, p) for measure, p in zip(trajectory_measures, corrected, strict=True)),
        n_people=len(set(rater_codes([(people or {}).get(pk) for pk in grouping.conversations]))),
    )


def _measure(
    name: str, grouping: Grouping, rows: Rows, people: Mapping[str, str | None], scale: tuple[float, float] | None
) -> TrajectoryMeasure:
    known = [value for row in rows.values() for value in row if value is not None]
    if not known:
        return TrajectoryMeasure(name, ())
    if scale is not None and not scale[0] <= min(known) <= max(known) <= scale[1]:
        scale = None  # treat a metric with values outside its declared scale as unbounded
    courses = tuple(
        course(
            [rows.get(pk, []) for pk in group.conversations],
            [people.get(pk) for pk in group.conversations],
            scale=scale,
        )
        for group in grouping.groups
    )
    if len(courses) != 2:
        return TrajectoryMeasure(name, courses)
    means = [_means(rows, group.conversations) for group in grouping.groups]
    first, second = courses
    n = min(len(first.n), len(second.n))
    apart = (first.low[:n] > second.high[:n]) | (first.high[:n] < second.low[:n])
    in_both = np.isfinite(first.low[:n]) & np.isfinite(second.low[:n])
    difference = _test_difference(means, people, scale)
    x, y = (list(group_means.values()) for group_means in means)
    return TrajectoryMeasure(
        name,
        courses,
        GroupContrast(
            first=float(np.mean(x)) if x else None,
            second=float(np.mean(y)) if y else None,
            low=difference.low if difference else None,
            high=difference.high if difference else None,
            p=difference.p if difference else None,
            p_holm=None,
            direction="none",
            n_apart=int(apart.sum()),
            n_compared=int(in_both.sum()),
        ),
    )


def _test_difference(
    means: Sequence[Mapping[str, float]], people: Mapping[str, str | None], scale: tuple[float, float] | None
) -> Difference | None:
    """Test the difference of two groups' means; None if impossible.

    Args:
        means: mean of each conversation, by group.
    """
    first, second = (np.array(list(group_means.values())) for group_means in means)
    if min(len(first), len(second)) < 2 or (is_constant(first) and is_constant(second)):
        return None
    person = label_codes(rater_codes([people.get(pk) for group_means in means for pk in group_means]))
    whose = person[: len(first)], person[len(first) :]
    return difference_of_means((first, second), whose, RATING_LEVEL, scale)


def _apply_correction(measure: TrajectoryMeasure, p_holm: float | None) -> TrajectoryMeasure:
    """Return the measure with corrected p-value and resulting direction."""
    contrast = measure.contrast
    if contrast is None:
        return measure
    direction: Direction = "none"
    if p_holm is not None and p_holm < 1 - RATING_LEVEL:
        direction = "higher" if (contrast.difference or 0) > 0 else "lower"
    return replace(measure, contrast=replace(contrast, p_holm=p_holm, direction=direction))


def get_point_values(grouping: Grouping, rows: Rows, group: int, exchange: int) -> dict[str, float]:
    """Return the conversations and values behind a point, highest first.

    Args:
        rows: values of the point's measure.
        group: index of the group.
        exchange: from 1.
    """
    if not 0 <= group < len(grouping.groups) or exchange < 1:
        return {}
    values = {
        pk: value
        for pk in grouping.groups[group].conversations
        if len(rows.get(pk, [])) >= exchange and (value := rows[pk][exchange - 1]) is not None
    }
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def by_exchange(exchanges: Sequence[int], values: Sequence[float | None]) -> list[float | None]:
    """Average a conversation's values within each exchange, in order.

    Args:
        exchanges: exchange of each turn, from 1; 0 for bot turns before the first message, which are ignored.
        values: value of each turn, None if undefined.
    """
    within: dict[int, list[float]] = {}
    for exchange, value in zip(exchanges, values, strict=False):
        if exchange and value is not None:
            within.setdefault(exchange, []).append(value)
    last = max(exchanges, default=0)
    return [
        sum(within[exchange]) / len(within[exchange]) if exchange in within else None for exchange in range(1, last + 1)
    ]


def _means(rows: Rows, conversations: Sequence[str]) -> dict[str, float]:
    """Return the mean of each conversation that has a value."""
    known = {pk: [v for v in rows.get(pk, []) if v is not None] for pk in conversations}
    return {pk: sum(row) / len(row) for pk, row in known.items() if row}


def _course_json(course: Course) -> dict[str, Any]:
    def plain(values: np.ndarray) -> list[float | None]:
        return [float(value) if np.isfinite(value) else None for value in values]

    return {
        "mean": plain(course.mean),
        "low": plain(course.low),
        "high": plain(course.high),
        "n": [int(n) for n in course.n],
    }
