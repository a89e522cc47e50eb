"""Proportional odds against the cheese data of McCullagh and Nelder and statsmodels' OrderedModel."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.miscmodels.ordinal_model import OrderedModel

from evaluation.stats.ordinal import ordinal_model
from tests.reference.ratings import CHEESE

rng = np.random.default_rng(5)


def cheese() -> tuple[list[int], list[str]]:
    values = [p for row in CHEESE.values() for p, n in enumerate(row, 1) for _ in range(n)]
    return values, [name for name, row in CHEESE.items() for _ in range(sum(row))]


def ratings(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Make ratings of four bots on seven points."""
    bots = rng.choice(list("abcd"), n)
    effects = np.array([0, 0.3, 0.9, 1.5])
    latent = rng.logistic(size=n) + effects[np.searchsorted(list("abcd"), bots)]
    return np.digitize(latent, [-2, -1, 0, 0.7, 1.6, 3]) + 1.0, bots


def test_published_fit():
    found = ordinal_model(*cheese())
    assert found.converged
    pairs = {(c.a, c.b): c for c in found.comparisons}
    for name, (log_odds, error) in {"A": (1.6128, 0.3778), "B": (4.9645, 0.4741), "C": (3.3227, 0.4251)}.items():
        pair = pairs[name, "D"]
        assert pair.difference == pytest.approx(-log_odds, abs=2e-4)
        assert pair.high - pair.difference == pytest.approx(1.959964 * error, abs=2e-4)
    assert found.deviance == pytest.approx(20.31, abs=0.005)
    assert found.deviance_df == 21
    assert found.deviance_p > 0.4
    assert sum(bot.effect for bot in found.bots) == pytest.approx(0)
    assert [bot.bot for bot in sorted(found.bots, key=lambda bot: bot.effect)] == list("BCAD")


def test_statsmodels_finds_the_same():
    values, bots = ratings()
    exog = pd.get_dummies(bots, dtype=float).iloc[:, 1:]
    fit = OrderedModel(values, exog, distr="logit").fit(method="bfgs", disp=False, gtol=1e-7)
    found = ordinal_model(values, bots)
    pairs = {(c.a, c.b): c for c in found.comparisons}
    for i, name in enumerate("bcd"):
        pair = pairs["a", name]
        assert -pair.difference == pytest.approx(fit.params.iloc[i], abs=1e-4)
        # Expected information here, observed there.
        half = 1.959964 * fit.bse.iloc[i]
        assert pair.high - pair.difference == pytest.approx(half, rel=0.05)
    expected = fit.predict(np.eye(3)[[0]])[0]
    np.testing.assert_allclose(found.bots[1].probabilities, expected, atol=1e-4)


def test_two_points_are_a_logistic_regression():
    values, bots = [0] * 12 + [1] * 8 + [0] * 5 + [1] * 15, ["a"] * 20 + ["b"] * 20
    (pair,) = ordinal_model(values, bots).comparisons
    assert pair.difference == pytest.approx(np.log(8 / 12) - np.log(15 / 5))
    error = np.sqrt(1 / 12 + 1 / 8 + 1 / 5 + 1 / 15)
    assert pair.high - pair.difference == pytest.approx(1.959964 * error, rel=1e-5)
    assert ordinal_model(values, bots).deviance == pytest.approx(0, abs=1e-6)
    # Forty raters with one rating each: each bot's variance with 19 in place of 20 ratings, as Welch's test has it.
    (pair,) = ordinal_model(values, bots, range(40)).comparisons
    parts = np.array([1 / 12 + 1 / 8, 1 / 5 + 1 / 15])
    df = parts.sum() ** 2 / (parts**2 / 19).sum()
    half = stats.t.ppf(0.975, df) * error * np.sqrt(20 / 19)
    assert pair.high - pair.difference == pytest.approx(half, rel=1e-5)


def test_probability_of_a_higher_rating_is_that_of_pairs():
    values, bots = cheese()
    found = ordinal_model(values, bots)
    a = np.array(values)[np.array(bots) == "A"]
    c = np.array(values)[np.array(bots) == "C"]
    observed = (a[:, None] > c[None]).mean() + (a[:, None] == c[None]).mean() / 2
    assert found.probability_higher("A", "C") == pytest.approx(observed, abs=0.02)
    assert found.probability_higher("C", "A") == pytest.approx(1 - found.probability_higher("A", "C"))
    with pytest.raises(KeyError, match="'E'"):
        found.probability_higher("A", "E")


