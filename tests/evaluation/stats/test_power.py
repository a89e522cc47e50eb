"""Numbers of raters against Cohen's tables, statsmodels' power and simulated studies."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower, ttest_power

from evaluation.stats.power import (
    corrected_alpha,
    detectable_difference,
    n_pairs,
    plan_from_ratings,
    power_integrated,
    power_reached,
    raters_needed,
)

rng = np.random.default_rng(7)


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
        found = power_reached(n, -d, 1.0, alpha=alpha, design="paired", correlation=0.3)
        assert found == pytest.approx(paired, abs=1e-5)


def test_needed_is_the_least_that_reaches_the_power():
    for d in (0.07, 0.31, 1.4, 9.0):
        found = raters_needed(d, 1.3, n_comparisons=n_pairs(12))
        assert found.alpha == pytest.approx(0.05 / 66)
        assert found.power >= 0.8
        assert found.power == power_reached(found.n, d, 1.3, alpha=found.alpha)
        if found.n > 2:
            assert power_reached(found.n - 1, d, 1.3, alpha=found.alpha) < 0.8


def test_detectable_difference_turns_it_round():
    smallest = detectable_difference(40, 1.6, n_comparisons=6)
    assert power_reached(40, smallest, 1.6, alpha=0.05 / 6) == pytest.approx(0.8)
    assert raters_needed(smallest * 1.0001, 1.6, n_comparisons=6).n == 40


def test_a_simulated_study_has_the_power_promised():
    n = raters_needed(0.6, 1.2, n_comparisons=3).n
    shown = 0
    for _ in range(400):
        a, b = rng.normal(0.6, 1.2, n), rng.normal(0, 1.2, n)
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
    a, b, c = (rng.normal(mean, 1.0, 40) for mean in (1.0, 0.0, 0.95))
    values, bots = np.concatenate([a, b, c]), np.repeat(["a", "b", "c"], 40)
    plans = {(p.a, p.b): p for p in plan_from_ratings(values, bots)}
    clear = plans["a", "b"]
    sd = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    assert clear.sd == pytest.approx(sd)
    assert clear.needed == raters_needed(a.mean() - b.mean(), sd, n_comparisons=3).n
    ends = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (clear.low, clear.high) == pytest.approx((ends.low, ends.high))
    assert clear.needed_least < clear.needed < clear.needed_most
    close = plans["a", "c"]
    assert close.needed_most is None
    assert "contains 0" in close.reason
    assert close.needed > 40 > close.needed_least / 2


def test_plan_of_bots_with_different_numbers_of_ratings():
    """The spread is one that gives the error observed, were the raters shared out evenly."""
    a, b = rng.normal(0.5, 1.0, 15), rng.normal(0, 2.0, 90)
    (plan,) = plan_from_ratings(np.concatenate([a, b]), ["a"] * 15 + ["b"] * 90)
    error = np.sqrt(a.var(ddof=1) / 15 + b.var(ddof=1) / 90)
    assert plan.sd**2 * (1 / 15 + 1 / 90) == pytest.approx(error**2)
    assert (plan.n_a, plan.n_b) == (15, 90)


def test_plan_where_raters_rate_all_bots_keeps_the_designs_gain():
    kind = rng.normal(0, 2, 50)
    values = np.concatenate([kind + rng.normal(0, 0.7, 50), kind + 0.5 + rng.normal(0, 0.7, 50)])
    bots, raters = np.repeat(["a", "b"], 50), np.tile(np.arange(50), 2)
    (paired,) = plan_from_ratings(values, bots, raters)
    (apart,) = plan_from_ratings(values, bots)
    assert paired.needed < apart.needed / 3
    # Of everybody's own difference.
    own = values[:50] - values[50:]
    assert paired.sd == pytest.approx(own.std(ddof=1) / np.sqrt(2), rel=1e-6)
    assert paired.n_a == 50


def test_plans_go_by_the_spread_of_the_pair_and_not_by_that_of_all():
    kind = rng.normal(0, 1, 60)
    steady, wild = (kind + rng.normal(0, sd, 60) for sd in (0.3, 2.0))
    third = kind + 0.4 + rng.normal(0, 0.3, 60)
    values = np.concatenate([steady, third, wild])
    bots, raters = np.repeat(["steady", "third", "wild"], 60), np.tile(np.arange(60), 3)
    plans = {(p.a, p.b): p.sd for p in plan_from_ratings(values, bots, raters)}
    assert plans["steady", "third"] == pytest.approx(0.3, rel=0.35)
    assert plans["steady", "wild"] > 3 * plans["steady", "third"]


def test_reasons_and_refusals():
    assert raters_needed(0.0, 1.0).reason == "no difference can be shown"
    assert "more than 10,000,000" in raters_needed(1e-6, 1.0).reason
    (alone,) = plan_from_ratings([1.0, 2.0, 3.0], ["a", "b", "b"])
    assert "fewer than two raters" in alone.reason
    (same,) = plan_from_ratings([1.0, 1.0, 3.0, 3.0], list("aabb"))
    assert same.reason == "neither bot's ratings vary"
    with pytest.raises(ValueError, match="sd 0"):
        raters_needed(1.0, 0.0)
    with pytest.raises(ValueError, match="power is 1"):
        raters_needed(1.0, 1.0, power=1.0)
    with pytest.raises(ValueError, match="n is 1"):
        power_reached(1, 1.0, 1.0)
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
