"""Mean features and mean ratings of bots, with the ratings' noise.

Equations (1) and (2) of the preset `strong`, version 3. Everything is learned from the bots of one fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.hybrid.features import HybridError
from evaluation.hybrid.rating_noise import RatingNoise, adjusted_means

_ROUNDING = 1e-9
"""Share of the column's size below which a within-bot standard deviation is rounding error."""
_NORMAL = 1e6
"""Degrees of freedom above which Student's distribution is treated as normal."""


class NoNoise(HybridError):
    """Error for ratings that do not vary within any bot.

    The noise of a mean is then unknown.
    """


@dataclass(frozen=True, slots=True)
class BotFeatureMeans:
    """Mean features and ratings of K bots.

    Attributes:
        bots: their ids.
        x: (K, p) mean features, raw units.
        scale: (p,) pooled within-bot standard deviation of each feature; 0 where it does not vary within bots.
        rating: (K,) mean ratings minus rater effects.
        n: (K,) number of ratings of each bot.
        noise: (K, K) error covariance of these means, in units of s².
        df: (K,) degrees of freedom of the diagonal of `noise`.
        variance: s², the variance of a single rating within bots, rater effects removed.
    """

    bots: tuple[str, ...]
    x: np.ndarray
    scale: np.ndarray
    rating: np.ndarray
    n: np.ndarray
    noise: np.ndarray
    df: np.ndarray
    variance: float

    @property
    def n_eff(self) -> np.ndarray:
        """(K,) effective number of independent ratings of each mean."""
        return np.asarray(1 / np.diag(self.noise))

    def by_bot(self) -> dict[str, float]:
        """Return the mean rating of each bot."""
        return dict(zip(self.bots, self.rating.tolist(), strict=True))

    def df_of(self, bot: str) -> float:
        """Return the degrees of freedom of a mean rating's variance."""
        return float(self.df[self.bots.index(bot)])

    def interval_of(self, bot: str) -> tuple[float, float]:
        """Return the 95 % interval of a bot's true mean by its ratings alone.

        By Student's t.
        """
        from scipy import stats

        middle, half = self.by_bot()[bot], float(stats.t.ppf(0.975, self.df_of(bot)))
        half *= self.new_ratings(bot)[1] ** 0.5
        return middle - half, middle + half

    def new_ratings(self, bot: str) -> tuple[int, float]:
        """Return n and the variance of the mean of n new ratings.

        The variance is around the bot's true mean.

        n is the bot's number of ratings, assumed to be collected in the same way; for a bot without ratings, the median
        of the others.
        """
        if bot in self.bots:
            index = self.bots.index(bot)
            return int(self.n[index]), self.variance / float(self.n_eff[index])
        return round(float(np.median(self.n))), self.variance / float(np.median(self.n_eff))

    def noise_for_fold(self, index: int, fold: BotFeatureMeans) -> tuple[float, np.ndarray]:
        """Return the error variance of a bot's mean and its covariances.

        Covariances are with the other bots' means; units are the fold's.

        Args:
            index: number of the bot.
            fold: all other bots.
        """
        noise = self.noise[index] * self.variance / fold.variance
        return float(noise[index]), np.delete(noise, index)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        return {
            "bots": list(self.bots),
            "x": self.x.tolist(),
            "scale": self.scale.tolist(),
            "rating": self.rating.tolist(),
            "n": self.n.tolist(),
            "n_eff": self.n_eff.tolist(),
            "noise": self.noise.tolist(),
            "df": self.df.tolist(),
            "variance": self.variance,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BotFeatureMeans:
        """Read the output of `to_json`.

        Noise of fits of earlier versions does not include raters.
        """
        arrays = {name: np.array(value[name], dtype=float) for name in ("x", "scale", "rating", "n")}
        n_eff = np.array(value["n_eff"], dtype=float)
        noise = np.array(value["noise"], dtype=float) if "noise" in value else np.diag(1 / n_eff)
        df = np.array(value["df"], dtype=float) if "df" in value else np.full(len(n_eff), _NORMAL)
        return cls(
            bots=tuple(str(bot) for bot in value["bots"]),
            noise=noise,
            df=df,
            variance=float(value["variance"]),
            **arrays,
        )


class BotSums:
    """Rated conversations in reduced form, for cheap refits.

    Args:
        x: (n, p) features.
        y: (n,) targets.
        codes: (n,) number of each row's bot, 0 … K−1.
        names: (K,) the bots.
        ratings: individual ratings of these rows.
    """

    def __init__(
        self, x: np.ndarray, y: np.ndarray, codes: np.ndarray, names: Sequence[str], ratings: RatingNoise
    ) -> None:
        self.bots = tuple(names)
        n_bots = len(names)
        self.counts = np.bincount(codes, minlength=n_bots)
        self.x = np.stack([x[codes == k].mean(axis=0) for k in range(n_bots)])
        self._squares = np.stack([((x[codes == k] - self.x[k]) ** 2).sum(axis=0) for k in range(n_bots)])
        self._y = y
        self._codes = codes
        self._ratings = ratings
        self._n = np.bincount(ratings.row, minlength=len(y))

    def adjusted(self) -> np.ndarray:
        """Return each conversation's mean rating minus rater effects, (n,).

        Rater effects are estimated on all bots.
        """
        everybody = np.ones(len(self.bots), dtype=bool)
        return adjusted_means(self._y, self._codes, self._ratings, everybody).rows

    def compute_means(self, members: np.ndarray) -> BotFeatureMeans:
        """Return the means of the selected bots, using their ratings alone.

        Args:
            members: (K,) mask of the selected bots.

        Raises:
            NoNoise: if no two ratings of the same bot differ.
        """
        indices = np.flatnonzero(members)
        means = adjusted_means(self._y, self._codes, self._ratings, members)  # (1)
        if not means.variance > 0:
            raise NoNoise(
                "no bot has two different ratings, so the error of a mean rating is unknown; rate more "
                "conversations of each bot, or choose the preset 'paper'"
            )
        number = np.bincount(self._codes, weights=self._n, minlength=len(self.bots))
        # (2) Within-bot standard deviation of each column, pooled over these bots.
        free = max(int(self.counts[indices].sum()) - len(indices), 1)
        scale = np.sqrt(self._squares[indices].sum(axis=0) / free)
        size = np.abs(self.x[indices]).max(axis=0)
        scale = np.where(scale > _ROUNDING * np.maximum(size, 1e-300), scale, 0.0)
        return BotFeatureMeans(
            bots=tuple(self.bots[j] for j in indices),
            x=self.x[indices],
            scale=scale,
            rating=means.mean,
            n=number[indices],
            noise=means.covariance / means.variance,
            df=means.df,
            variance=means.variance,
        )
