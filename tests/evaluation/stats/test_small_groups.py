"""Comparisons of few or equal ratings, which say little of how far a mean can be off."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.analysis.comparisons import compare
from evaluation.analysis.prediction_powered import powered_mean
from evaluation.data.ratings import Ratings
from evaluation.stats.anova import anova
from evaluation.stats.comparisons import is_equal, pairwise
from evaluation.stats.conditions import fit_bots, mean_within
from evaluation.stats.gls import Gap, fit_gls
from evaluation.stats.means import share_interval
from evaluation.stats.mixed import wald_comparisons, wald_test
from evaluation.stats.score_differences import ScaledMean, ScoreDifference
from tests.validation import condition_cells
from tests.validation.small_groups import ANSWERS, simulate

CASES = Path(__file__).resolve().parents[2] / "cases"


@pytest.mark.parametrize(
    ("file", "question", "scale"),
    [
        ("compare_four_of_four.csv", "good", (0, 1)),
        ("compare_three_equal_ratings.csv", "quality", (1, 5)),
        ("compare_three_equal_ratings.csv", "quality", None),
    ],
)
def test_a_few_equal_ratings_are_not_clearly_different(file, question, scale):
    ratings = Ratings.from_frame(pd.read_csv(CASES / file), [question], **({"scale": scale} if scale else {}))
    compared = compare(ratings)
    (pair,) = compared.pairs
    assert compared.n_told_apart == 0
    if scale is None:
        assert str(pair.reason) == "all 3 ratings of a are equal, and the scale is unknown"
        assert (pair.low, pair.p, compared.n_pairs) == (None, None, 0)
    else:
        assert pair.low < 0 < pair.high
        assert pair.p > 0.3
    assert compared.plans[0].sd is None, "equal ratings say nothing of the spread to plan by"
    effects = compared.effect("a", "b")
    assert (effects.standardised.low, effects.superiority.low) == (None, None)
    assert effects.standardised.reason.code in {"no_rater_differs", "equal_ratings"}


@pytest.mark.parametrize("name", ["skewed", "ceiling, down to 1", "0/1, .90"])
@pytest.mark.parametrize("n_few", [2, 3, 5, 8])
def test_two_equal_bots_are_seldom_clearly_different(name, n_few):
    for is_scale_known in (True, False):
        outcome = simulate(ANSWERS[name], n_few, 150, is_scale_known=is_scale_known)
        assert (outcome.different <= [0.10 + 0.05, 0.05 + 0.04]).all()
        assert (outcome.held >= [0.90 - 0.05, 0.95 - 0.04]).all()


def test_shares_have_newcombes_interval_with_t_for_z():
    ones, zeros = np.ones(4), np.array([1.0] * 60 + [0.0] * 20)
    bots = ["a"] * 4 + ["b"] * 80
    (pair,) = pairwise(np.concatenate([ones, zeros]), bots, level=0.9, scale=(0, 1)).pairs
    level = 2 * stats.norm.cdf(stats.t.ppf(0.95, 3)) - 1
    a, b = share_interval(4, 4, level=level), share_interval(60, 80, level=level)
    assert pair.low == pytest.approx(0.25 - np.hypot(1 - a[0], b[1] - 0.75), abs=0.002)
    assert pair.high == pytest.approx(0.25 + (0.75 - b[0]), abs=0.002)
    assert (pair.error, pair.df) == (None, None)


def test_p_is_one_less_the_level_whose_interval_ends_at_0():
    rng = np.random.default_rng(4)
    for n in (2, 5, 12, 60):
        values = rng.choice([1, 2, 3, 4, 5], size=2 * n, p=[0.1, 0.1, 0.2, 0.2, 0.4]).astype(float)
        values[n:] = np.clip(values[n:] - 1, 1, 5)
        bots = ["a"] * n + ["b"] * n
        (pair,) = pairwise(values, bots, scale=(1, 5)).pairs
        (again,) = pairwise(values, bots, scale=(1, 5), level=1 - pair.p).pairs
        assert min(abs(again.low), abs(again.high)) < 1e-6


def test_many_ratings_that_vary_are_compared_as_without_a_scale():
    rng = np.random.default_rng(5)
    values, bots = rng.integers(1, 6, size=100).astype(float), ["a"] * 40 + ["b"] * 60
    assert pairwise(values, bots, scale=(1, 5)) == pairwise(values, bots)


def test_many_equal_ratings_at_both_ends_differ():
    values, bots = [5.0] * 10 + [1.0] * 10, ["a"] * 10 + ["b"] * 10
    (pair,) = pairwise(values, bots, scale=(1, 5)).pairs
    assert pair.ordered
    assert 0 < pair.low < 4 == pair.difference
    (unknown,) = pairwise(values, bots).pairs
    assert (unknown.p, unknown.reason.code) == (None, "no_spread")


def test_equal_ratings_are_no_proof_of_equality():
    values, bots = [5.0] * 3 + [5.0] * 3, ["a"] * 3 + ["b"] * 3
    (few,) = pairwise(values, bots, scale=(1, 5)).pairs
    assert (few.p, is_equal(few, 0.4)) == (1.0, False)
    (unknown,) = pairwise(values, bots).pairs
    assert is_equal(unknown, 0.4) is None
    many = [5.0] * 400
    (pair,) = pairwise([*many, *many], ["a"] * 400 + ["b"] * 400, scale=(1, 5)).pairs
    assert is_equal(pair, 0.4) is True


def test_raters_who_all_see_the_same_difference_do_not_make_it_certain():
    level = np.array([2.0, 3.0, 4.0])
    values, bots, raters = np.concatenate([level + 1, level]), ["a"] * 3 + ["b"] * 3, [0, 1, 2, 0, 1, 2]
    (known,) = pairwise(values, bots, raters, scale=(1, 5)).pairs
    assert not known.ordered
    assert known.low < 0
    (unknown,) = pairwise(values, bots, raters).pairs
    assert (unknown.p, unknown.reason.code) == (None, "no_rater_differs")


def test_a_mean_beyond_its_scale_keeps_an_interval_on_it():
    # Adjusted for strict raters, the mean of ratings at the top can lie above it.
    pair = ScoreDifference(Gap(1.3, 0.4, 5.0), ScaledMean(5.1, 0.01, 6, 6), ScaledMean(3.8, 0.15, 6, 6), (1, 5))
    low, high = pair.ends(0.9)
    assert low < 1.3 < high
    assert 0 < pair.p_value() < 1


def test_a_constant_level_borrows_its_variance_in_tests_of_several_differences():
    rng = np.random.default_rng(6)
    n_wrong = 0
    for _ in range(200):
        values = rng.choice([1.0, 2, 3, 4, 5], size=45, p=[0.05, 0.05, 0.1, 0.2, 0.6])
        values[:5] = 5  # a bot that has only had top marks
        bot, rater = np.repeat([0, 1, 2], [5, 20, 20]), np.arange(45)
        result = wald_test(fit_gls(values, bot, rater), np.array([[1.0, -1, 0], [0, 1, -1]]))
        n_wrong += result.p < 0.10
    assert n_wrong <= 0.2 * 200


def test_a_constant_cell_of_a_condition_borrows_its_variance():
    cells = {
        ("a", "x"): [5.0, 5, 5],  # as it happens, all alike
        ("a", "y"): [3.0, 4, 5],
        ("b", "x"): [2.0, 3, 4, 5],
        ("b", "y"): [4.0, 4, 3, 5],
    }
    bots, conditions = np.array([key for key, ratings in cells.items() for _ in ratings]).T
    values = np.concatenate(list(cells.values()))
    pooled = (
        2 * np.var(cells["a", "y"], ddof=1) + 3 * np.var([2, 3, 4, 5], ddof=1) + 3 * np.var([4, 4, 3, 5], ddof=1)
    ) / 8
    own = {key: np.var(ratings, ddof=1) / len(ratings) for key, ratings in cells.items()}
    own["a", "x"] = pooled / 3
    error = np.sqrt(sum(own.values())) / 2
    (pair,) = pairwise(values, bots, conditions=conditions).pairs
    assert pair.error == pytest.approx(error)
    assert pair.difference == pytest.approx(4.5 - 3.75)
    analysis = anova(values, {"bot": bots, "condition": conditions}, range(len(values)))
    contrast = next(contrast for contrast in analysis.contrasts if contrast.factor == "bot")
    assert contrast.p == pytest.approx(2 * stats.t.sf(0.75 / error, pair.df))
    of_a = bots == "a"
    alone = mean_within(values[of_a], np.arange(6), 0.9, conditions=conditions[of_a])
    # Of one bot, the other cell is that of 3, 4 and 5: its variance 1 / 3 counts twice.
    assert (alone.high - alone.low) / 2 == pytest.approx(stats.t.ppf(0.95, 2) * np.sqrt(2 / 3) / 2)


def test_bots_that_vary_in_no_cell_borrow_nothing():
    values, bots = np.array([5.0, 5, 4, 4, 2, 3, 4, 1]), np.repeat([0, 1], 4)
    conditions = np.array(["x", "x", "y", "y"] * 2)
    fit = fit_bots(values, bots, np.arange(8), conditions)
    assert fit.variance(0) == 0 < fit.variance(1)
    plain = fit_bots(values, np.repeat([0, 1, 2], [2, 2, 4]), np.arange(8))
    assert not plain.borrowed.any()


def test_errors_with_constant_cells_keep_their_level():
    outcome = condition_cells.simulate(ANSWERS["skewed"], 4, 5, 800, is_scale_known=False)
    assert outcome.different <= 0.12
    assert outcome.held >= 0.88
    assert outcome.constant > 0.2
    assert outcome.constant_different <= 0.15  # .17 where such a cell counted as certain


def test_without_an_error_there_is_no_interval():
    (pair,) = wald_comparisons(["a", "b"], np.array([1.0, 0.0]), np.zeros((2, 2)), np.inf, 0.9)
    assert (pair.low, pair.high, pair.p) == (None, None, None)
    result = powered_mean([5.0] * 6, [1.0, 2, 3, 4, 5, 6], [2.0, 3, 4])
    assert (result.ratings, result.ratings_low, result.low) == (5.0, None, None)
