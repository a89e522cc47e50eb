"""Bots reduced to what a regression of means on means reads: their mean features, their mean rating, its noise.

Equations (1) and (2) of the preset `strong`, version 3. All is learned from the bots of one fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.hybrid.features import HybridError
from evaluation.hybrid.noise import RatingNoise

_ROUNDING = 1e-9
"""A within-bot standard deviation below this share of the column's size is rounding."""


@dataclass(frozen=True, slots=True)
class BotMeans:
    """K bots.

    Attributes:
        bots: their ids.
        x: (K, p) mean features, raw units.
        scale: (p,) pooled within-bot standard deviation of each feature; 0 where it does not vary within bots.
        rating: (K,) mean ratings less their raters' effects.
        n: (K,) ratings behind each.
        n_eff: (K,) how many independent ratings they are worth.
        variance: s², of a single rating within bots.
    """

    bots: tuple[str, ...]
    x: np.ndarray
    scale: np.ndarray
    rating: np.ndarray
    n: np.ndarray
    n_eff: np.ndarray
    variance: float

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        return {
            "bots": list(self.bots),
            "x": self.x.tolist(),
            "scale": self.scale.tolist(),
            "rating": self.rating.tolist(),
            "n": self.n.tolist(),
            "n_eff": self.n_eff.tolist(),
            "variance": self.variance,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BotMeans:
        """Read what `to_json` made."""
        arrays = {
            name: np.array(value[name], dtype=float)
            for name in ("x", "scale", "rating", "n", "n_eff")
        }
        return cls(
            bots=tuple(str(bot) for bot in value["bots"]),
            variance=float(value["variance"]),
            **arrays,
        )


class BotSums:
    """Rated conversations reduced once, so that every choice of bots costs little.

    Args:
        x: (n, p) features.
        y: (n,) targets.
        codes: (n,) number of each row's bot, 0 … K−1.
        names: (K,) the bots.
        ratings: of these rows.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        codes: np.ndarray,
        names: Sequence[str],
        ratings: RatingNoise,
    ) -> None:
        self.bots = tuple(names)
        n_bots = len(names)
        self.counts = np.bincount(codes, minlength=n_bots)
        self.x = np.stack([x[codes == k].mean(axis=0) for k in range(n_bots)])
        self._squares = np.stack(
            [((x[codes == k] - self.x[k]) ** 2).sum(axis=0) for k in range(n_bots)]
        )
        self._y = y
        self._codes = codes
        self._ratings = ratings
        self._n = np.bincount(ratings.row, minlength=len(y))

    def of(self, members: np.ndarray) -> BotMeans:
        """Return what these bots alone say.

        Args:
            members: (K,) which bots take part.

        Raises:
            HybridError: where no rating differs from another of the same bot, so that noise is unknown.
        """
        at = np.flatnonzero(members)
        # (1) Adjusted mean: conversations' mean ratings less their raters' effects, learned on these bots.
        adjusted = self._y - self._ratings.rater_effects(members)
        means = self._per_bot(adjusted)
        variance = self._variance(members)
        if not variance > 0:
            raise HybridError(
                "no bot has two ratings that differ, so how far a mean rating can be off is unknown; rate "
                "more conversations of each bot, or choose the preset 'paper'"
            )
        # n_eff: a conversation's mean of k ratings has the variance s² (1 + (k − 1) ICC) / k, and a bot's mean
        # averages its conversations. With k ratings of each it is n / (1 + (k − 1) ICC).
        icc = self._ratings.reliability(members)
        k = np.maximum(self._n, 1)
        noise = np.bincount(self._codes, weights=(1 + (k - 1) * icc) / k, minlength=len(self.bots))
        n_eff = self.counts**2 / noise
        number = np.bincount(self._codes, weights=self._n, minlength=len(self.bots))
        # (2) Within-bot standard deviation of each column, pooled over these bots.
        free = max(int(self.counts[at].sum()) - len(at), 1)
        scale = np.sqrt(self._squares[at].sum(axis=0) / free)
        size = np.abs(self.x[at]).max(axis=0)
        scale = np.where(scale > _ROUNDING * np.maximum(size, 1e-300), scale, 0.0)
        return BotMeans(
            bots=tuple(self.bots[j] for j in at),
            x=self.x[at],
            scale=scale,
            rating=means[at],
            n=number[at],
            n_eff=n_eff[at],
            variance=variance,
        )

    def _per_bot(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._codes, weights=values, minlength=len(self.bots)) / self.counts

    def _variance(self, members: np.ndarray) -> float:
        """Return the pooled variance of a rating within these bots, raters' effects taken away."""
        keep = members[self._ratings.bot]
        value = self._ratings.less_raters(members)[keep]
        bot = self._ratings.bot[keep]
        number = np.bincount(bot, minlength=len(self.bots))
        mean = np.bincount(bot, weights=value, minlength=len(self.bots)) / np.maximum(number, 1)
        free = len(value) - int((number > 0).sum())
        return float(((value - mean[bot]) ** 2).sum() / free) if free > 0 else 0.0
