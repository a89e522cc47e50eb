"""Correlations against SciPy and plain loops; intervals against published formulas and simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from evaluation.stats import correlation
from evaluation.stats.correlation import (
    METHODS,
    correlate,
    correlate_all,
    fisher_interval,
    null_point,
    permutations,
    rowwise,
    within_groups,
)
from evaluation.stats.resampling import (
    jackknife_interval,
    leave_one_out_kendall,
    leave_one_out_pearson,
    leave_one_out_spearman,
)
from tests.evaluation.stats import simulated_columns

WITHOUT = {"pearson": leave_one_out_pearson, "spearman": leave_one_out_spearman, "kendall": leave_one_out_kendall}
SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
rng = np.random.default_rng(0)


@pytest.mark.parametrize("method", METHODS)
def test_agrees_with_scipy(method):
    x = rng.normal(size=30)
    y = np.round(x + rng.normal(size=30), 1)
    result = correlate(x, y, method, interval="fisher")
    assert result.r == pytest.approx(SCIPY[method](x, y).statistic)
    if method == "pearson":  # of ranks p is by the interval's variance, which SciPy does not have
        assert result.p == pytest.approx(SCIPY[method](x, y).pvalue, rel=1e-6)
    assert result.low < result.r < result.high
    assert result.n == 30


@settings(max_examples=60, deadline=None)
@given(
    arrays(float, (4, 7), elements=st.integers(-5, 5).map(float)),
    arrays(float, (4, 7), elements=st.integers(-5, 5).map(float)),
)
def test_rowwise_is_scipy_row_by_row(x, y):
    for method in METHODS:
        result = rowwise(x, y, method)
        for row, a, b in zip(result, x, y, strict=True):
            if np.ptp(a) == 0 or np.ptp(b) == 0:
                assert math.isnan(row)
            else:
                assert row == pytest.approx(SCIPY[method](a, b).statistic, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ([1, 2], [3, 4], "only 2"),
        ([1, 2, np.nan, np.inf], [1, 2, 3, 4], "only 2"),
        ([1, 1, 1, 1], [1, 2, 3, 4], "constant"),
        ([0.1 + 0.2, 0.3, 0.3], [1, 2, 3], "constant"),  # equal but for rounding
        ([], [], "only 0"),
    ],
)
def test_undefined_has_a_reason(x, y, why):
    for method, result in correlate_all(x, y).items():
        assert result.r is None, method
        assert result.p is None
        assert why in result.reason
        assert result.to_json()["ci95"] is None


def test_undefined_pairs_are_left_out():
    x = np.array([1.0, 2, 3, 4, np.nan])
    y = np.array([2.0, 1, 4, np.nan, 3])
    assert correlate(x, y).n == 3
    assert correlate(x, y).r == pytest.approx(stats.pearsonr([1, 2, 3], [2, 1, 4]).statistic)


def test_fisher_interval_is_scipys():
    x, y = rng.normal(size=20), rng.normal(size=20)
    result = stats.pearsonr(x, y)
    expected = result.confidence_interval(0.9)
    assert fisher_interval(result.statistic, 20, "pearson", 0.9) == pytest.approx(tuple(expected), abs=0.003)
    assert fisher_interval(0.3, 3) == (None, None)


def test_fisher_variances_of_ranks():
    """Bonett and Wright (2000), Fieller, Hartley and Pearson (1957), from half a step further out."""
    low, high = fisher_interval(0.4, 103, "spearman")
    for end, side in ((low, -1), (high, 1)):
        at = 0.4 + side * 6 / (103**3 - 103)
        error = math.sqrt((1 + at**2 / 2) / 100)
        assert math.atanh(end) == pytest.approx(math.atanh(at) + side * 1.959964 * error, rel=1e-3)
    high = fisher_interval(0.0, 104, "kendall")[1]
    half = 1.959964 * math.sqrt(0.437 / 100)
    assert math.atanh(high) == pytest.approx(math.atanh(2 / (104**2 - 104)) + half, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spearman", "kendall"])
@pytest.mark.parametrize("n_bots", [5, 8, 20])
@pytest.mark.parametrize("true", [0.0, 0.9])
def test_intervals_of_ranks_hold_with_few_bots(method, n_bots, true):
    """1,000 studies of bots drawn from a normal distribution; the variances alone hold in 74 to 87 % with 5 to 8 bots
    and r = .9.
    """
    draw = np.random.default_rng(5)
    x, noise = draw.normal(size=(2, 1000, n_bots))
    result = rowwise(x, true * x + math.sqrt(1 - true**2) * noise, method)
    truth = {"spearman": 6 / math.pi * math.asin(true / 2), "kendall": 2 / math.pi * math.asin(true)}[method]
    ends = np.array([fisher_interval(r, n_bots, method) for r in result.tolist()])
    held = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean()
    assert held >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 1000)


def test_ranks_all_in_order_have_an_interval():
    low, high = fisher_interval(1.0, 6, "spearman")
    assert low < 0.85
    assert high == 1
    assert fisher_interval(-1.0, 6, "kendall")[0] == -1


@pytest.mark.parametrize("method", METHODS)
def test_the_jackknife_agrees_with_fisher_on_normal_data(method):
    x = rng.normal(size=400)
    y = 0.6 * x + rng.normal(size=400)
    result = correlate(x, y, method)
    fisher = correlate(x, y, method, interval="fisher")
    assert result.low == pytest.approx(fisher.low, abs=0.035)
    assert result.high == pytest.approx(fisher.high, abs=0.035)
    assert "jackknife" in result.interval
    assert "Fisher" in fisher.interval


@pytest.mark.parametrize("method", METHODS)
def test_resampling_whole_units_widens_the_interval(method):
    """Forty people who each give ten copies of one pair are worth forty pairs, not four hundred."""
    x, y = rng.normal(size=40), rng.normal(size=40)
    y = y + x
    people = np.repeat(np.arange(40), 10)
    one = correlate(x, y, method)
    copies = correlate(np.repeat(x, 10), np.repeat(y, 10), method, units=people)
    naive = correlate(np.repeat(x, 10), np.repeat(y, 10), method)
    assert copies.r == pytest.approx(one.r)
    width, true, false = (c.high - c.low for c in (copies, one, naive))
    assert width == pytest.approx(true, rel=0.25)
    assert false < 0.5 * width


@pytest.mark.parametrize("method", METHODS)
def test_p_and_interval_of_units_agree(method):
    """p is 1 less the level of the interval that ends at 0."""
    people = np.repeat(np.arange(12), 4)
    shift = rng.normal(size=12)[people]
    x, y = rng.normal(size=48) + shift, rng.normal(size=48) + shift
    p = correlate(x, y, method, units=people).p
    result = correlate(x, y, method, units=people, level=1 - p)
    assert min(abs(result.low), abs(result.high)) == pytest.approx(0, abs=1e-9)
    assert p > correlate(x, y, method).p, "people differ, and are few"


@pytest.mark.parametrize("method", METHODS)
def test_units_that_tell_nothing_give_no_interval(method):
    few = correlate([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5], method, units=list("aabbcc"))
    assert (few.low, few.reason.code) == (None, "units_tell_nothing")
    perfect = correlate(range(8), range(8), method)
    assert (perfect.r, perfect.low) == (pytest.approx(1), None)
    # All variation of x is one person's.
    alone = correlate([0, 0, 0, 0, 0, 1], [1, 2, 3, 1, 2, 5], method)
    assert alone.r is not None
    assert alone.low is None


def test_kendall_of_very_many_pairs_of_people_has_no_interval(monkeypatch):
    monkeypatch.setattr(correlation, "MOST_PAIRS_OF_KENDALL", 30)
    x, y = rng.normal(size=40), rng.normal(size=40)
    assert "Fisher" in correlate(x, y, "kendall").interval
    result = correlate(x, y, "kendall", units=np.arange(40) // 2)
    assert (result.p, result.low, result.reason.code) == (None, None, "many_pairs_of_units")


def test_permutations_of_few_things_are_all_of_them():
    assert {tuple(p) for p in permutations(4, 1000, 0)} == set(itertools.permutations(range(4)))
    many = permutations(10, 500, 0)
    assert many.shape == (500, 10)
    assert (np.sort(many, axis=1) == np.arange(10)).all()


def test_null_point_of_a_plain_correlation():
    """For n normal pairs the 95 % point of r follows from Student's t with n - 2 degrees of freedom."""
    x, y = rng.normal(size=50), rng.normal(size=50)
    t = stats.t.ppf(0.95, 48)
    null95 = null_point(rowwise(x, y[permutations(50, 10_000, 0)], "pearson"))
    assert null95 == pytest.approx(t / math.sqrt(48 + t * t), abs=0.02)
    assert null_point(np.array([0.1, np.nan, 0.3])) is None


