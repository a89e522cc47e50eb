"""Noise of a bot's mean rating, and means adjusted for raters."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluation.hybrid.rating_noise import MOST_RATINGS, RatingNoise, adjusted_means
from evaluation.ratings import Ratings
from evaluation.stats.gls import fit_gls


def rated(seed=0, n_bots=4, n=60, raters=12, per=3, habit=2.0, noise=1.0, talk=1.0):
    """Make ratings = bot + conversation + rater's habit + noise; raters rate all bots."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_bots), n)
    rows = np.repeat(np.arange(len(codes)), per)
    rater = rng.integers(0, raters, len(rows))
    habits = rng.normal(size=raters) * habit
    value = (
        np.arange(n_bots)[codes][rows] * 5.0
        + (rng.normal(size=len(codes)) * talk)[rows]
        + habits[rater]
        + rng.normal(size=len(rows)) * noise
    )
    table = pd.DataFrame({"conversation": rows.astype(str), "rater": rater, "quality": value})
    table["bot"] = codes[rows]
    y = table.groupby(rows)["quality"].mean().to_numpy()
    ids = np.arange(len(codes)).astype(str)
    return RatingNoise.of(ratings_of(table), ["quality"], ids, codes, y), habits, table, codes, y


def ratings_of(table):
    return Ratings.from_frame(table, [key for key in ("quality", "fluency") if key in table])


ALL = np.ones(4, dtype=bool)


def test_habits_are_found_and_are_none_of_the_bots_doing():
    ratings, habits, table, codes, y = rated(n=200)
    moved = ratings.rater_effects(ALL)
    expected = pd.Series(habits[table["rater"]]).groupby(table["conversation"].astype(int)).mean()
    assert np.corrcoef(moved, expected)[0, 1] > 0.99
    # Bots five points apart: nothing of that may be ascribed to the raters.
    left = y - moved
    means = [left[codes == k].mean() - 5 * k for k in range(4)]
    assert np.ptp(means) < 0.5


def test_effects_solve_hendersons_equations():
    ratings, *_ = rated(n=10, raters=7)
    moved = ratings.rater_effects(ALL)
    r, b, v = ratings.rater, ratings.bot, ratings.value
    # The ratio of variances is what the effects themselves imply; all else must then follow from it.
    z, x = np.eye(7)[r], np.eye(4)[b]
    rest = v - np.array([v[b == k].mean() for k in range(4)])[b]
    counts = np.bincount(r, minlength=7)
    mean = np.bincount(r, weights=rest, minlength=7) / counts
    error = ((rest - mean[r]) ** 2).sum() / (len(v) - 7)
    size = (len(v) - (counts**2).sum() / len(v)) / 6
    spread = ((counts * mean**2).sum() / 6 - error) / size
    system = np.block([[x.T @ x, x.T @ z], [z.T @ x, z.T @ z + error / spread * np.eye(7)]])
    effects = np.linalg.solve(system, np.concatenate([x.T @ v, z.T @ v]))[4:]
    expected = np.bincount(ratings.row, weights=effects[r]) / np.bincount(ratings.row)
    np.testing.assert_allclose(moved, expected, rtol=1e-9)


def test_unknown_raters_and_single_ratings_have_no_effect():
    ratings, _, table, codes, y = rated()
    ids = np.arange(len(codes)).astype(str)
    nobody = RatingNoise.of(ratings_of(table.assign(rater=None)), ["quality"], ids, codes, y)
    assert not nobody.rater_effects(ALL).any()
    once = table.assign(rater=range(len(table)))
    assert not RatingNoise.of(ratings_of(once), ["quality"], ids, codes, y).rater_effects(ALL).any()
    assert ratings.rater_effects(ALL).any()


def test_reliability_is_the_share_of_the_conversation():
    ratings, *_ = rated(n=800, habit=0.0, noise=2.0, talk=1.0)
    assert ratings.reliability(ALL) == pytest.approx(1 / 5, abs=0.05)
    weights = ratings.precision(ALL)
    rho = ratings.reliability(ALL)
    m = np.arange(1, MOST_RATINGS + 1)
    np.testing.assert_allclose(weights[1:], 1 / (rho + (1 - rho) / m))


