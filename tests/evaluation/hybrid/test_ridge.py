"""Ridge and least squares, fold by fold, against plain refits and numpy."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from evaluation.hybrid.features import HybridError, design_of
from evaluation.hybrid.least_squares import Factors, fitted_whole
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


def table(seed=0, n_bots=6, n=25, p=4, collinear=0.0):
    """Make features whose bots differ, and ratings; `collinear` says how far feature 1 is from feature 0."""
    rng = np.random.default_rng(seed)
    bots = np.repeat([f"bot{k}" for k in range(n_bots)], rng.integers(n - 10, n + 10, n_bots))
    shift = np.array([rng.normal(size=p) for _ in range(n_bots)])[
        np.searchsorted([f"bot{k}" for k in range(n_bots)], bots)
    ]
    x = rng.normal(size=(len(bots), p)) * [1, 5, 0.1, 20][:p] + shift + [0, 3, 100, -7][:p]
    if collinear:
        x[:, 1] = x[:, 0] + collinear * rng.normal(size=len(x))
    y = x @ rng.normal(size=p) + shift[:, 0] + rng.normal(size=len(x))
    return x, y, bots


@pytest.mark.parametrize("collinear", [0.0, 1e-4])
def test_every_fold_is_statsmodels_refit(collinear):
    x, y, bots = table(collinear=collinear)
    factors = Factors(x, y, bots)
    for k, bot in enumerate(factors.bots):
        others = bots != bot
        fit = sm.OLS(y[others], sm.add_constant(x[others])).fit()
        line = factors.line(factors.without(k))
        np.testing.assert_allclose(
            line.predict(x[~others]), fit.predict(sm.add_constant(x[~others])), rtol=1e-8, atol=1e-8
        )
        np.testing.assert_allclose([line.intercept, *line.slopes], fit.params, rtol=1e-8 if not collinear else 1e-6)
        assert line.n == others.sum()


def test_condition_number_is_that_of_the_standardised_features():
    x, y, bots = table(collinear=0.05)
    factors = Factors(x, y, bots)
    others = bots != "bot2"
    z = (x[others] - x[others].mean(axis=0)) / x[others].std(axis=0)
    assert factors.line(factors.without(2)).condition == pytest.approx(np.linalg.cond(z))


def test_a_constant_feature_is_dropped_inside_the_fold_only():
    x, y, bots = table()
    x[:, 3] = np.where(bots == "bot1", x[:, 3], 2.5)  # varies within bot1 alone
    factors = Factors(x, y, bots)
    without_1 = factors.line(factors.without(1))
    assert without_1.used.tolist() == [True, True, True, False]
    assert without_1.slopes[3] == 0.0
    others = bots != "bot1"
    fit = sm.OLS(y[others], sm.add_constant(x[others][:, :3])).fit()
    np.testing.assert_allclose([without_1.intercept, *without_1.slopes[:3]], fit.params, rtol=1e-8)
    assert factors.line(factors.without(0)).used.all()


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")
def test_a_sum_of_other_features_predicts_as_statsmodels_does():
    x, y, bots = table()
    x[:, 3] = x[:, 0] + x[:, 1]
    factors = Factors(x, y, bots)
    others = bots != "bot0"
    fit = sm.OLS(y[others], sm.add_constant(x[others])).fit()
    line = factors.line(factors.without(0))
    np.testing.assert_allclose(line.predict(x[~others]), fit.predict(sm.add_constant(x[~others])), rtol=1e-6)
    assert line.condition > 1e10


def test_bots_with_fewer_conversations_than_features():
    x, y, bots = table(n_bots=8, n=12)
    keep = np.concatenate([np.flatnonzero(bots == b)[:2] for b in sorted(set(bots))])
    x, y, bots = x[keep], y[keep], bots[keep]
    factors = Factors(x, y, bots)
    others = bots != "bot3"
    fit = sm.OLS(y[others], sm.add_constant(x[others])).fit()
    line = factors.line(factors.without(3))
    np.testing.assert_allclose([line.intercept, *line.slopes], fit.params, rtol=1e-7)


def test_too_few_conversations_are_refused():
    x, y, bots = table(n_bots=3)
    keep = np.concatenate([np.flatnonzero(bots == b)[:2] for b in sorted(set(bots))])
    factors = Factors(x[keep], y[keep], bots[keep])
    with pytest.raises(HybridError, match="4 conversations cannot determine 4 features"):
        factors.line(factors.without(0))


@pytest.mark.parametrize("common", [False, True])
def test_response_foretells_what_a_refit_would_predict(common):
    x, y, bots = table()
    factors = Factors(x, y, bots)
    rng = np.random.default_rng(5)
    order = rng.permutation(len(factors.bots))
    new = y.copy()
    for k, bot in enumerate(factors.bots):
        new[bots == bot] += factors.bot_means[order[k]] - factors.bot_means[k]
    for k, bot in enumerate(factors.bots):
        at = x[bots == bot].mean(axis=0)
        weights, rest = factors.response(k, at, common=common)
        others = bots != bot
        fit = np.linalg.lstsq(np.column_stack([np.ones(others.sum()), x[others]]), new[others], rcond=None)[0]
        if common:
            expected = new.mean() + (at - x.mean(axis=0)) @ fit[1:]
        else:
            expected = fit[0] + at @ fit[1:]
        assert weights @ factors.bot_means[order] + rest == pytest.approx(expected, rel=1e-8)


def test_the_null_by_least_squares_is_near_0_and_of_the_folds_far_below():
    """Fitted anew for every permutation of the bots' means, uninformative predictions correlate at
    about 0 with one intercept, and at nearly −1 with the folds' own."""
    mean_r = {}
    for common in (False, True):
        found = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            bots = np.repeat([f"bot{k}" for k in range(9)], 30)
            x = rng.normal(size=(270, 3)) + np.repeat(rng.normal(size=(9, 3)), 30, axis=0) * 0.3
            y = np.repeat(rng.normal(size=9), 30) + rng.normal(size=270)
            factors = Factors(x, y, bots)
            at = [x[bots == bot].mean(axis=0) for bot in factors.bots]
            parts = [factors.response(k, at[k], common=common) for k in range(9)]
            weights = np.stack([w for w, _ in parts])
            rest = np.array([r for _, r in parts])
            for _ in range(60):
                means = factors.bot_means[rng.permutation(9)]
                found.append(np.corrcoef(weights @ means + rest, means)[0, 1])
        mean_r[common] = np.mean(found)
    assert abs(mean_r[True]) < 0.15
    assert mean_r[False] < -0.5