def test_within_groups_against_a_regression_with_group_dummies():
    import statsmodels.api as sm

    groups = np.repeat(["a", "b", "c"], 8)
    shift = np.repeat([0.0, 5.0, -3.0], 8)
    x = rng.normal(size=24) + shift
    y = 0.3 * x + rng.normal(size=24) + 2 * shift
    result = within_groups(x, y, groups, interval="fisher")
    dummies = (groups[:, None] == np.unique(groups)).astype(float)
    fit = sm.OLS(y, np.column_stack([x, dummies])).fit()
    assert result.p == pytest.approx(fit.pvalues[0])
    partial = fit.tvalues[0] / math.sqrt(fit.tvalues[0] ** 2 + fit.df_resid)
    assert result.r == pytest.approx(partial)


def test_within_groups_of_one_each_is_undefined():
    assert within_groups([1, 2, 3], [3, 1, 2], ["a", "b", "c"]).r is None


def test_spearman_of_many_pairs_has_the_interval_of_ranks_made_anew() -> None:
    rng = np.random.default_rng(5)
    units = np.repeat(np.arange(60), 5)
    shift = rng.normal(size=60)[units]
    x = np.round(rng.normal(size=300) + shift, 1)
    y = np.round(x + rng.normal(size=300) + shift, 1)
    result = correlate(x, y, "spearman", units=units)
    draws = []
    for _ in range(1000):
        rows = np.concatenate([np.flatnonzero(units == u) for u in rng.integers(0, 60, size=60)])
        draws.append(stats.spearmanr(x[rows], y[rows]).statistic)
    low, high = np.quantile(draws, [0.025, 0.975])
    assert result.low == pytest.approx(low, abs=0.03)
    assert result.high == pytest.approx(high, abs=0.03)