def test_without_single_ratings_every_conversation_counts_alike():
    y, codes = np.arange(6.0), np.array([0, 0, 1, 1, 2, 2])
    ratings = RatingNoise.of(None, ["quality"], np.arange(6).astype(str), codes, y)
    assert ratings.counts.tolist() == [1] * 6
    assert ratings.precision(np.ones(3, dtype=bool))[1] == 1.0


def test_a_rating_that_lacks_a_dimension_tells_nothing_about_noise():
    table = pd.DataFrame(
        {
            "conversation": ["0", "0", "1", "elsewhere"],
            "bot": ["a", "a", "b", "b"],
            "quality": [1.0, 2.0, 3.0, 9.0],
            "fluency": [1.0, np.nan, 5.0, 9.0],
        }
    )
    ratings = RatingNoise.of(
        ratings_of(table), ["quality", "fluency"], np.array(["0", "1"]), np.array([0, 1]), np.array([1.25, 4.0])
    )
    assert ratings.value.tolist() == [1.0, 4.0]
    assert ratings.row.tolist() == [0, 1]


N_BOTS = 4


def rated_of_adjusted(per: int, *, seed: int = 1, named: bool = True) -> tuple[np.ndarray, RatingNoise]:
    """Return 80 conversations' bots and ratings: raters with habits, conversations that were good or bad, and noise."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(N_BOTS), [10, 20, 20, 30])
    row = np.repeat(np.arange(len(codes)), per)
    # Each rater rates the bots unevenly, two ratings of a conversation by two people.
    rater = (rng.integers(0, 5, len(codes))[:, None] * 2 + np.arange(per)).ravel() + codes[row] % 2
    value = (
        rng.normal(size=14)[rater] * 2
        + (rng.normal(size=len(codes)) * 1.5)[row]
        + rng.normal(size=len(row))
        + codes[row]
    )
    people = rater if named else np.full(len(row), -1)
    return codes, RatingNoise(value, row, codes[row], people, len(codes), N_BOTS)


def mean_of_rows(ratings: RatingNoise) -> np.ndarray:
    return np.bincount(ratings.row, weights=ratings.value) / np.bincount(ratings.row)


def mixed(ratings: RatingNoise):
    """Fit bots as fixed and raters as random effects by statsmodels."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    bots = np.eye(N_BOTS)[ratings.bot]
    return MixedLM(ratings.value, bots, groups=ratings.rater).fit(reml=True)


def test_of_one_rating_each_they_are_those_of_a_mixed_model() -> None:
    codes, ratings = rated_of_adjusted(1)
    found = adjusted_means(mean_of_rows(ratings), codes, ratings, np.ones(N_BOTS, dtype=bool))
    fit = mixed(ratings)
    assert found.mean == pytest.approx(fit.fe_params, rel=1e-4)
    covariance = np.asarray(fit.cov_params())[:N_BOTS, :N_BOTS]
    assert found.covariance == pytest.approx(covariance, rel=2e-3, abs=1e-3)
    assert found.variance == pytest.approx(fit.scale, rel=1e-3)
    # One definition: comparisons of bots print the same means.
    rater = np.unique(ratings.rater, return_inverse=True)[1]
    assert found.mean == pytest.approx(fit_gls(ratings.value, ratings.bot, rater).means, rel=1e-9)


