"""Intervals of means and shares, and numbers of raters, against tables, other programs and simulations."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower, ttest_power
from statsmodels.stats.proportion import proportion_confint

from evaluation.findings import Reason
from evaluation.stats.means import SHARE, Interval, mean_interval, mean_spread, share_interval
from evaluation.stats.power import (
    corrected_alpha,
    detectable_difference,
    n_pairs,
    plan_from_ratings,
    power_integrated,
    power_reached,
    raters_needed,
)
from tests.evaluation.stats.means_by_hand import dense
from tests.evaluation.stats.simulated_means import DESIGNS, held, held_crossed

rng = np.random.default_rng(0)


def test_values_that_are_independent_have_students_interval() -> None:
    values = rng.gamma(2.0, size=15)
    result = mean_interval(values, level=0.9)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high))
    assert (result.mean, result.n) == (pytest.approx(values.mean()), 15)


def test_raters_with_as_many_ratings_each_count_by_their_means() -> None:
    table = rng.normal(size=(8, 3)) + rng.normal(size=(8, 1))
    result = mean_interval(table.ravel(), np.repeat(np.arange(8), 3))
    expected = stats.ttest_1samp(table.mean(axis=1), 0).confidence_interval(0.9)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high))


def test_unequal_raters_have_the_degrees_of_freedom_of_dense_algebra() -> None:
    for spread in (0.0, 0.5, 2.0):
        units = np.repeat(np.arange(6), [1, 2, 2, 5, 9, 14])
        values = rng.normal(0, spread, 6)[units] + rng.normal(size=len(units))
        result = mean_spread(values, units)
        expected = dense(values, units)
        assert result.variance == pytest.approx(expected.variance)
        assert result.df == pytest.approx(expected.df)
        assert result.df < 5


def test_shares_have_wilsons_interval_of_their_effective_number() -> None:
    values = np.repeat([1.0, 0.0], [17, 4])
    result = mean_interval(values, scale=SHARE, level=0.95)
    # By t with 20 degrees of freedom, and the variance that divides by n − 1.
    alpha = 2 * stats.norm.sf(stats.t.ppf(0.975, 20))
    expected = proportion_confint(17 / 21 * 20, 20, alpha=alpha, method="wilson")
    assert (result.low, result.high) == pytest.approx(expected)


def test_an_interval_stays_on_its_scale_and_turns_to_its_middle() -> None:
    values = [5, 5, 5, 5, 4]
    result, free = mean_interval(values, scale=(1, 5)), mean_interval(values)
    assert free.high > 5 > result.high
    assert result.mean - result.low > 2 * (result.high - result.mean)
    turned = mean_interval([6 - value for value in values], scale=(1, 5))
    assert (turned.low, turned.high) == pytest.approx((6 - result.high, 6 - result.low))


def test_a_wide_scale_changes_nothing() -> None:
    values = rng.normal(size=12)
    result, free = mean_interval(values, scale=(-1e6, 1e6)), mean_interval(values)
    assert (result.low, result.high) == pytest.approx((free.low, free.high))


def test_a_scale_with_one_end_is_the_limit_of_a_wide_one_for_what_is_not_skewed() -> None:
    values = np.array([2.0, 4.0, 6.0, 8.0, 10.0])
    result, wide = (mean_interval(values, scale=(0, end)) for end in (np.inf, 1e9))
    assert (result.low, result.high) == pytest.approx((wide.low, wide.high))
    below = mean_interval(-values, scale=(-np.inf, 0))
    assert (below.low, below.high) == pytest.approx((-result.high, -result.low))
    assert mean_interval([3.0, 3.0, 3.0], scale=(0, np.inf)).low is None
    with pytest.raises(ValueError, match="outside the scale of 0 to inf"):
        mean_interval([-1.0, 2.0], scale=(0, np.inf))


def test_skewed_values_reach_as_far_as_halls_interval() -> None:
    values = np.array([1.0, 1, 2, 2, 3, 3, 4, 6, 9, 20])
    result = mean_interval(values, scale=(0, np.inf), level=0.9)
    mean, error = values.mean(), stats.sem(values)
    k = stats.skew(values, bias=False) / np.sqrt(10)
    # As few degrees of freedom as one long text of ten leaves: 2 n / (excess + 2).
    df = 20 / (stats.kurtosis(values, bias=False) + 2)
    assert 1 < df < 3
    t = stats.t.ppf(0.95, df)
    # The upper end is where Hall's polynomial of the studentised mean is −t.
    at = (mean - result.high) / error
    assert at + k * at**2 / 3 + k**2 * at**3 / 27 + k / 6 == pytest.approx(-t)
    plain = mean_interval(values, level=0.9)
    assert result.high - mean > 1.3 * (plain.high - mean)
    assert result.low > 0


@pytest.mark.parametrize("n", [5, 10, 30])
def test_means_of_skewed_counts_hold(n: int) -> None:
    """1,000 studies of lengths whose logarithm varies by .6; Student's interval held in 84 to 88 % of 90."""
    own = np.random.default_rng(2)
    true, inside = np.exp(0.6**2 / 2), 0
    for _ in range(1_000):
        result = mean_interval(np.exp(0.6 * own.normal(size=n)), level=0.9, scale=(0, np.inf))
        inside += result.low <= true <= result.high
    assert inside / 1_000 >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / 1_000)


