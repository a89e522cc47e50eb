"""Where a fit that states no interval of its own expects a bot's mean: by the errors of the other bots."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evaluation.hybrid.calibration import intervals_by_errors
from evaluation.hybrid.fit import fit_hybrid
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
        assert one["interval95_new"] == pytest.approx(
            [one["predicted_fold"] - half, one["predicted_fold"] + half]
        )
        assert (one["interval95"], one["n_new"]) == (None, one["n"])
        n_inside += abs(errors[bot]) <= half
    assert document["coverage95"] == {"inside": n_inside, "of": 7}
    few = fit_hybrid(study(n_bots=4), features=FEATURES, preset="paper").to_json()
    assert few["coverage95"] is None
    assert "interval95_new" not in few["bots"]["bot0"]
