"""Draws by known probabilities, and weighted estimates against other code and simulations."""

import json

import numpy as np
import pytest
import statsmodels.api as sm

from evaluation.stats.active_inference import (
    MAX_CV,
    MIN_RATERS,
    ActiveMeans,
    draw_items,
    draw_weights,
    estimate_active_means,
)
from evaluation.stats.gls import fit_gls
from evaluation.stats.means import mean_interval
from tests.validation import active_inference as simulated

SCALE = (1.0, 7.0)


def a_study(seed: int = 0, *, raters: int = 20, each: int = 2, pool: int = 200) -> dict[str, np.ndarray]:
    """Return columns of `estimate_active_means` for three bots, drawn by weights."""
    rng = np.random.default_rng(seed)
    bots = np.repeat(["a", "b", "c"], pool)
    known, mean = rng.normal(size=3 * pool), np.repeat([3.0, 4.0, 4.5], pool)
    weights = draw_weights(rng.normal(size=3 * pool), bots)
    drawn = [
        (rater, item)
        for rater in range(raters)
        for item in draw_items(weights, bots, 3 * each, seed=seed, ordinal=rater)
    ]
    rater, item = np.array([rater for rater, _item in drawn]), np.array([item.index for _rater, item in drawn])
    y = mean[item] + 0.8 * known[item] + 0.4 * rng.normal(size=raters)[rater] + 0.7 * rng.normal(size=len(item))
    return {
        "values": np.clip(y, *SCALE),
        "raters": rater,
        "bots": bots[item],
        "items": item,
        "predictions": known[item],
        "weights": np.array([item.weight for _rater, item in drawn]),
        "pool_bots": bots,
        "pool_predictions": known,
    }


def test_weights_have_mean_one_within_bots_and_limited_variation() -> None:
    rng = np.random.default_rng(1)
    bots = np.repeat(["a", "b", "c", "d"], [30, 50, 20, 10])
    uncertainty = rng.lognormal(sigma=2, size=110)
    uncertainty[80:100], uncertainty[100:105] = 3.0, np.nan
    weights = draw_weights(uncertainty, bots)
    for bot in "abcd":
        assert weights[bots == bot].mean() == pytest.approx(1)
        assert weights[bots == bot].std() <= MAX_CV + 1e-12
    assert weights.min() > 1 - 2.5 * MAX_CV
    assert weights[np.argmax(uncertainty[:30])] == weights[:30].max()
    assert (weights[80:105] == 1).all()
    with pytest.raises(ValueError, match=r"0 to 0\.3"):
        draw_weights([1.0, 2.0], ["a", "a"], max_cv=0.5)
    with pytest.raises(ValueError, match="2 uncertainties of 1 items"):
        draw_weights([1.0, 2.0], ["a"])