def test_raters_who_all_agree_take_the_widest_interval_of_the_scale() -> None:
    t2 = stats.t.ppf(0.95, 4) ** 2
    result = mean_interval([5.0] * 5, scale=(1, 5))
    assert (result.low, result.high) == pytest.approx((5 - 4 * t2 / (5 + t2), 5))
    # As if all had said 1 or 5, three quarters of them 5.
    inner = mean_interval([4.0] * 5, scale=(1, 5))
    ends = proportion_confint(0.75 * 5, 5, alpha=2 * stats.norm.sf(np.sqrt(t2)), method="wilson")
    assert (inner.low, inner.high) == pytest.approx(tuple(1 + 4 * end for end in ends))
    # What a model computes twice in single precision differs in its last digit.
    for alike in ([3.0, 3.0, 3.0], np.float32([0.0383, 0.0383, np.nextafter(np.float32(0.0383), 1)])):
        free = mean_interval(alike)
        assert (free.low, free.high) == (None, None)
        assert free.reason.code == "all_alike"


def test_what_several_rated_alike_counts_too() -> None:
    # Twelve raters of the same three things: more raters cannot make up for few things.
    things, raters = np.tile(np.arange(3), 12), np.repeat(np.arange(12), 3)
    values = np.array([-1.0, 0.0, 1.0])[things] + rng.normal(0, 0.1, 36)
    over_raters = mean_interval(values, raters)
    both = mean_interval(values, raters, things=things)
    assert both.high - both.low > 5 * (over_raters.high - over_raters.low)
    of_things = mean_spread(values, things)
    of_both = mean_spread(values, raters, things)
    assert of_both.variance >= of_things.variance
    assert of_both.df == pytest.approx(2)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("n_raters", [3, 5, 8, 12, 20, 40])
@pytest.mark.parametrize("level", [0.90, 0.95])
def test_intervals_hold_as_often_as_they_say(design: str, n_raters: int, level: float) -> None:
    """300 studies of each design, at least as many as claimed less three Monte-Carlo errors of 144 tests."""
    share, _width = held(design, n_raters, level, 300)
    assert share >= level - 3 * np.sqrt(level * (1 - level) / 300)


@pytest.mark.parametrize("sizes", [(3, 3), (8, 6), (20, 5), (5, 20)])
@pytest.mark.parametrize("spreads", [(0.5, 0.5), (0.7, 0.1), (0.1, 0.7)])
def test_intervals_hold_where_everybody_rates_the_same(sizes: tuple[int, int], spreads: tuple[float, float]) -> None:
    share, _width = held_crossed(*sizes, spreads, 0.9, 300)
    assert share >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / 300)


@pytest.mark.parametrize(
    ("values", "groups", "expected"),
    [
        ([], None, Interval(None, None, None, 0, "no value")),
        ([np.nan, np.inf], None, Interval(None, None, None, 0, "no value")),
        ([2.0, np.nan], None, Interval(2.0, None, None, 1, "only one value, so no interval")),
        ([2.0, 4.0], ["p", "p"], Interval(3.0, None, None, 2, "all values come from one group, so no interval")),
    ],
)
def test_undefined_has_a_reason(values: list[float], groups: list[str] | None, expected: Interval) -> None:
    result = mean_interval(values, groups)
    assert result == expected
    assert isinstance(result.reason, Reason)