@pytest.mark.parametrize("decimals", [0, 3])
@pytest.mark.parametrize(("n_units", "n_each"), [(8, 1), (12, 4), (60, 2)])
def test_coefficients_without_units_are_those_of_scipy(n_units, n_each, decimals):
    codes = np.repeat(np.arange(n_units), n_each)
    x = np.round(rng.normal(size=len(codes)), decimals)
    y = np.round(x + rng.normal(size=len(codes)), decimals)
    for method, without in WITHOUT.items():
        expected = [SCIPY[method](x[codes != u], y[codes != u]).statistic for u in range(n_units)]
        np.testing.assert_allclose(without(x, y, codes), expected, atol=1e-12)


def test_spearman_without_one_of_many_units_is_nearly_exact():
    """Products of two changes of ranks are left out beyond a hundred units: the spread is 1 % too large with 150 of
    them.
    """
    codes = np.arange(300) // 2
    x = np.round(rng.normal(size=300), 1)
    y = np.round(x + rng.normal(size=300), 1)
    result = leave_one_out_spearman(x, y, codes)
    expected = [stats.spearmanr(x[codes != u], y[codes != u]).statistic for u in range(150)]
    np.testing.assert_allclose(result, expected, atol=2e-4)
    assert np.std(result) == pytest.approx(np.std(expected), rel=0.02)


