"""Two groups of conversations: against Welch's and the paired test, and how often intervals hold by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evaluation.analysis.trajectories import Group, Grouping, trajectories
from evaluation.stats.trajectories import LEVEL
from tests.evaluation.stats import simulated_courses

NAMES = [f"c{k}" for k in range(12)]
GROUPS = Grouping(
    "by-trait", (Group("x", tuple(NAMES[:6])), Group("y", tuple(NAMES[6:]))), trait="t"
)
rng = np.random.default_rng(0)
VALUES = {
    "m": {name: [float(value)] for name, value in zip(NAMES, rng.normal(size=12), strict=True)}
}


def test_the_difference_is_welchs_where_everybody_talked_once() -> None:
    x, y = (np.array([VALUES["m"][pk][0] for pk in group.conversations]) for group in GROUPS.groups)
    found = trajectories(GROUPS, VALUES, ["m"]).measures[0].contrast
    assert found is not None
    expected = stats.ttest_ind(x, y, equal_var=False)
    ends = expected.confidence_interval(0.9)
    assert (found.low, found.high, found.p) == pytest.approx((ends.low, ends.high, expected.pvalue))
    assert found.difference == pytest.approx(x.mean() - y.mean())


def test_the_difference_is_the_paired_one_where_everybody_met_both() -> None:
    x, y = (np.array([VALUES["m"][pk][0] for pk in group.conversations]) for group in GROUPS.groups)
    people = {name: f"p{k % 6}" for k, name in enumerate(NAMES)}
    found = trajectories(GROUPS, VALUES, ["m"], people).measures[0].contrast
    assert found is not None
    expected = stats.ttest_rel(x, y)
    ends = expected.confidence_interval(0.9)
    assert (found.low, found.high, found.p) == pytest.approx(
        (ends.low, ends.high, expected.pvalue), rel=1e-6
    )
    alone = trajectories(GROUPS, VALUES, ["m"], dict.fromkeys(NAMES, "p"))
    contrast = alone.measures[0].contrast
    assert contrast is not None
    assert (contrast.low, contrast.p, alone.n_people, alone.is_small) == (None, None, 1, False)


def test_few_people_are_said_to_make_intervals_that_hold_less() -> None:
    few = trajectories(GROUPS, VALUES, ["m"], {name: f"p{k % 6}" for k, name in enumerate(NAMES)})
    assert (few.n_people, few.is_small, few.to_json()["n_people"]) == (6, True, 6)
    assert "6 people: with fewer than 50" in few.summary()
    names = [f"c{k}" for k in range(60)]
    groups = (Group("x", tuple(names[:30])), Group("y", tuple(names[30:])))
    values = {"m": {name: [float(k % 7)] for k, name in enumerate(names)}}
    many = trajectories(Grouping("by-trait", groups, trait="t"), values, ["m"])
    assert (many.n_people, many.is_small) == (60, False)
    assert "people" not in many.summary()


@pytest.mark.parametrize("design", ["halves, 60 people", "kinds, 10 people, 4 each"])
def test_intervals_of_courses_and_differences_hold(design: str) -> None:
    """40 studies each, at least as many as claimed less three Monte-Carlo errors."""
    found = simulated_courses.held(design, 40)
    for what, one in found.items():
        if one.of >= 40:
            assert one.inside / one.of >= LEVEL - 3 * np.sqrt(LEVEL * (1 - LEVEL) / 40), what
    assert sum(one.of >= 40 for one in found.values()) >= 12
