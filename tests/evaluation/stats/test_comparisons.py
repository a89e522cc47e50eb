"""Differences of bots, means over turns, and scores on the rater's own scale, against other programs."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from evaluation.stats.comparisons import false_discovery_rates, holm, pairwise
from evaluation.stats.trajectories import LEAST_P, course, difference_of_means, extremes
from evaluation.stats.zscores import rater_codes, rater_zscores
from tests.evaluation.stats.means_by_hand import welch
from tests.reference.ratings import JI_RATINGS, JI_Z_SCORES

rng = np.random.default_rng(0)


def test_holm_is_statsmodels():
    for size in (1, 2, 7, 30):
        p = rng.uniform(size=size) ** 3
        np.testing.assert_allclose(holm(p.tolist()), multipletests(p, method="holm")[1])


def test_false_discovery_rates_are_statsmodels():
    p = rng.uniform(0, 1, 40) ** 2
    result = false_discovery_rates([*p.tolist(), None])
    np.testing.assert_allclose(result[:-1], multipletests(p, method="fdr_bh")[1])
    assert result[-1] is None
    assert false_discovery_rates([None]) == [None]


def test_independent_ratings_are_compared_by_welch():
    values = np.concatenate([rng.normal(m, s, n) for m, s, n in ((0, 1, 20), (1, 3, 35), (5, 1, 12))])
    bots = ["a"] * 20 + ["b"] * 35 + ["c"] * 12
    results = {(c.a, c.b): c for c in pairwise(values, bots, level=0.9).pairs}
    assert set(results) == {("a", "b"), ("a", "c"), ("b", "c")}
    test = stats.ttest_ind(values[:20], values[20:55], equal_var=False)
    assert results["a", "b"].p == pytest.approx(test.pvalue)
    assert results["a", "b"].df == pytest.approx(test.df)
    assert results["a", "b"].low == pytest.approx(test.confidence_interval(0.9).low)
    assert results["a", "b"].difference == pytest.approx(values[:20].mean() - values[20:55].mean())
    assert results["a", "c"].ordered


def test_where_everybody_rates_both_bots_it_is_the_paired_test():
    people = np.arange(60)
    level = rng.normal(0, 3, 60)
    a, b = level + rng.normal(0, 0.5, 60), level + 0.6 + rng.normal(0, 0.5, 60)
    values, bots = np.concatenate([a, b]), ["a"] * 60 + ["b"] * 60
    (result,) = pairwise(values, bots, np.concatenate([people, people])).pairs
    paired = stats.ttest_rel(a, b)
    ends = paired.confidence_interval(0.95)
    assert (result.low, result.high, result.p) == pytest.approx((ends.low, ends.high, paired.pvalue))
    assert result.df == pytest.approx(59)
    assert result.ordered
    (apart,) = pairwise(values, bots).pairs
    assert not apart.ordered


def test_participants_seen_once_each_and_unknown_ones_are_independent():
    values = rng.normal(size=40)
    bots = ["a"] * 20 + ["b"] * 20
    plain = pairwise(values, bots)
    assert pairwise(values, bots, [None] * 40) == plain
    assert pairwise(values, bots, [float("nan")] * 40) == plain
    assert pairwise(values, bots, list(range(40))) == plain


def test_equal_bots_are_too_close():
    """The correction holds the chance of any wrong order among six equal bots near five per cent."""
    wrong = 0
    bots = np.repeat(list("abcdef"), 25)
    for _ in range(150):
        wrong += any(pair.ordered for pair in pairwise(rng.normal(size=150), bots).pairs)
    assert wrong <= 17


@pytest.mark.parametrize(
    ("values", "bots", "why"),
    [
        ([1.0, 2.0, 3.0], ["a", "a", "b"], "one rating"),
        ([1.0, 2.0, np.nan], ["a", "a", "b"], "b has no rating"),
        ([1.0, 1.0, 2.0, 2.0], ["a", "a", "b", "b"], "vary"),
    ],
)
def test_undefined_has_a_reason(values, bots, why):
    (result,) = pairwise(values, bots).pairs
    assert result.p is None
    assert result.p_holm is None
    assert not result.ordered
    assert why in result.reason


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([3.0, 4.0, 6.0, 7.0, 7.0], [2.0, 2.0, 5.0]),
        ([7.0, 7.0, 7.0], [5.0, 6.0, 7.0, 7.0]),  # one side is constant
    ],
)
def test_the_formula(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = welch(np.array(x), np.array(y), 0.90)
    a, b = np.var(x, ddof=1) / len(x), np.var(y, ddof=1) / len(y)
    df = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    gap, error = np.mean(x) - np.mean(y), np.sqrt(a + b)
    half = stats.t.ppf(0.95, df) * error
    assert (result.low, result.high) == pytest.approx((gap - half, gap + half))
    assert result.p == pytest.approx(2 * stats.t.sf(abs(gap) / error, df))


NAN = float("nan")


def test_the_best_and_the_worst():
    scores = [3, 1, NAN, 9, 7, 5, 2]
    result = extremes(scores, 2)
    assert result.best.tolist() == [3, 4]
    assert result.worst.tolist() == [1, 6]
    assert (result.lowest_best, result.highest_worst) == (7, 2)
    assert result.n_tied == (1, 1)
    assert result.reason is None


def test_ties_at_the_border_are_drawn_by_the_seed():
    scores = np.repeat([1.0, 5.0, 9.0], [10, 10, 10])
    draws = [extremes(scores, 4, seed=seed) for seed in range(40)]
    assert all(set(d.best) <= set(range(20, 30)) and set(d.worst) <= set(range(10)) for d in draws)
    assert all(d.n_tied == (10, 10) for d in draws)
    assert set().union(*(d.best for d in draws)) == set(range(20, 30))  # everyone has a chance
    again = extremes(scores, 4, seed=3)
    np.testing.assert_array_equal(again.best, draws[3].best)


def test_the_groups_never_share_a_conversation():
    scores = np.repeat([1.0, 2.0], [3, 6])
    for seed in range(20):
        result = extremes(scores, 100, seed=seed)
        assert len(result.best) == len(result.worst) == 4
        assert not set(result.best) & set(result.worst)
    assert result.reason == "9 conversations rated; 100 best and 100 worst require 200"


def test_no_best_where_all_are_alike_or_nobody_rated():
    assert extremes([4.0] * 300).reason == "all conversations have the same rating"
    assert "1 conversation rated" in extremes([1.0, NAN]).reason
    assert len(extremes([NAN, NAN]).best) == 0
    with pytest.raises(ValueError, match="k is 0"):
        extremes([1.0, 2.0], 0)


def test_means_and_intervals_by_turn():
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=rng.integers(1, 7)).tolist() for _ in range(30)]
    rows[0] = [None, NAN, 1.5]
    result = course(rows, level=0.9)
    frame = pd.DataFrame([pd.Series(row, dtype=float) for row in rows])
    np.testing.assert_allclose(result.mean, frame.mean())
    np.testing.assert_array_equal(result.n, frame.count())
    for turn in range(frame.shape[1]):
        values = frame[turn].dropna()
        ends = stats.t.interval(0.9, len(values) - 1, values.mean(), stats.sem(values))
        assert (result.low[turn], result.high[turn]) == pytest.approx(ends)


def test_conversations_of_one_person_count_as_that_person_does():
    rows = [[1.0], [1.2], [3.0], [3.1], [5.0], [4.8]]
    result = course(rows, ["p", "p", "q", "q", "r", "r"])
    means = [1.1, 3.05, 4.9]
    ends = stats.t.interval(0.9, 2, np.mean(means), stats.sem(means))
    assert (result.low[0], result.high[0]) == pytest.approx(ends)
    nobody = course(rows, [None] * 6)
    assert nobody.high[0] < result.high[0]
    shares = course([[1.0], [1.0], [1.0]], scale=(0.0, 1.0))
    assert 0 < shares.low[0] < 0.7
    assert shares.high[0] == 1


def test_one_conversation_has_no_interval_and_none_no_mean():
    result = course([[1.0, None, 3.0], [2.0, None]])
    assert result.n.tolist() == [2, 0, 1]
    assert np.isnan(result.mean[1])
    assert np.isnan(result.low[2])
    assert result.mean[2] == 3.0
    assert len(course([]).mean) == 0


rng_of_turns = np.random.default_rng(3)
X, Y = rng_of_turns.lognormal(1.6, 0.7, size=9), rng_of_turns.lognormal(2.2, 0.7, size=14)
APART = np.arange(9), np.arange(9, 23)
FROM_NOTHING = (0.0, np.inf)


def test_without_a_scale_it_is_welchs_test() -> None:
    result = difference_of_means((X, Y), APART, 0.9)
    expected = stats.ttest_ind(X, Y, equal_var=False)
    assert result.p == pytest.approx(expected.pvalue)
    assert (result.low, result.high) == pytest.approx(tuple(expected.confidence_interval(0.9)))


def test_the_interval_of_level_one_less_p_ends_at_nothing() -> None:
    for scale in (FROM_NOTHING, (0.0, 60.0)):
        told = difference_of_means((X, Y), APART, 0.9, scale)
        at_p = difference_of_means((X, Y), APART, 1 - told.p, scale)
        assert at_p.high == pytest.approx(0.0, abs=1e-6)
        assert (told.p < 0.1) == (told.high is not None and told.high < 0)


def test_one_persons_values_in_both_groups_make_it_narrower_where_they_go_together() -> None:
    x, y = X, X * 1.2 + rng_of_turns.normal(size=9) * 0.1
    both = difference_of_means((x, y), (np.arange(9), np.arange(9)), 0.9, FROM_NOTHING)
    apart = difference_of_means((x, y), (np.arange(9), np.arange(9, 18)), 0.9, FROM_NOTHING)
    assert None not in (both.low, both.high, apart.low, apart.high)
    assert both.high - both.low < 0.5 * (apart.high - apart.low)  # type: ignore[operator]
    assert both.p < apart.p


def test_a_group_that_does_not_vary_has_an_interval_only_where_both_ends_of_the_scale_are_known() -> None:
    never, often = np.zeros(12), np.tile([0.0, 1.0], 6)
    people = np.arange(12), np.arange(12, 24)
    on_scale = difference_of_means((never, often), people, 0.9, (0.0, 1.0))
    assert on_scale.high < 0
    for scale in (FROM_NOTHING, None):
        result = difference_of_means((never, often), people, 0.9, scale)
        assert (result.low, result.high) == (None, None)
        assert 0.01 < result.p < 0.05, "the constant group takes the spread of the other one"
    assert difference_of_means((never, never), people, 0.9, (0.0, 1.0)) is None
    one = np.zeros(12, dtype=int)
    assert difference_of_means((X[:2], often), (one[:2], people[1]), 0.9) is None


def test_a_p_value_beyond_what_levels_can_tell_is_the_least() -> None:
    low, high = rng_of_turns.normal(10, 0.1, size=40), rng_of_turns.normal(20, 0.1, size=40)
    result = difference_of_means((low, high), (np.arange(40), np.arange(40, 80)), 0.9, FROM_NOTHING)
    assert result.p == LEAST_P
    same = difference_of_means((low, low), (np.arange(40), np.arange(40, 80)), 0.9, FROM_NOTHING)
    assert same.p == 1.0


def test_each_raters_scores_are_scipys():
    raters = rng.permutation(np.repeat(["ann", "bob", "eve"], [12, 30, 9]))
    values = rng.normal(size=51)
    result = rater_zscores(values, raters)
    for name in ("ann", "bob"):
        own = raters == name
        np.testing.assert_allclose(result.values[own], stats.zscore(values[own], ddof=1))
    assert np.isnan(result.values[raters == "eve"]).all()
    assert result.left_out == {"eve": "only 9 of the 10 ratings needed"}
    assert (result.n_ratings, result.n_used) == (51, 42)
    assert set(result.raters) == {"ann", "bob"}


def test_published_scores_pool_a_workers_sliders():
    result = rater_zscores(JI_RATINGS, ["w"] * 6, min_ratings=2, pooled=True)
    np.testing.assert_allclose(result.values, JI_Z_SCORES, atol=6e-5)


def test_dimensions_by_themselves_and_missing_values():
    values = rng.normal(size=(20, 3))
    values[4, 1] = np.nan
    result = rater_zscores(values, ["w"] * 20)
    np.testing.assert_allclose(result.values, stats.zscore(values, ddof=1, nan_policy="omit"))
    assert np.isnan(result.values[4, 1])


def test_a_rater_who_never_varies_has_no_scores_but_can_be_centred():
    values = [4.0] * 10 + list(range(10))
    raters = ["flat"] * 10 + ["ok"] * 10
    result = rater_zscores(values, raters)
    assert np.isnan(result.values[:10]).all()
    assert "all 10 ratings are equal" in result.left_out["flat"]
    centred = rater_zscores(values, raters, mode="centre")
    assert centred.values[:10].tolist() == [0.0] * 10
    assert centred.values[10] == -4.5


def test_unknown_raters_are_left_out_and_counted():
    result = rater_zscores([1.0, 2.0, 3.0], [None, float("nan"), ""], min_ratings=2)
    assert result.left_out == {"": "3 ratings without a rater"}
    assert result.n_used == 0


def test_codes_give_every_unknown_rater_a_code_of_their_own():
    assert rater_codes(["a", None, "b", "a", None]).tolist() == [0, 1, 2, 0, 3]


def test_refusals():
    with pytest.raises(ValueError, match="3 raters"):
        rater_zscores([1.0, 2.0], ["a", "b", "c"])
    with pytest.raises(ValueError, match="min_ratings is 1"):
        rater_zscores([1.0], ["a"], min_ratings=1)
