"""How many human ratings of a bot its prediction is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

N_RESAMPLES = 2_000
FEWEST_BOTS = 3


@dataclass(frozen=True, slots=True)
class Worth:
    """The number of ratings whose mean would be as far off as the prediction.

    Attributes:
        stated: median over bots of what the prediction's own standard deviation says.
        by_error: what its errors say: the variance of a rating divided by the mean squared error less the noise of the
            human means; None where the errors are no larger than that noise.
        interval: 95 % of `by_error`, bots resampled; an end is None where it is not bounded.
    """

    stated: float
    by_error: float | None
    interval: tuple[float | None, float | None]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"stated": self.stated, "by_error": self.by_error, "ci95": list(self.interval)}


def worth_of(
    predicted: Mapping[str, float],
    human: Mapping[str, float],
    noise: Mapping[str, tuple[int, float]],
    stated: Mapping[str, float],
    seed: int,
) -> Worth | None:
    """Compare predictions with ratings; None for fewer than three bots.

    Args:
        predicted, human: by bot, each predicted without its ratings.
        noise: by bot how many ratings its human mean has, and that mean's variance around the bot's true mean.
        stated: by bot how many ratings the prediction's standard deviation makes it worth.
        seed: of the bootstrap.
    """
    bots = [bot for bot in predicted if bot in human and bot in noise and bot in stated]
    if len(bots) < FEWEST_BOTS:
        return None
    count = np.array([noise[bot][0] for bot in bots])
    variance = np.array([noise[bot][1] for bot in bots])
    single = float((count * variance).mean())
    beyond = np.array([(predicted[bot] - human[bot]) ** 2 for bot in bots]) - variance
    rng = np.random.default_rng(seed)
    drawn = beyond[rng.integers(0, len(bots), size=(N_RESAMPLES, len(bots)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])

    def ratings(error: float) -> float | None:
        return single / error if error > 0 else None

    return Worth(
        float(np.median([stated[bot] for bot in bots])),
        ratings(float(beyond.mean())),
        (ratings(float(high)), ratings(float(low))),
    )