def rated_design(x, y, bots):
    features = [f"f{j}" for j in range(x.shape[1])]
    table = pd.DataFrame(x, columns=features).assign(conversation=[f"c{i}" for i in range(len(y))], bot=bots, quality=y)
    return design_of(table, features, ["quality"])


def test_the_fit_of_all_bots_is_statsmodels_with_its_influence():
    """Cook's distances of conversations and of whole bots against refits without them."""
    x, y, bots = table()
    factors = Factors(x, y, bots)
    folds = {bot: factors.line(factors.without(k)) for k, bot in enumerate(factors.bots)}
    own = factors.line(range(len(factors.bots)))
    line, found = fitted_whole(rated_design(x, y, bots), own, folds, factors.centre, factors.scale)
    assert [line.intercept, *line.slopes] == pytest.approx([own.intercept, *own.slopes], rel=1e-9)
    assert found.condition == pytest.approx(own.condition, rel=1e-9)

    exog = np.column_stack([np.ones(len(y)), x])
    fitted = exog @ np.linalg.lstsq(exog, y, rcond=None)[0]
    size = 5 * ((y - fitted) ** 2).sum() / (len(y) - 5)

    def moved(without):
        weights = np.linalg.lstsq(exog[~without], y[~without], rcond=None)[0]
        return ((exog @ weights - fitted) ** 2).sum() / size

    for bot, one in found.bots.items():
        assert one.cooks_distance == pytest.approx(moved(bots == bot), rel=1e-7)
    assert sum(one.leverage for one in found.bots.values()) == pytest.approx(1)
    alone = [moved(np.arange(len(y)) == i) for i in range(len(y))]
    first = sorted(range(len(y)), key=lambda i: -alone[i])[:5]
    assert [one.conversation for one in found.conversations] == [f"c{i}" for i in first]
    assert [one.cooks_distance for one in found.conversations] == pytest.approx([alone[i] for i in first], rel=1e-7)
    hat = exog @ np.linalg.pinv(exog)
    assert found.conversations[0].leverage == pytest.approx(hat[first[0], first[0]])


def test_where_a_feature_is_a_sum_of_others_the_own_solver_stays():
    x, y, bots = table()
    x[:, 3] = x[:, 0] + x[:, 1]
    factors = Factors(x, y, bots)
    own = factors.line(range(len(factors.bots)))
    line, found = fitted_whole(rated_design(x, y, bots), own, {}, factors.centre, factors.scale)
    assert line is own
    assert found.bots["bot0"].cooks_distance is None
    assert line.condition > 1e10