def test_a_value_off_the_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="values from 2 to 7 are outside the scale of 1 to 5"):
        mean_interval([2, 7], scale=(1, 5))


@pytest.mark.parametrize(("k", "n"), [(0, 7), (1, 4), (11, 128), (30, 30)])
def test_the_interval_of_a_share_is_wilsons(k: int, n: int) -> None:
    assert share_interval(k, n) == pytest.approx(proportion_confint(k, n, method="wilson"))


def test_no_share_without_people_nor_beyond_all_of_them() -> None:
    assert share_interval(0, 0) is None
    with pytest.raises(ValueError, match="5 of 3 is not a valid share"):
        share_interval(5, 3)


power_rng = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("d", "power", "n"), [(0.2, 0.8, 394), (0.5, 0.8, 64), (0.8, 0.8, 26), (0.5, 0.9, 86), (0.5, 0.95, 105)]
)
def test_cohens_table(d, power, n):
    """Cohen (1988), table 2.4.1, two-sided .05 (he prints 393 for .2: the exact 393.4 rounded)."""
    assert raters_needed(d, 1.0, power=power).n == n


def test_power_is_statsmodels():
    for n, d, alpha in ((2, 1.5, 0.05), (5, 1.0, 0.05), (30, 0.4, 0.01), (200, 0.1, 0.05), (8000, 0.03, 0.001)):
        expected = TTestIndPower().power(d, n, alpha)
        assert power_reached(n, d * 2, 2.0, alpha=alpha) == pytest.approx(expected, abs=1e-5)
        paired = TTestPower().power(d / np.sqrt(2 * (1 - 0.3)), n, alpha)
        result = power_reached(n, -d, 1.0, alpha=alpha, design="paired", correlation=0.3)
        assert result == pytest.approx(paired, abs=1e-5)


def test_needed_is_the_least_that_reaches_the_power():
    for d in (0.07, 0.31, 1.4, 9.0):
        result = raters_needed(d, 1.3, n_comparisons=n_pairs(12))
        assert result.alpha == pytest.approx(0.05 / 66)
        assert result.power >= 0.8
        assert result.power == power_reached(result.n, d, 1.3, alpha=result.alpha)
        if result.n > 2:
            assert power_reached(result.n - 1, d, 1.3, alpha=result.alpha) < 0.8


def test_detectable_difference_turns_it_round():
    smallest = detectable_difference(40, 1.6, n_comparisons=6)
    assert power_reached(40, smallest, 1.6, alpha=0.05 / 6) == pytest.approx(0.8)
    assert raters_needed(smallest * 1.0001, 1.6, n_comparisons=6).n == 40


def test_a_simulated_study_has_the_power_promised():
    n = raters_needed(0.6, 1.2, n_comparisons=3).n
    shown = 0
    for _ in range(400):
        a, b = power_rng.normal(0.6, 1.2, n), power_rng.normal(0, 1.2, n)
        shown += stats.ttest_ind(a, b).pvalue < 0.05 / 3
    assert 295 <= shown <= 345  # 320 expected, sd 8


def test_several_ratings_per_rater_help_as_far_as_raters_agree():
    one = raters_needed(0.5, 1.5).n
    assert raters_needed(0.5, 1.5, ratings_per_rater=4, rater_share=1.0).n == one
    assert raters_needed(0.5, 1.5, ratings_per_rater=4).n == raters_needed(0.5, 0.75).n
    between = raters_needed(0.5, 1.5, ratings_per_rater=4, rater_share=0.3).n
    assert raters_needed(0.5, 0.75).n < between < one


def test_corrections():
    assert corrected_alpha(0.05, 10) == pytest.approx(0.005)
    assert corrected_alpha(0.05, 10, "sidak") == pytest.approx(1 - 0.95**0.1)
    assert n_pairs(12) == 66