def test_raters_with_one_rating_each_change_little_and_doubled_ones_nothing():
    values, bots = ratings()
    plain = ordinal_model(values, bots)
    alone = ordinal_model(values, bots, [None] * len(values))
    doubled = ordinal_model(np.tile(values, 2), np.tile(bots, 2), np.tile(np.arange(len(values)), 2))
    halves = [[c.high - c.difference for c in found.comparisons] for found in (plain, alone, doubled)]
    np.testing.assert_allclose(halves[1], halves[0], rtol=0.15)
    # Everybody asked twice with the same answers: no more is known than before.
    np.testing.assert_allclose(halves[2], halves[1], rtol=1e-4)
    naive = ordinal_model(np.tile(values, 2), np.tile(bots, 2))
    assert naive.comparisons[0].high < doubled.comparisons[0].high
    assert doubled.n_raters == 400


def test_sandwich_is_that_of_the_jackknife_over_raters():
    """Leaving one rater out at a time gives nearly the same errors (Efron and Stein)."""
    values, bots = ratings(240)
    raters = np.repeat(np.arange(60), 4)
    values = np.clip(values + rng.integers(-1, 2, 60)[raters], 1, 7)
    found = ordinal_model(values, bots, raters)

    def gap(keep: np.ndarray) -> float:
        return ordinal_model(values[keep], bots[keep]).comparisons[0].difference

    draws = np.array([gap(raters != r) for r in range(60)])
    error = np.sqrt(59 / 60 * ((draws - draws.mean()) ** 2).sum())
    pair = found.comparisons[0]
    half = stats.t.ppf(0.975, 59) * error
    assert pair.high - pair.difference == pytest.approx(half, rel=0.1)


def test_the_test_of_two_bots_is_that_of_their_difference():
    values, bots = ratings(240)
    raters = np.repeat(np.arange(20), 12)
    two = np.isin(bots, np.unique(bots)[:2])
    found = ordinal_model(values[two], bots[two], raters[two])
    assert (found.df, found.p) == (1, pytest.approx(found.comparisons[0].p))
    alone = ordinal_model(values, bots)
    assert (alone.f, alone.p) == (None, stats.chi2.sf(alone.chi2, alone.df))


def test_too_few_raters_for_a_test_are_told():
    """Two raters a bot, with 3 ratings each: pairs have intervals, but three differences at once have no test."""
    raters = np.repeat(np.arange(8), 3)
    bots = np.array(list("abcd"))[raters % 4]
    found = ordinal_model(np.random.default_rng(2).integers(1, 5, 24), bots, raters)
    assert found.converged
    assert (found.p, found.f, found.test_reason.code) == (None, None, "few_raters_for_test")
    assert np.isfinite(found.comparisons[0].high)


