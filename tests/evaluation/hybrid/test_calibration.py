"""Accuracy of predicted values, of people's conversations and of self-play."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.hybrid.calibration import effective_ratings, intervals_by_errors
from evaluation.hybrid.features import design_of
from evaluation.hybrid.fit import apply_fit, fit_hybrid
from evaluation.hybrid.gaussian_process_folds import from_selfplay
from tests.evaluation.hybrid import simulated_selfplay
from tests.evaluation.hybrid.test_fit import FEATURES, study, with_embedding


def left_out(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predict each bot by least squares over the others."""
    found = []
    for k in range(len(y)):
        others = np.arange(len(y)) != k
        found.append(float(np.polyval(np.polyfit(x[others], y[others], 1), x[k])))
    return np.array(found)


@pytest.mark.parametrize("n_bots", [5, 8, 12])
def test_they_hold_as_many_bots_as_they_claim(n_bots: int) -> None:
    rng = np.random.default_rng(n_bots)
    names = [f"b{k}" for k in range(n_bots)]
    inside = []
    for number in range(300):
        x = rng.normal(size=n_bots)
        y = (number % 2) * x + rng.normal(size=n_bots)
        human = dict(zip(names, y.tolist(), strict=True))
        predicted = dict(zip(names, left_out(x, y).tolist(), strict=True))
        found = intervals_by_errors(predicted, human, dict.fromkeys(names, 9))
        # One bot a study, so that studies are independent.
        low, high = found["b0"].new
        inside.append(low <= human["b0"] <= high)
    assert np.mean(inside) > 0.95 - 2 * np.sqrt(0.95 * 0.05 / 300)


@pytest.mark.parametrize("preset", ["paper", "strong@2"])
def test_every_fit_prints_how_many_bots_lie_in_its_own_intervals(preset: str) -> None:
    human = with_embedding(study(n_bots=7, n=10))
    document = fit_hybrid(human, features=FEATURES, preset=preset).to_json()
    by_fold = fit_hybrid(human, features=FEATURES, preset=preset, intercept="fold").to_json()
    bots = document["bots"]
    errors = {bot: one["human_mean"] - one["predicted_fold"] for bot, one in bots.items()}
    n_inside = 0
    for bot, one in bots.items():
        assert one["predicted_fold"] == pytest.approx(by_fold["bots"][bot]["predicted"])
        others = [error for name, error in errors.items() if name != bot]
        half = stats.t.ppf(0.975, 5) * np.sqrt(np.mean(np.square(others)))
        assert one["interval95_new"] == pytest.approx([one["predicted_fold"] - half, one["predicted_fold"] + half])
        assert (one["interval95"], one["n_new"]) == (None, one["n"])
        n_inside += abs(errors[bot]) <= half
    assert document["coverage95"] == {"inside": n_inside, "of": 7}
    few = fit_hybrid(study(n_bots=4), features=FEATURES, preset="paper").to_json()
    assert few["coverage95"] is None
    assert "interval95_new" not in few["bots"]["bot0"]


FEATURES_OF_SELFPLAY_VALUES = ["f", "g"]


def talk(bots, x, n, rng, **columns):
    """Make a table of n conversations of each bot, whose features lie around these means."""
    rows = np.repeat(np.arange(len(bots)), n)
    table = pd.DataFrame(x[rows] + rng.normal(size=(len(rows), 2)), columns=FEATURES_OF_SELFPLAY_VALUES)
    return table.assign(conversation=[f"c{i}" for i in range(len(rows))], bot=np.array(bots)[rows], **columns)


@pytest.fixture(scope="module")
def study_of_selfplay_values():
    rng = np.random.default_rng(3)
    bots = [f"b{k}" for k in range(8)]
    x = rng.normal(scale=1.5, size=(8, 2))
    human = talk(bots, x, 40, rng)
    true = 3 + x @ [0.6, -0.3]
    human["quality"] = np.repeat(true, 40) + rng.normal(size=320)
    return human, bots, x