@pytest.mark.parametrize("unknown", [0, 6])
def test_several_ratings_of_a_conversation_are_as_dense_algebra_has_them(unknown: int) -> None:
    codes, ratings = rated_of_adjusted(2)
    rater = ratings.rater.copy()
    if unknown:
        rater[::unknown] = -1
    ratings = replace(ratings, rater=rater)
    found = adjusted_means(mean_of_rows(ratings), codes, ratings, np.ones(N_BOTS, dtype=bool))
    known = rater >= 0
    fit = mixed(replace(ratings, value=ratings.value[known], bot=ratings.bot[known], rater=rater[known]))  # fmt: skip
    tau, error = float(np.asarray(fit.cov_re).item()), float(fit.scale)
    x = np.eye(N_BOTS)[ratings.bot]
    z = (rater[:, None] == np.unique(rater[known])).astype(float)
    system = np.block(
        [
            [x[known].T @ x[known], x[known].T @ z[known]],
            [z[known].T @ x[known], z[known].T @ z[known] + error / tau * np.eye(z.shape[1])],
        ]
    )
    taken = np.zeros((z.shape[1], len(rater)))
    taken[:, known] = np.linalg.solve(system, np.concatenate([x[known].T, z[known].T]))[N_BOTS:]
    in_row = (ratings.row[:, None] == np.arange(len(codes))).astype(float)
    averaging = (np.eye(N_BOTS)[codes] / np.bincount(codes)).T @ (in_row / in_row.sum(axis=0)).T
    a = averaging @ (np.eye(len(rater)) - z @ taken)
    assert found.mean == pytest.approx(a @ ratings.value, rel=1e-4)
    less = replace(ratings, value=ratings.value - z @ taken @ ratings.value)
    icc = less.reliability(np.ones(N_BOTS, dtype=bool))
    assert 0.2 < icc < 0.9
    # Whoever is unknown has a habit, too, and shares it with nobody.
    habits = z @ z.T + np.diag(~known * 1.0)
    spread = tau * habits + error * (icc * in_row @ in_row.T + (1 - icc) * np.eye(len(rater)))
    assert found.covariance == pytest.approx(a @ spread @ a.T, rel=2e-3, abs=1e-4)


def test_without_names_a_bots_mean_has_the_noise_of_its_conversations() -> None:
    codes, ratings = rated_of_adjusted(2, named=False)
    everybody = np.ones(N_BOTS, dtype=bool)
    found = adjusted_means(mean_of_rows(ratings), codes, ratings, everybody)
    n_eff = 2 * np.bincount(codes) / (1 + ratings.reliability(everybody))
    assert found.covariance == pytest.approx(np.diag(found.variance / n_eff))
    values = pd.Series(ratings.value).groupby(ratings.bot)
    assert found.variance == pytest.approx((values.var() * (values.size() - 1)).sum() / (160 - 4))
    assert found.df == pytest.approx(np.full(N_BOTS, 156))


def test_degrees_of_freedom_fall_with_the_raters() -> None:
    """Six raters who rate all bots ten times give five degrees of freedom of their effects, a mean hardly more."""
    rng = np.random.default_rng(3)
    bot, rater = np.repeat(np.arange(N_BOTS), 60), np.tile(np.repeat(np.arange(6), 10), N_BOTS)
    value = 5 * rng.normal(size=6)[rater] + rng.normal(size=len(bot))
    ratings = RatingNoise(value, np.arange(len(bot)), bot, rater, len(bot), N_BOTS)
    found = adjusted_means(value, bot, ratings, np.ones(N_BOTS, dtype=bool))
    assert found.df == pytest.approx(np.full(N_BOTS, 5), abs=0.2)
    # What all means share is the habit of these six: nothing of it is in a difference.
    shared = found.covariance[0, 1]
    assert shared > 0.9 * found.covariance[0, 0]
    gap = found.covariance[0, 0] + found.covariance[1, 1] - 2 * shared
    assert gap == pytest.approx(2 * found.variance / 60, rel=1e-6)


def test_a_bot_that_takes_no_part_changes_nothing() -> None:
    codes, ratings = rated_of_adjusted(2)
    y, some = mean_of_rows(ratings), np.array([True, False, True, True])
    before = adjusted_means(y, codes, ratings, some)
    value = np.where(ratings.bot == 1, 1e3, ratings.value)
    after = adjusted_means(np.where(codes == 1, 1e3, y), codes, replace(ratings, value=value), some)
    assert after.mean == pytest.approx(before.mean)
    assert after.covariance == pytest.approx(before.covariance)
