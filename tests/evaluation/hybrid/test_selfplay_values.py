"""Bots predicted from their conversations with themselves: widened by what such predictions err, or refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.hybrid.features import design_of
from evaluation.hybrid.fit import apply_fit, fit_hybrid
from evaluation.hybrid.selfplay_values import from_selfplay
from evaluation.hybrid.worth import worth_of

FEATURES = ["f", "g"]


def talk(bots, x, n, rng, **columns):
    """Make a table of n conversations of each bot, whose features lie around these means."""
    rows = np.repeat(np.arange(len(bots)), n)
    table = pd.DataFrame(x[rows] + rng.normal(size=(len(rows), 2)), columns=FEATURES)
    return table.assign(
        conversation=[f"c{i}" for i in range(len(rows))], bot=np.array(bots)[rows], **columns
    )


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(3)
    bots = [f"b{k}" for k in range(8)]
    x = rng.normal(scale=1.5, size=(8, 2))
    human = talk(bots, x, 40, rng)
    true = 3 + x @ [0.6, -0.3]
    human["quality"] = np.repeat(true, 40) + rng.normal(size=320)
    return human, bots, x


def test_errors_of_the_other_bots_on_self_play_widen_the_intervals(study) -> None:
    human, bots, x = study
    rng = np.random.default_rng(4)
    # The bots talk to themselves about other things: each is moved by as much as bots differ.
    moved = x + rng.normal(scale=1.5, size=x.shape)
    played = talk([*bots, "new"], np.vstack([moved, [0.5, 0.5]]), 25, rng)
    found = fit_hybrid(human, features=FEATURES, preset="strong", selfplay=played)
    means = found.fit.means
    at = {bot: played.loc[played["bot"] == bot, FEATURES].to_numpy() for bot in [*bots, "new"]}
    stated = {bot: means.expected(bot, rows) for bot, rows in at.items()}
    missing = {
        bot: (means.ratings()[bot] - stated[bot].mean[0]) ** 2
        - stated[bot].variance[0]
        - means.new_ratings(bot)[1]
        for bot in bots
    }
    for bot in ("b0", "b3", "new"):
        added = np.mean([missing[other] for other in bots if other != bot])
        assert added > 0
        expected = stated[bot].widened(added)
        told = found.bots[bot].expected_selfplay
        assert told.true_mean == pytest.approx(expected.first_interval(0.95))
        low, high = found.bots[bot].selfplay_interval
        assert high - low == pytest.approx(np.diff(expected.first_interval(0.90))[0])
    assert found.selfplay.added == pytest.approx(np.mean(list(missing.values())))
    document = found.to_json()
    json.dumps(document, allow_nan=False)
    values = document["values_selfplay"]
    assert values["added_variance"] == found.selfplay.added
    assert values["coverage95"]["of"] == 8
    by_fold = {bot: document["bots"][bot]["selfplay"]["predicted_fold"] for bot in bots}
    human_means = np.array([means.ratings()[bot] for bot in bots])
    others = (human_means.sum() - human_means) / 7
    error = ((human_means - list(by_fold.values())) ** 2).sum()
    assert values["q2"]["value"] == pytest.approx(
        1 - error / ((human_means - others) ** 2).sum(), rel=1e-9
    )
    codes = [one["code"] for one in document["verdict"]["findings_selfplay"]]
    assert "values" in codes
    assert set(document["selfplay_shifts"]["others"]) == {"shift", "widest"}


def test_beyond_the_rated_bots_nothing_but_the_order_is_told(study) -> None:
    human, _, x = study
    rng = np.random.default_rng(5)
    near = talk(["near", "b1"], np.vstack([x.mean(axis=0), x[1]]), 25, rng)
    far = talk(["far"], x.mean(axis=0)[None] + 20, 25, rng).assign(
        conversation=[f"far{i}" for i in range(25)]
    )
    fit = fit_hybrid(human, features=FEATURES, preset="strong").fit
    found = apply_fit(fit, selfplay=pd.concat([near, far]))
    assert found.bots["near"].expected_selfplay is not None
    assert found.bots["near"].selfplay_interval is not None
    told = found.bots["far"]
    assert told.predicted_selfplay is not None
    assert (told.expected_selfplay, told.selfplay_interval) == (None, None)
    (why,) = [reason for reason in told.reasons if reason.code == "selfplay_beyond"]
    assert why.values == {"blocks": ["others"], "n_bots": 1, "needed": 4}
    assert "selfplay" not in told.to_json()
    assert "no interval: beyond the rated bots in others" in found.summary()
    # Where no rated bot has self-play, the shift is that of all of it from the rated bots' centre.
    alone = apply_fit(fit, selfplay=far).selfplay.shifts["others"]
    away = (far[FEATURES].mean() - human.groupby("bot")[FEATURES].mean().mean()).to_numpy()
    assert alone["shift"] == pytest.approx(np.sqrt(((away / fit.means.whole.scale) ** 2).mean()))
    assert alone["shift"] > alone["widest"]
    # Inside, it is what the process states, for too few bots were seen to err.
    at = design_of(near, FEATURES)
    assert from_selfplay(fit.means, at).added is None
    stated = fit.means.expected("near", at.x[at.bots == "near"])
    assert found.bots["near"].expected_selfplay.true_mean == pytest.approx(
        stated.first_interval(0.95)
    )


def test_a_prediction_is_worth_as_many_ratings_as_err_as_much() -> None:
    """By hand: ratings of variance 40 · 0.1 = 4; errors of 1 less their noise of .1 make .9."""
    bots = ["a", "b", "c"]
    noise = dict.fromkeys(bots, (40, 0.1))
    stated = {"a": 3.0, "b": 5.0, "c": 40.0}
    human = dict(zip(bots, [1.0, 2.0, 3.0], strict=True))
    found = worth_of({bot: value + 1 for bot, value in human.items()}, human, noise, stated)
    assert found.stated == 5
    assert found.by_error == pytest.approx(4 / 0.9)
    # The sum of squares over what two degrees of freedom of χ² leave below and above.
    low, high = (2 * 1.0 / stats.chi2.ppf(end, 2) - 0.1 for end in (0.025, 0.975))
    assert found.interval == pytest.approx((4 / low, 4 / high))
    close = worth_of(dict(human), human, noise, stated)
    assert (close.by_error, close.interval) == (None, (None, None))
    assert worth_of({"a": 1.0}, human, noise, stated) is None
