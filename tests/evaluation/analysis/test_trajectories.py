"""Two groups of conversations: against Welch's and the paired test, and how often intervals hold by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evaluation.analysis.trajectories import Grouping, TrajectoryGroup, trajectories
from evaluation.stats.trajectories import LEVEL
from tests.evaluation.stats import simulated_courses

NAMES = [f"c{k}" for k in range(12)]
GROUPS = Grouping(
    "by-trait", (TrajectoryGroup("x", tuple(NAMES[:6])), TrajectoryGroup("y", tuple(NAMES[6:]))), trait="t"
)
rng = np.random.default_rng(0)
VALUES = {"m": {name: [float(value)] for name, value in zip(NAMES, rng.normal(size=12), strict=True)}}


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
    assert (found.low, found.high, found.p) == pytest.approx((ends.low, ends.high, expected.pvalue), rel=1e-6)
    alone = trajectories(GROUPS, VALUES, ["m"], dict.fromkeys(NAMES, "p"))
    contrast = alone.measures[0].contrast
    assert contrast is not None
    assert (contrast.low, contrast.p, alone.n_people) == (None, None, 1)


def test_a_scale_makes_the_difference_that_of_the_groups_own_intervals() -> None:
    """Two shares of different people: Newcombe's hybrid score interval (1998, method 10), of Wilson's with t in place
    of z.
    """
    groups = (TrajectoryGroup("x", tuple(NAMES[:5])), TrajectoryGroup("y", tuple(NAMES[5:])))
    laughs = dict(zip(NAMES, [1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1], strict=True))
    values = {"m": {name: [float(value)] for name, value in laughs.items()}}
    scales = {"m": (0.0, 1.0)}
    told = trajectories(Grouping("by-trait", groups, trait="t"), values, ["m"], scales=scales, people=None)
    found = told.measures[0].contrast
    assert found is not None
    assert told.n_people == 12
    ends = []
    for names in (NAMES[:5], NAMES[5:]):
        share, n = np.mean([laughs[name] for name in names]), len(names)
        z = stats.t.ppf(0.95, n - 1)
        effective = n - 1  # a variance of share (1 − share) / (n − 1)
        middle = (share + z**2 / effective / 2) / (1 + z**2 / effective)
        half = z * np.sqrt(share * (1 - share) / effective + z**2 / effective**2 / 4)
        half /= 1 + z**2 / effective
        ends.append((share, middle - half, middle + half))
    (x, low_x, high_x), (y, low_y, high_y) = ends
    low = x - y - np.hypot(x - low_x, high_y - y)
    high = x - y + np.hypot(high_x - x, y - low_y)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert low < 0 < high
    assert found.p is not None
    assert found.p > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("design", ["halves, 60 people", "kinds, 10 people, 4 each"])
def test_intervals_of_courses_and_differences_hold(design: str) -> None:
    """40 studies each, at least as many as claimed less three Monte-Carlo errors."""
    found = simulated_courses.held(design, 40)
    for what, one in found.items():
        if one.of >= 40:
            assert one.inside / one.of >= LEVEL - 3 * np.sqrt(LEVEL * (1 - LEVEL) / 40), what
    assert sum(one.of >= 40 for one in found.values()) >= 12