def test_errors_of_the_other_bots_on_self_play_widen_the_intervals(study_of_selfplay_values) -> None:
    human, bots, x = study_of_selfplay_values
    rng = np.random.default_rng(4)
    # The bots talk to themselves about other things: each is moved by as much as bots differ.
    moved = x + rng.normal(scale=1.5, size=x.shape)
    played = talk([*bots, "new"], np.vstack([moved, [0.5, 0.5]]), 25, rng)
    found = fit_hybrid(human, features=FEATURES_OF_SELFPLAY_VALUES, preset="strong", selfplay=played)
    means = found.fit.means
    at = {bot: played.loc[played["bot"] == bot, FEATURES_OF_SELFPLAY_VALUES].to_numpy() for bot in [*bots, "new"]}
    stated = {bot: means.expected(bot, rows) for bot, rows in at.items()}
    ratings = means.whole.by_bot()

    def weighed(others):
        """Return the added variances that are tried, and their weights by the errors of these bots, point by point."""
        noisy = {bot: stated[bot].widened(means.whole.new_ratings(bot)[1]) for bot in others}
        tried = np.mean([one.variance[0] for one in noisy.values()]) * np.array([0, *(2.0 ** np.linspace(-3, 8, 12))])
        log = [
            sum(
                np.log(one.weights[0] @ stats.norm.pdf(ratings[bot], one.means[0], np.sqrt(one.variances[0] + more)))
                for bot, one in noisy.items()
            )
            for more in tried
        ]
        weights = np.exp(np.array(log) - max(log))
        return tried, weights / weights.sum()

    for bot in ("b0", "b3", "new"):
        tried, weights = weighed([other for other in bots if other != bot])
        told = found.bots[bot].expected_selfplay
        for end, share in zip(told.true_mean, (0.025, 0.975), strict=True):
            below = sum(
                w * stats.norm.cdf(end, stated[bot].means[0], np.sqrt(stated[bot].variances[0] + v))
                for w, v in zip(weights, tried, strict=True)
            )
            assert stated[bot].weights[0] @ below == pytest.approx(share)
        own = stated[bot].first_interval(0.95)
        assert told.true_mean[1] - told.true_mean[0] > own[1] - own[0]
        low, high = found.bots[bot].selfplay_interval
        assert high - low < told.true_mean[1] - told.true_mean[0]
    tried, weights = weighed(bots)
    assert found.selfplay.added == pytest.approx(weights @ tried)
    document = found.to_json()
    json.dumps(document, allow_nan=False)
    values = document["values_selfplay"]
    assert values["added_variance"] == found.selfplay.added
    assert values["coverage95"]["of"] == 8
    by_fold = {bot: document["bots"][bot]["selfplay"]["predicted_fold"] for bot in bots}
    human_means = np.array([means.whole.by_bot()[bot] for bot in bots])
    others = (human_means.sum() - human_means) / 7
    error = ((human_means - list(by_fold.values())) ** 2).sum()
    assert values["q2"]["value"] == pytest.approx(1 - error / ((human_means - others) ** 2).sum(), rel=1e-9)
    codes = [one["code"] for one in document["verdict"]["findings_selfplay"]]
    assert "values" in codes
    assert set(document["selfplay_shifts"]["others"]) == {"shift", "widest"}


def test_where_few_rated_bots_have_self_play_nothing_but_the_order_is_told(study_of_selfplay_values) -> None:
    human, bots, x = study_of_selfplay_values
    rng = np.random.default_rng(5)
    fit = fit_hybrid(human, features=FEATURES_OF_SELFPLAY_VALUES, preset="strong").fit
    few = talk(["new", *bots[:3]], np.vstack([x.mean(axis=0), x[:3]]), 25, rng)
    found = apply_fit(fit, selfplay=few)
    told = found.bots["new"]
    assert told.predicted_selfplay is not None
    assert (told.expected_selfplay, told.selfplay_interval) == (None, None)
    (why,) = [reason for reason in told.reasons if reason.code == "selfplay_unchecked"]
    assert why.values == {"n_bots": 3, "needed": 4}
    assert "selfplay" not in told.to_json()
    assert "no interval: 3 of 4 other bots with ratings and self-play" in found.summary()
    assert from_selfplay(fit.means, design_of(few, FEATURES_OF_SELFPLAY_VALUES)).added is None
    enough = talk(["new", *bots[:4]], np.vstack([x.mean(axis=0), x[:4]]), 25, rng)
    found = apply_fit(fit, selfplay=enough)
    assert found.bots["new"].selfplay_interval is not None
    assert found.bots["b0"].selfplay_interval is None, "three others have ratings and self-play"
    # Where no rated bot has self-play, the shift is that of all of it from the rated bots' centre.
    far = talk(["far"], x.mean(axis=0)[None] + 20, 25, rng)
    alone = apply_fit(fit, selfplay=far).selfplay.shifts["others"]
    away = (
        far[FEATURES_OF_SELFPLAY_VALUES].mean() - human.groupby("bot")[FEATURES_OF_SELFPLAY_VALUES].mean().mean()
    ).to_numpy()
    assert alone["shift"] == pytest.approx(np.sqrt(((away / fit.means.whole.scale) ** 2).mean()))
    assert alone["shift"] > alone["widest"]


@pytest.mark.slow
@pytest.mark.parametrize("moved", ["not moved", "all moved by 1, each by 1"])
def test_intervals_from_self_play_hold(moved: str) -> None:
    """40 studies, two bots each; 95 % less three Monte-Carlo errors."""
    found = simulated_selfplay.held(simulated_selfplay.SIZES["8 bots"], simulated_selfplay.SHIFTS[moved], 40)
    assert len(found) == 4
    inside = [held for parts in found.values() for held, _width in parts]
    assert np.mean(inside) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 80)


def test_a_prediction_is_worth_as_many_ratings_as_err_as_much() -> None:
    """By hand: ratings of variance 40 · 0.1 = 4; errors of 1 less their noise of .1 make .9."""
    bots = ["a", "b", "c"]
    noise = dict.fromkeys(bots, (40, 0.1))
    stated = {"a": 3.0, "b": 5.0, "c": 40.0}
    human = dict(zip(bots, [1.0, 2.0, 3.0], strict=True))
    found = effective_ratings({bot: value + 1 for bot, value in human.items()}, human, noise, stated)
    assert found.stated == 5
    assert found.by_error == pytest.approx(4 / 0.9)
    # The sum of squares over what two degrees of freedom of χ² leave below and above.
    low, high = (2 * 1.0 / stats.chi2.ppf(end, 2) - 0.1 for end in (0.025, 0.975))
    assert found.interval == pytest.approx((4 / low, 4 / high))
    close = effective_ratings(dict(human), human, noise, stated)
    assert (close.by_error, close.interval) == (None, (None, None))
    assert effective_ratings({"a": 1.0}, human, noise, stated) is None
