"""Effect sizes against textbook formulas, scipy's rank test, a bootstrap over raters, and by hand."""

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.comparisons import pairwise
from evaluation.stats.effect_sizes import EffectSizes, effect_sizes

rng = np.random.default_rng(7)


def sizes(values, bots, raters, things=None, *, scale=(1.0, 7.0), level=0.9) -> EffectSizes:
    pairs = pairwise(values, bots, raters, things, level=level).pairs
    result = effect_sizes(values, bots, raters, things, pairs, level=level, scale=scale)
    return result["a", "b"]


def clustered(n_raters: int, each: int):
    raters = np.repeat(np.arange(n_raters), 2 * each)
    bots = np.tile(["a"] * each + ["b"] * each, n_raters)
    own = rng.normal(0, 1, n_raters)[raters]
    values = np.clip(np.round(4 + 0.8 * (bots == "a") + own + rng.normal(0, 1, len(raters))), 1, 7)
    return values, bots, raters


def test_values_are_those_of_the_definitions():
    values, bots, raters = clustered(30, 2)
    a, b = values[bots == "a"], values[bots == "b"]
    result = sizes(values, bots, raters)
    gap = a.mean() - b.mean()
    assert result.standardised.value == pytest.approx(gap / np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2))
    assert result.share.value == pytest.approx(gap / 6)
    (pair,) = pairwise(values, bots, raters, level=0.9).pairs
    assert (result.share.low, result.share.high) == pytest.approx((pair.low / 6, pair.high / 6))
    assert result.superiority.value == pytest.approx(stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)))


def test_independent_ratings_have_the_large_sample_errors_of_the_textbooks():
    a, b = rng.normal(0.5, 1, 4000), rng.normal(0, 1, 3000)
    values, bots = np.concatenate([a, b]), ["a"] * 4000 + ["b"] * 3000
    result = sizes(values, bots, np.arange(7000), scale=None)
    d = result.standardised.value
    # Hedges and Olkin (1985) for normal values.
    error = np.sqrt(1 / 4000 + 1 / 3000 + d**2 / 4 * (1 / (2 * 4000) + 1 / (2 * 3000)))
    assert result.standardised.high - d == pytest.approx(stats.norm.ppf(0.95) * error, rel=0.02)
    assert result.superiority.value == pytest.approx(stats.norm.cdf(0.5 / np.sqrt(2)), abs=0.02)
    test = stats.brunnermunzel(b, a)
    p = result.superiority.value
    width = np.log(result.superiority.high / (1 - result.superiority.high)) - np.log(p / (1 - p))
    assert width == pytest.approx(1.645 * (p - 0.5) / abs(test.statistic) / (p * (1 - p)), rel=0.01)
    assert result.share.reason.code == "no_scale"


def test_intervals_are_as_wide_as_a_bootstrap_over_whole_raters():
    values, bots, raters = clustered(60, 3)
    result = sizes(values, bots, raters)
    a, b = (values[bots == bot].reshape(60, 3) for bot in "ab")
    drawn = []
    for _ in range(2000):
        take = rng.integers(0, 60, 60)
        x, y = a[take].ravel(), b[take].ravel()
        above = stats.mannwhitneyu(x, y, method="asymptotic").statistic / len(x) ** 2
        drawn.append([(x.mean() - y.mean()) / np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2), above])
    errors = np.std(drawn, axis=0, ddof=1) * stats.t.ppf(0.95, 59)
    half = [(one.high - one.low) / 2 for one in (result.standardised, result.superiority)]
    assert half == pytest.approx(errors.tolist(), rel=0.08)
    # As if every rating had its own rater, the interval would be wider: here raters rate both bots.
    assert sizes(values, bots, np.arange(len(values))).standardised.high > result.standardised.high


def test_shared_things_widen_the_intervals():
    raters = np.tile(np.arange(20), 12)
    things = np.repeat(np.arange(12), 20)
    bots = np.where(things < 6, "a", "b")
    values = 4 + 0.5 * (bots == "a") + rng.normal(0, 1, 12)[things] + rng.normal(0, 0.5, 240)
    alone, shared = sizes(values, bots, raters), sizes(values, bots, raters, things)
    for name in ("standardised", "superiority"):
        one, other = getattr(alone, name), getattr(shared, name)
        assert one.value == other.value
        assert other.high - other.low > 2 * (one.high - one.low)


def test_conditions_weigh_the_same_whatever_the_bots_had_more_of():
    """Two bots alike under each condition, of which one bot had the pleasant one more often."""
    condition = np.array(["hard"] * 10 + ["easy"] * 40 + ["hard"] * 40 + ["easy"] * 10)
    bots = np.repeat(["a", "b"], 50)
    values = np.where(condition == "easy", 6.0, 2.0) + np.tile([-1.0, 0.0, 1.0, 0.5, -0.5], 20)
    raters = np.arange(100)
    pairs = pairwise(values, bots, raters, conditions=condition, level=0.9).pairs
    result = effect_sizes(values, bots, raters, None, pairs, conditions=condition, level=0.9, scale=(1, 7))["a", "b"]
    assert (result.standardised.value, result.superiority.value) == pytest.approx((0, 0.5))
    cells = [values[(bots == bot) & (condition == one)].var(ddof=1) for bot in "ab" for one in ("hard", "easy")]
    # With D = 0 the error is that of the difference, in standard deviations within cells.
    gap = pairs[0].high / np.sqrt(np.mean(cells))
    assert result.standardised.high == pytest.approx(gap, rel=0.06)
    assert sizes(values, bots, raters).superiority.value > 0.7


def test_exchanged_bots_mirror_the_effects():
    values, bots, raters = clustered(20, 1)
    result, turned = sizes(values, bots, raters), sizes(values, np.where(bots == "a", "b", "a"), raters)
    mirrored = result.turned()
    for name in ("standardised", "share", "superiority"):
        one, other = getattr(mirrored, name), getattr(turned, name)
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_undefined_sizes_have_their_reasons():
    result = sizes([1.0, 1.0, 2.0, 2.0], list("aabb"), [1, 2, 3, 4])
    assert result.standardised.reason.code == "no_spread"
    assert (result.superiority.value, result.superiority.reason.code) == (0.0, "all_above")
    one = sizes([1.0, 2.0, 2.0], list("aab"), [1, 2, 3])
    assert one.standardised.reason.code == "no_spread" or one.standardised.value is None
    assert (one.share.low, one.share.reason.code) == (None, "one_rating")
    single = sizes([1.0, 3.0, 2.0, 4.0], list("aabb"), [1, 1, 2, 3])
    assert (single.standardised.low, single.standardised.reason.code) == (None, "one_rater")
    assert single.superiority.value == pytest.approx(0.25)
    unrated = sizes([1.0, 2.0, np.nan], list("aab"), [1, 2, 3])
    assert unrated.superiority.reason.code == "no_value"
    assert unrated.to_json()["superiority"]["value"] is None


def test_raters_who_all_place_a_bot_alike_give_no_interval():
    values, raters = [5.0, 7.0, 5.0, 6.0, 1.0, 5.0, 2.0, 5.0], np.repeat([1, 2, 3, 4], 2)
    result = sizes(values, list("aaaabbbb"), raters)
    assert result.standardised.low < result.standardised.value < result.standardised.high
    assert result.superiority.value == pytest.approx(0.875)
    assert (result.superiority.low, result.superiority.reason.code) == (None, "no_rater_differs")
