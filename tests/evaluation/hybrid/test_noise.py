"""Rater effects and rating noise against their equations and against what was simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.hybrid.rating_noise import MOST_RATINGS, RatingNoise
from evaluation.ratings import Ratings


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
        ratings_of(table),
        ["quality", "fluency"],
        np.array(["0", "1"]),
        np.array([0, 1]),
        np.array([1.25, 4.0]),
    )
    assert ratings.value.tolist() == [1.0, 4.0]
    assert ratings.row.tolist() == [0, 1]