def test_within_groups_over_people_makes_the_means_anew_without_each():
    people = np.repeat(np.arange(15), 4)
    groups = rng.integers(0, 3, 60)
    x = rng.normal(size=15)[people] + rng.normal(size=60) + groups
    y = 0.5 * x + rng.normal(size=60)

    def r_of(keep):
        a, b = (
            np.concatenate([one[keep & (groups == g)] - one[keep & (groups == g)].mean() for g in range(3)])
            for one in (x, y)
        )  # fmt: skip
        return stats.pearsonr(a, b).statistic

    without = np.array([r_of(people != one) for one in range(15)])
    np.testing.assert_allclose(leave_one_out_pearson(x, y, people, groups), without)
    result = within_groups(x, y, groups, units=people)
    assert result.r == pytest.approx(r_of(np.ones(60, dtype=bool)))
    ends = jackknife_interval(result.r, without, 2.0, 0.95)
    assert (result.low, result.high) == pytest.approx(ends)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("units", [None, np.arange(60) // 2])
def test_p_is_that_of_the_interval(method, units):
    draw = np.random.default_rng(8)
    seen = set()
    for slope in np.linspace(0, 0.6, 15):
        x = draw.normal(size=60)
        y = slope * x + draw.normal(size=60)
        result = correlate(x, y, method, units=units)
        assert (result.p < 0.05) == (not result.low <= 0 <= result.high)
        seen.add(result.p < 0.05)
        within = within_groups(x, y, np.arange(60) % 3, units=units)
        assert (within.p < 0.05) == (not within.low <= 0 <= within.high)
    assert seen == {True, False}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_bots", [3, 4, 5, 8, 12])
def test_p_and_interval_over_bots_never_contradict(method, n_bots):
    """Columns with mass at 0; Two methods would disagree about r between their critical values."""
    draw = np.random.default_rng(n_bots)
    for slope in np.linspace(0, 3, 60):
        x = np.round(np.maximum(0, draw.normal(size=n_bots)), 1)
        y = np.round(slope * x + draw.normal(size=n_bots), 1)
        groups = np.arange(n_bots) % 2
        for result in (correlate(x, y, method, interval="fisher"), within_groups(x, y, groups, interval="fisher")):
            if result.low is None:
                assert result.p is None
                assert result.reason
                continue
            assert (result.p < 0.05) == (not result.low <= 0 <= result.high)
        p = correlate(x, y, method, interval="fisher").p
        if p is not None and 1e-9 < p < 1:
            at = correlate(x, y, method, interval="fisher", level=1 - p)
            assert min(abs(at.low), abs(at.high)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("n_bots", [4, 5, 9])
def test_p_of_pearson_over_bots_is_students(n_bots):
    """Far out as well, where Holm's method looks: of five bots the normal p would be a third of it."""
    for noise in (0.01, 0.1, 1):
        x = rng.normal(size=n_bots)
        y = x + noise * rng.normal(size=n_bots)
        assert correlate(x, y, interval="fisher").p == pytest.approx(stats.pearsonr(x, y).pvalue, rel=1e-6)


def test_ties_widen_kendalls_interval_by_scipys_variance():
    """SciPy's test of tau-b has the same variance with ties, without their factor that of no ties."""
    x, y = np.array([0, 0, 0, 0, 1, 2, 3, 3]), np.array([1, 2, 2, 4, 5, 3, 6, 7])
    tied = stats.kendalltau(x, y, method="asymptotic")
    z = stats.norm.isf(tied.pvalue / 2)
    variance = (tied.statistic / z) ** 2 / (2 * (2 * 8 + 5) / (9 * 8 * 7))
    assert correlation._tie_factor(x, y) == pytest.approx(variance)
    assert correlation._tie_factor(np.arange(8), y[::-1].cumsum()) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [0.0, 0.7])
@pytest.mark.parametrize("n_bots", [5, 12])
@pytest.mark.parametrize("method", METHODS)
def test_bots_of_skewed_metrics_hold_level_and_interval(method, n_bots, zeros):
    """Level and intervals over bots, of the correlation at these bots' values of the metric."""
    draw = np.random.default_rng(7)
    n = 1000
    for slope in (0.0, 1.0) if method == "pearson" else (0.0,):
        x = np.where(draw.random((n, n_bots)) < zeros, 0.0, np.exp(0.5 * draw.normal(size=(n, n_bots))))
        x = x[np.ptp(x, axis=1) > 0]
        y = slope * x + draw.normal(size=x.shape)
        results = [correlate(a, b, method, interval="fisher") for a, b in zip(x, y, strict=True)]
        error = 2 * math.sqrt(0.05 * 0.95 / len(results))
        if method == "pearson":
            spread = slope * x.std(axis=1)
            true = spread / np.sqrt(spread**2 + 1)
            held = [result.low <= r <= result.high for result, r in zip(results, true, strict=True)]
            assert np.mean(held) >= 0.95 - error
        if not slope:
            assert np.mean([result.p < 0.05 for result in results]) <= 0.05 + error


@pytest.mark.parametrize("slope", [0.0, 0.8])
@pytest.mark.parametrize("design", simulated_columns.DESIGNS[1:4])
def test_skewed_columns_with_mass_at_0_hold_their_level_or_have_none(design, slope):
    result = simulated_columns.held(design, slope, "pearson", 500)
    error = 2 * np.sqrt(0.05 * 0.95 / result.n)
    assert result.n > 80
    assert result.held / result.n >= 0.95 - error
    assert result.contrary == 0
    assert slope or result.told / result.n <= 0.05 + error


def test_a_column_that_one_item_carries_has_neither_interval_nor_p():
    # As BLEU-4 of 150 replies: one says what the reference says, another a part of it.
    x = np.zeros(150)
    x[[3, 90]] = 0.8, 0.05
    y = np.linspace(1, 5, 150)
    y[3] = 3.8
    for result in (correlate(x, y), within_groups(x, y, np.arange(150) % 2)):
        assert result.r == pytest.approx(0.055, abs=0.02)
        assert (result.p, result.low, result.high) == (None, None, None)
        assert result.reason.code == "few_carry"
        assert result.reason.values["n_units"] == 150
        assert 1 <= result.reason.values["n_carrying"] < 1.1
    # Two replies to one context are one item; two replies apart are two, and a rank is no larger than its place.
    x[90] = 0.8
    together = np.where(np.isin(np.arange(150), [3, 90]), 0, np.arange(150) + 1)
    assert correlate(x, y, units=together).reason.code == "few_carry"
    x[50] = 0.8
    assert correlate(x, y).reason is None
    assert correlate(x * np.arange(150), y, "spearman").reason is None