def test_errors_are_those_of_dense_algebra():
    """Residuals of every rating's points beside their multinomial covariance, and the matrices of all of them."""
    values, bots = ratings(30)
    raters = np.random.default_rng(2).integers(0, 9, len(values))
    found = ordinal_model(values, bots, raters, level=0.9)
    points = np.array(found.points)
    thresholds = np.array(found.thresholds)
    names = [bot.bot for bot in found.bots]
    place = np.array([names.index(bot) for bot in bots])
    effects = np.array([bot.effect for bot in found.bots])

    def chances(at: np.ndarray) -> np.ndarray:
        below = 1 / (1 + np.exp(-(at[: len(thresholds)] - np.r_[0, at[len(thresholds) :]][:, None])))
        return np.diff(np.hstack([np.zeros((len(names), 1)), below]))  # without the last point

    at = np.r_[thresholds - effects[0], effects[1:] - effects[0]]
    step = 1e-6
    slopes = np.stack(
        [(chances(at + step * one) - chances(at - step * one)) / (2 * step) for one in np.eye(len(at))], axis=-1
    )  # (bots, points − 1, parameters)
    p = chances(at)
    inverse = [np.linalg.inv(np.diag(row) - np.outer(row, row)) for row in p]
    size = p.shape[1]
    x = np.concatenate([slopes[b] for b in place])
    weight = np.zeros((len(x), len(x)))
    for k, b in enumerate(place):
        weight[k * size : (k + 1) * size, k * size : (k + 1) * size] = inverse[b]
    residual = ((np.asarray(values)[:, None] == points[:-1]) - p[place]).ravel()
    whose = np.repeat(raters, size)
    m = np.linalg.inv(x.T @ weight @ x)
    hat = x @ m @ x.T @ weight
    contrast = np.r_[np.zeros(len(thresholds)), np.eye(len(names) - 1)[0]]  # the second bot less the first
    rows = []
    for rater in np.unique(raters):
        mine = whose == rater
        values_, vectors = np.linalg.eig(np.eye(mine.sum()) - hat[np.ix_(mine, mine)])
        adjust = (vectors / np.sqrt(values_) @ np.linalg.inv(vectors)).real
        row = np.zeros(len(x))
        row[mine] = contrast @ m @ x[mine].T @ weight[np.ix_(mine, mine)] @ adjust
        rows.append(row)
    p_g = np.array(rows)
    variance = ((p_g @ residual) ** 2).sum()
    left = np.eye(len(x)) - hat
    q = p_g @ left @ np.linalg.inv(weight) @ left.T @ p_g.T
    half = stats.t.ppf(0.95, np.trace(q) ** 2 / (q**2).sum()) * np.sqrt(variance)
    pair = found.comparisons[0]
    assert (pair.a, pair.b) == (names[0], names[1])
    assert pair.high - pair.difference == pytest.approx(half, rel=1e-4)


def test_a_bot_of_one_rater_gives_no_odds():
    found = ordinal_model([1, 2, 3, 2, 1, 3, 2], list("ababaab"), [1, 1, 2, 1, 3, 4, 1])
    assert "b was rated by one rater only" in found.reason


def test_two_raters_who_answer_alike_tell_nothing_of_how_far_a_bot_can_be_off():
    values = [1, 2, 3, 1, 2, 3, 2, 3, 3, 1, 1, 2]
    raters = [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5]
    found = ordinal_model(values, list("aaaaaabbbbbb"), raters)
    assert found.reason is None  # the raters of the other bot differ
    alike = ordinal_model([1, 2, 3] * 4, list("aaaaaabbbbbb"), np.repeat([1, 2, 3, 4], 3))
    assert "answer alike" in alike.reason


def test_reasons():
    assert "ratings of 1 bot;" in ordinal_model([1, 2], ["a", "a"]).reason
    assert "every rating is 3" in ordinal_model([3, 3], ["a", "b"]).reason
    assert "rating of a is the lowest" in ordinal_model([1, 1, 2, 3], list("aabb")).reason
    apart = ordinal_model([1, 2, 1, 2, 3, 4, 3, 4], list("aaaabbbb"))
    assert apart.reason.endswith("their difference is infinite")
    assert not apart.converged
    assert "too few" in ordinal_model([1, 2, 1, 2], list("abba"), [1, 1, 2, 2]).reason
    with pytest.raises(ValueError, match="2 values"):
        ordinal_model([1, 2], ["a"])


def test_undefined_ratings_are_left_out():
    values, bots = cheese()
    again = ordinal_model([*values, float("nan")], [*bots, "A"])
    assert again == ordinal_model(values, bots)


def test_bots_whose_ratings_share_one_point_at_most_have_no_finite_difference():
    """Scoring would stop somewhere on the way to infinity, with an interval that is none."""
    counts = {"a": [0, 0, 0, 4, 2], "b": [0, 0, 0, 3, 9], "c": [1, 2, 8, 5, 0]}
    values = [point for row in counts.values() for point, n in enumerate(row) for _ in range(n)]
    bots = [bot for bot, row in counts.items() for _ in range(sum(row))]
    found = ordinal_model(values, bots)
    assert not found.converged
    assert found.reason == ("no rating of a, b is below 3 and none of c above: their difference is infinite")
    values[0] = 2  # one rating of a below the shared point: now they overlap
    overlapping = ordinal_model(values, bots)
    assert overlapping.converged
    assert all(np.isfinite([bot.low, bot.high]).all() for bot in overlapping.bots)
