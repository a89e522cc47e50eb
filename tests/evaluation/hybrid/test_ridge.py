"""Nested leave-bot-out ridge against a plain refit of every fit from its rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.hybrid.ridge import Block, Candidate, RidgeFolds
from evaluation.ratings import Ratings

PENALTIES = (0.03, 0.3, 3.0)
CHOICES = (("metrics",), ("metrics", "embedding"))


def study(seed=0, n_bots=5, n=14, p_embedding=6, raters=9):
    """Make two features and an embedding, several raters with habits of their own, and their ratings."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_bots), n)
    x = rng.normal(size=(len(codes), 2 + p_embedding)) * 3 + rng.normal(size=(n_bots, 1))[codes]
    true = x[:, 0] - 0.5 * x[:, 3]
    rows = np.repeat(np.arange(len(codes)), rng.integers(1, 4, len(codes)))
    rater = rng.integers(0, raters, len(rows))
    value = true[rows] + rng.normal(size=raters)[rater] * 2 + rng.normal(size=len(rows))
    table = pd.DataFrame({"conversation": rows.astype(str), "rater": rater, "quality": value})
    table["bot"] = codes[rows]
    y = table.groupby(rows)["quality"].mean().to_numpy()
    return x, y, codes, table


def engine_of(x, y, codes, table):
    blocks = [Block("metrics", np.arange(2)), Block("embedding", np.arange(2, x.shape[1]))]
    candidates = [Candidate(b, a) for b, a in product(CHOICES, PENALTIES)]
    ids = np.arange(len(y)).astype(str)
    rated = None if table is None else Ratings.from_frame(table, ["quality"])
    ratings = RatingNoise.of(rated, ["quality"], ids, codes, y)
    names = [f"bot{k}" for k in range(codes.max() + 1)]
    return RidgeFolds(x, y, codes, names, blocks, candidates, ratings), ratings


def refit(x, y, codes, ratings, members, candidate):
    """Return slopes and intercept of one weighted ridge on these bots' rows, straight from its definition."""
    mask = np.isin(codes, members)
    taking_part = np.isin(np.arange(codes.max() + 1), members)
    w = ratings.precision(taking_part)[ratings.counts][mask]
    w = w / w.sum()
    target = (y - ratings.rater_effects(taking_part))[mask]
    columns = [j for j in range(x.shape[1]) if ("metrics" if j < 2 else "embedding") in candidate.blocks]
    rows = x[mask]
    mean = w @ rows
    variance = w @ (rows - mean) ** 2
    spread = np.sqrt(variance)
    z = ((rows - mean) / spread)[:, columns]
    centred = target - w @ target
    solved = np.linalg.solve((z * w[:, None]).T @ z + candidate.penalty * np.eye(len(columns)), z.T @ (w * centred))
    slopes = np.zeros(x.shape[1])
    slopes[columns] = solved / spread[columns]
    return slopes, w @ target - mean @ slopes


def by_hand(x, y, codes, ratings, candidates, common):
    """Return every bot's mean prediction, the candidate chosen by the errors over other bots' conversations."""
    bots = range(codes.max() + 1)
    mean_x = np.stack([x[codes == k].mean(axis=0) for k in bots])
    predicted, chosen = [], []
    for k in bots:
        others = [j for j in bots if j != k]
        inside = codes != k
        errors = []
        for candidate in candidates:
            error = 0.0
            for j in others:
                slopes, _ = refit(x, y, codes, ratings, [i for i in others if i != j], candidate)
                guess = y[inside].mean() + (x[codes == j] - x[inside].mean(axis=0)) @ slopes
                error += ((guess - y[codes == j]) ** 2).sum()
            errors.append(error)
        best = candidates[int(np.argmin(errors))]
        chosen.append(best)
        slopes, intercept = refit(x, y, codes, ratings, others, best)
        if common:
            predicted.append(y.mean() + (mean_x[k] - x.mean(axis=0)) @ slopes)
        else:
            predicted.append(intercept + mean_x[k] @ slopes)
    return np.array(predicted), chosen


def points_of(x, codes):
    return {k: x[codes == k].mean(axis=0) for k in range(codes.max() + 1)}


@pytest.mark.parametrize("p_embedding", [6, 90])  # fewer and more columns than conversations
@pytest.mark.parametrize("common", [True, False])
def test_predictions_and_choices_are_those_of_refits_from_rows(p_embedding, common):
    x, y, codes, table = study(p_embedding=p_embedding)
    engine, ratings = engine_of(x, y, codes, table)
    expected, chosen = by_hand(x, y, codes, ratings, engine.candidates, common)
    found = engine.predictions(engine.bot_means[None], points_of(x, codes), common=common)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert [engine.chosen(k)[0] for k in range(5)] == chosen
    for k, point in points_of(x, codes).items():
        line = engine.line(k)
        if common:
            guess = engine.target_mean + (point - engine.centre) @ line.slopes
        else:
            guess = line.predict(point[None])[0]
        assert guess == pytest.approx(expected[k], rel=1e-8)
        assert (line.penalty, line.blocks) == (chosen[k].penalty, chosen[k].blocks)
        assert line.n == (codes != k).sum()


def test_permuted_means_are_answered_as_by_a_new_fit():
    x, y, codes, _ = study()
    engine, _ = engine_of(x, y, codes, None)
    order = np.array([3, 0, 4, 1, 2])
    moved = y - engine.bot_means[codes] + engine.bot_means[order][codes]
    again, _ = engine_of(x, moved, codes, None)
    points = points_of(x, codes)
    np.testing.assert_allclose(
        engine.predictions(engine.bot_means[order][None], points, common=True)[0],
        again.predictions(again.bot_means[None], points, common=True)[0],
        rtol=1e-8,
    )


def test_the_null_of_the_common_intercept_is_near_0_and_of_the_folds_far_below():
    found = {True: [], False: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(9), 12)
        x = rng.normal(size=(108, 10)) + rng.normal(size=(9, 10))[codes] * 0.3
        engine, _ = engine_of(x, rng.normal(size=9)[codes] + rng.normal(size=108), codes, None)
        means = np.array([rng.permutation(engine.bot_means) for _ in range(60)])
        for common, rs in found.items():
            predicted = engine.predictions(means, points_of(x, codes), common=common)
            rs += [np.corrcoef(a, b)[0, 1] for a, b in zip(predicted, means, strict=True)]
    assert abs(np.mean(found[True])) < 0.15
    assert np.mean(found[False]) < -0.6


def test_a_feature_that_is_constant_in_a_fold_takes_no_part_there():
    x, y, codes, _ = study()
    x[:, 1] = np.where(codes == 2, x[:, 1], 7.0)
    engine, _ = engine_of(x, y, codes, None)
    assert engine.line(2).slopes[1] == 0.0
    assert not engine.line(2).used[1]
    assert engine.line(0).used[1]


def test_a_bots_own_ratings_change_nothing_that_is_learned_to_predict_it():
    x, y, codes, table = study()
    changed = table.copy()
    mine = codes[changed["conversation"].astype(int)] == 2
    changed.loc[mine, "quality"] = 30 - 4 * changed.loc[mine, "quality"]
    moved = changed.groupby(changed["conversation"].astype(int))["quality"].mean().to_numpy()
    one, _ = engine_of(x, y, codes, table)
    two, _ = engine_of(x, moved, codes, changed)
    np.testing.assert_allclose(one.line(2).slopes, two.line(2).slopes, rtol=1e-8, atol=1e-10)
    assert one.line(2).intercept == pytest.approx(two.line(2).intercept)
    assert not np.allclose(one.line(0).slopes, two.line(0).slopes)