@pytest.mark.parametrize("n", [2, 7])
def test_items_are_drawn_with_the_stated_probability(n: int) -> None:
    """Counts of 400 tasks with different seeds; every sum of indicators over stated probabilities is unbiased."""
    bots = np.repeat(["a", "b", "c"], [6, 7, 9])
    weights = draw_weights(np.random.default_rng(2).normal(size=22), bots, max_cv=0.3)
    n_tasks, shares, indicators = 400, np.zeros(22), np.zeros(22)
    for seed in range(n_tasks):
        items = draw_items(weights, bots, n, seed=seed, ordinal=seed % 5)
        index = [item.index for item in items]
        sizes = np.bincount(np.unique(bots, return_inverse=True)[1][index], minlength=3)
        assert len(set(index)) == n
        assert set(sizes.tolist()) <= {n // 3, n // 3 + 1}
        for item in items:
            size = sizes["abc".index(bots[item.index])]
            assert item.weight == pytest.approx(size / ([6, 7, 9]["abc".index(bots[item.index])] * item.probability))
            indicators[item.index] += 1
            shares[item.index] += item.weight
    expected = n / 3 * n_tasks / np.repeat([6, 7, 9], [6, 7, 9])
    assert np.abs((shares - expected) / np.sqrt(expected)).max() < 4
    assert np.corrcoef(indicators / expected, weights)[0, 1] > 0.7


def test_a_draw_is_reproducible_and_uses_items_evenly() -> None:
    bots = np.repeat(["a", "b"], 12)
    weights = draw_weights(np.arange(24.0), bots)
    assert draw_items(weights, bots, 6, seed=5, ordinal=3) == draw_items(weights, bots, 6, seed=5, ordinal=3)
    for values, most in ((np.ones(24), 1), (weights, 2)):
        counts = np.bincount(
            [item.index for ordinal in range(4) for item in draw_items(values, bots, 6, seed=5, ordinal=ordinal)],
            minlength=24,
        )
        assert counts.sum() == 24
        assert counts.max() <= most
    assert {item.probability for item in draw_items(weights, bots, 24, seed=5, ordinal=0)} == {1.0}
    with pytest.raises(ValueError, match="fewer than the 13 of a task"):
        draw_items(weights, bots, 26, seed=5, ordinal=0)


def test_estimates_equal_those_of_other_code() -> None:
    """Lambda by statsmodels without each rater; weighted sums by hand; an interval by t, with equal numbers."""
    study = a_study()
    y, w, rater = study["values"], study["weights"], study["raters"]
    bot = np.unique(study["bots"], return_inverse=True)[1]
    centres = study["pool_predictions"].reshape(3, -1).mean(axis=1)
    d = study["predictions"] - centres[bot]
    x = np.column_stack([np.eye(3)[bot], d])
    z = np.empty(len(y))

    def slope(rows: np.ndarray) -> float:
        fit = sm.WLS(y[rows], x[rows], w[rows] ** 2).fit()
        return float(fit.params[3] * max(0.0, 1 - 1 / fit.tvalues[3] ** 2))

    for person in range(20):
        others = rater != person
        value = slope(others)
        for k in np.flatnonzero(~others):
            same = others & (bot == bot[k])
            c = np.average(y[same] - value * d[same], weights=w[same])
            z[k] = w[k] * (y[k] - value * d[k] - c) + c
    result = estimate_active_means(**study)
    assert result.reason is None
    assert result.slope == pytest.approx(slope(np.full(len(y), True)))
    assert [mean.mean for mean in result.bots.values()] == pytest.approx([z[bot == b].mean() for b in range(3)])
    of_rater = np.array([[z[(rater == r) & (bot == b)].mean() for b in range(3)] for r in range(20)])
    gaps = of_rater[:, 0] - of_rater[:, 1]
    pair = result.differences["a", "b"]
    assert pair.difference == pytest.approx(gaps.mean())
    assert pair.high - pair.low >= 2 * 1.7341 * gaps.std(ddof=1) / np.sqrt(20)
    assert result.saved > 0.2
    assert result.effective_ratings == pytest.approx(120 / (1 - result.saved))


@pytest.mark.parametrize("cell", [simulated.Cell("good", 0.5, 3, 20, 1), simulated.Cell("biased", 0.3, 4, 50, 2)])
def test_estimates_equal_those_of_whole_arrays(cell: simulated.Cell) -> None:
    """The simulation has its own code for equal numbers of ratings of all bots by all raters."""
    rng = np.random.default_rng(3)
    pools = simulated.draw_pools(cell, 2, rng)
    samples, figures = simulated.simulate_designs(cell, pools, rng)
    pool_bots = np.repeat(np.arange(cell.bots), simulated.POOL)
    for design, sample in samples.items():
        for k in range(2):
            bot, rater, _each = (codes.ravel() for codes in np.indices(sample.y[k].shape))
            result = estimate_active_means(
                *(sample.y[k].ravel(), rater, bot, bot * simulated.POOL + sample.item[k].ravel()),
                *(sample.prediction[k].ravel(), sample.weight[k].ravel()),
                *(pool_bots, pools.prediction[k].ravel()),
                scale=SCALE,
            )
            row = figures[design]
            ends = [(mean.mean, mean.low, mean.high) for mean in result.bots.values()]
            np.testing.assert_allclose(ends, np.stack([row.mean[k], row.low[k], row.high[k]], axis=1))
            pair = result.differences["0", "1"]
            assert pair.difference == pytest.approx(row.gap[k, 0, 1])
            assert (pair.high - pair.low) / 2 == pytest.approx(row.gap_half[k, 0, 1])
            assert result.saved == pytest.approx(row.saved[k])
    q = draw_weights(pools.uncertainty[0].ravel(), pool_bots)
    np.testing.assert_allclose(simulated.weights_of(pools.uncertainty, MAX_CV)[0].ravel(), q)


def test_without_help_results_are_those_of_the_leaderboard() -> None:
    study = a_study(raters=MIN_RATERS - 1) | {"items": np.arange(6 * (MIN_RATERS - 1))}
    study["weights"] = np.ones(len(study["values"]))
    result = estimate_active_means(**study, scale=SCALE)
    assert result.reason.code == "few_raters_for_helper"
    assert (result.slope, result.saved) == (0, pytest.approx(0))
    for name, mean in result.bots.items():
        rows = study["bots"] == name
        plain = mean_interval(study["values"][rows], study["raters"][rows], scale=SCALE)
        expected = pytest.approx((plain.mean, plain.low, plain.high))
        assert (mean.mean, mean.low, mean.high) == expected
        assert (mean.plain_mean, mean.plain_low, mean.plain_high) == expected
    bot = np.unique(study["bots"], return_inverse=True)[1]
    gap = fit_gls(study["values"], bot, study["raters"]).gap(0, 2)
    assert result.differences["a", "c"].difference == pytest.approx(gap.difference)
    assert json.loads(json.dumps(result.to_json()))["reason"]["code"] == "few_raters_for_helper"


def reason_with(**changes: np.ndarray) -> ActiveMeans:
    """Return the estimate of a study with other columns."""
    return estimate_active_means(**a_study() | changes)


def test_predictions_that_cannot_help_are_not_used() -> None:
    study = a_study()
    unknown, constant = np.full(120, np.nan), np.full(120, 2.0)
    result = reason_with(predictions=unknown, pool_predictions=np.full(600, np.nan))
    assert (result.reason.code, result.slope) == ("no_prediction", 0)
    assert result.bots["a"].mean == pytest.approx(result.bots["a"].plain_mean)
    by_bot = np.repeat([1.0, 2.0, 3.0], 200)
    assert reason_with(predictions=constant, pool_predictions=np.full(600, 2.0)).reason.code == "constant_prediction"
    scores = {"predictions": by_bot[study["items"]], "pool_predictions": by_bot}
    assert reason_with(**scores).reason.code == "constant_prediction"
    partly = study["predictions"].copy()
    partly[::3] = np.nan
    assert 0 < reason_with(predictions=partly).saved < reason_with().saved
    values = np.where(np.arange(120) % 7 == 0, np.nan, study["values"])
    assert reason_with(values=values).n_ratings == 102
    assert reason_with(values=unknown).reason.code == "no_value"
    alone = reason_with(bots=np.where(study["raters"] == 3, "d", study["bots"]))
    assert alone.bots["d"].reason.code == "one_group"
    with pytest.raises(ValueError, match="positive"):
        reason_with(weights=np.zeros(120))
    with pytest.raises(ValueError, match="equal lengths"):
        reason_with(weights=np.ones(3))


def test_intervals_hold_and_savings_are_real() -> None:
    """200 studies a cell; `docs/research/active_inference.md` has 1,000 each. Means of a study share raters."""
    for judge, r, fewest, widest in (("misleading", 0.0, 0.87, 1.05), ("good", 0.7, 0.87, 0.85)):
        cell = simulated.Cell(judge, r, 6, 20, 1)
        rng = np.random.default_rng(4)
        pools = simulated.draw_pools(cell, 200, rng)
        _samples, figures = simulated.simulate_designs(cell, pools, rng)
        active, plain = figures[f"{MAX_CV:g}"], figures["plain"]
        held = np.mean((active.low <= pools.truth) & (pools.truth <= active.high))
        width = np.mean(active.high - active.low) / np.mean(plain.high - plain.low)
        print(f"{judge}: {held:.3f} held, {width:.3f} of the width")
        assert held > fewest
        assert width < widest
