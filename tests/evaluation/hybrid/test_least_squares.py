"""Least squares of the paper's preset against numpy's, fold by fold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from evaluation.hybrid.features import HybridError, design_of
from evaluation.hybrid.least_squares import Factors, fitted_whole


def study(seed=0, n_bots=6, n=25, p=4, collinear=0.0):
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
    x, y, bots = study(collinear=collinear)
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
    x, y, bots = study(collinear=0.05)
    factors = Factors(x, y, bots)
    others = bots != "bot2"
    z = (x[others] - x[others].mean(axis=0)) / x[others].std(axis=0)
    assert factors.line(factors.without(2)).condition == pytest.approx(np.linalg.cond(z))


def test_a_constant_feature_is_dropped_inside_the_fold_only():
    x, y, bots = study()
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
    x, y, bots = study()
    x[:, 3] = x[:, 0] + x[:, 1]
    factors = Factors(x, y, bots)
    others = bots != "bot0"
    fit = sm.OLS(y[others], sm.add_constant(x[others])).fit()
    line = factors.line(factors.without(0))
    np.testing.assert_allclose(line.predict(x[~others]), fit.predict(sm.add_constant(x[~others])), rtol=1e-6)
    assert line.condition > 1e10


def test_bots_with_fewer_conversations_than_features():
    x, y, bots = study(n_bots=8, n=12)
    keep = np.concatenate([np.flatnonzero(bots == b)[:2] for b in sorted(set(bots))])
    x, y, bots = x[keep], y[keep], bots[keep]
    factors = Factors(x, y, bots)
    others = bots != "bot3"
    fit = sm.OLS(y[others], sm.add_constant(x[others])).fit()
    line = factors.line(factors.without(3))
    np.testing.assert_allclose([line.intercept, *line.slopes], fit.params, rtol=1e-7)


def test_too_few_conversations_are_refused():
    x, y, bots = study(n_bots=3)
    keep = np.concatenate([np.flatnonzero(bots == b)[:2] for b in sorted(set(bots))])
    factors = Factors(x[keep], y[keep], bots[keep])
    with pytest.raises(HybridError, match="4 conversations cannot determine 4 features"):
        factors.line(factors.without(0))


@pytest.mark.parametrize("common", [False, True])
def test_response_foretells_what_a_refit_would_predict(common):
    x, y, bots = study()
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


def test_the_null_of_the_common_intercept_is_near_0_and_of_the_folds_far_below():
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
    x, y, bots = study()
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
    x, y, bots = study()
    x[:, 3] = x[:, 0] + x[:, 1]
    factors = Factors(x, y, bots)
    own = factors.line(range(len(factors.bots)))
    line, found = fitted_whole(rated_design(x, y, bots), own, {}, factors.centre, factors.scale)
    assert line is own
    assert found.bots["bot0"].cooks_distance is None
    assert line.condition > 1e10