def test_plan_from_independent_ratings():
    a, b, c = (power_rng.normal(mean, 1.0, 40) for mean in (1.0, 0.0, 0.95))
    values, bots = np.concatenate([a, b, c]), np.repeat(["a", "b", "c"], 40)
    plans = {(p.a, p.b): p for p in plan_from_ratings(values, bots, smallest=0.4)}
    clear = plans["a", "b"]
    sd = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    assert clear.sd == pytest.approx(sd)
    assert clear.needed == raters_needed(0.4, sd, n_comparisons=3).n
    ends = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (clear.low, clear.high) == pytest.approx((ends.low, ends.high))
    # What was observed makes no plan: the same spread needs as many, near or far.
    assert plans["a", "c"].needed == pytest.approx(clear.needed, rel=0.6)
    unknown = plan_from_ratings(values, bots, smallest=None)
    assert {(plan.needed, plan.reason.code) for plan in unknown} == {(None, "no_smallest")}


def test_plan_of_bots_with_different_numbers_of_ratings():
    """The spread is one that gives the error observed, were the raters shared out evenly."""
    a, b = power_rng.normal(0.5, 1.0, 15), power_rng.normal(0, 2.0, 90)
    (plan,) = plan_from_ratings(np.concatenate([a, b]), ["a"] * 15 + ["b"] * 90, smallest=1.0)
    error = np.sqrt(a.var(ddof=1) / 15 + b.var(ddof=1) / 90)
    assert plan.sd**2 * (1 / 15 + 1 / 90) == pytest.approx(error**2)
    assert (plan.n_a, plan.n_b) == (15, 90)


def test_plan_where_raters_rate_all_bots_keeps_the_designs_gain():
    kind = power_rng.normal(0, 2, 50)
    values = np.concatenate([kind + power_rng.normal(0, 0.7, 50), kind + 0.5 + power_rng.normal(0, 0.7, 50)])
    bots, raters = np.repeat(["a", "b"], 50), np.tile(np.arange(50), 2)
    (paired,) = plan_from_ratings(values, bots, raters, smallest=0.5)
    (apart,) = plan_from_ratings(values, bots, smallest=0.5)
    assert paired.needed < apart.needed / 3
    # Of everybody's own difference.
    own = values[:50] - values[50:]
    assert paired.sd == pytest.approx(own.std(ddof=1) / np.sqrt(2), rel=1e-6)
    assert paired.n_a == 50


def test_plans_go_by_the_spread_of_the_pair_and_not_by_that_of_all():
    kind = power_rng.normal(0, 1, 60)
    steady, wild = (kind + power_rng.normal(0, sd, 60) for sd in (0.3, 2.0))
    third = kind + 0.4 + power_rng.normal(0, 0.3, 60)
    values = np.concatenate([steady, third, wild])
    bots, raters = np.repeat(["steady", "third", "wild"], 60), np.tile(np.arange(60), 3)
    plans = {(p.a, p.b): p.sd for p in plan_from_ratings(values, bots, raters, smallest=0.5)}
    assert plans["steady", "third"] == pytest.approx(0.3, rel=0.35)
    assert plans["steady", "wild"] > 3 * plans["steady", "third"]


def test_reasons_and_refusals():
    assert raters_needed(0.0, 1.0).reason == "no difference can be detected"
    assert "more than 10,000,000" in raters_needed(1e-6, 1.0).reason
    (alone,) = plan_from_ratings([1.0, 2.0, 3.0], ["a", "b", "b"], smallest=1.0)
    assert "fewer than two raters" in alone.reason
    (same,) = plan_from_ratings([1.0, 1.0, 3.0, 3.0], list("aabb"), smallest=1.0)
    assert same.reason == "the ratings of neither bot vary"
    with pytest.raises(ValueError, match="sd is 0"):
        raters_needed(1.0, 0.0)
    with pytest.raises(ValueError, match="power is 1"):
        raters_needed(1.0, 1.0, power=1.0)
    with pytest.raises(ValueError, match="correlation is 1"):
        raters_needed(1.0, 1.0, correlation=1.0)


def test_power_by_integration_is_statsmodels():
    """It stands in where the noncentral t has no value."""
    for shift, df, alpha in ((1.5, 58, 0.01), (4.0, 8, 0.05), (2.7, 300_000, 0.001)):
        expected = ttest_power(shift, 1, alpha, df=df)
        assert power_integrated(shift, df, alpha) == pytest.approx(expected, abs=1e-5)
    assert np.isnan(ttest_power(60.0, 1, 0.05, df=4))
    assert power_integrated(60.0, 4, 0.05) == pytest.approx(1)
    assert power_reached(3, 60.0, 1.0) == pytest.approx(1)
