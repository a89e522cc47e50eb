"""Ordinary least squares without one bot, for every bot, from one QR factor per bot.

The rows of a bot enter every fold but one, so they are reduced once to their triangular factor; a fold
stacks the other bots' factors and solves that small system. The normal equations would add up just as
easily but lose half the digits on the nearly collinear word coherences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.hybrid.features import HybridError


@dataclass(frozen=True, slots=True)
class Line:
    """A fitted linear predictor in raw units: intercept + x · slopes.

    Attributes:
        slopes: (p,); 0 for a dropped feature.
        used: (p,) which features took part; the others were constant.
        n: conversations fitted on.
        condition: condition number of the standardised features used; None without features, infinite
            if one is a sum of others.
    """

    intercept: float
    slopes: np.ndarray
    used: np.ndarray
    n: int
    condition: float | None

    def predict(self, x: np.ndarray) -> np.ndarray:
        """(n, p) to (n,)."""
        return self.intercept + x @ self.slopes


class Factors:
    """The rows of all rated bots, reduced to one triangular factor each.

    Inside, features are shifted and scaled by their mean and spread over all conversations. Least squares
    with an intercept does not notice (it learns nothing from that), rounding errors do.

    Args:
        x: (n, p) features.
        y: (n,) targets, all defined.
        bots: (n,) ids.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, bots: np.ndarray) -> None:
        import pandas as pd

        codes, names = pd.factorize(np.asarray(bots, dtype=object), sort=True)
        self.bots: tuple[str, ...] = tuple(str(name) for name in names)
        self.counts = np.bincount(codes, minlength=len(names))
        self.bot_means = np.bincount(codes, weights=y, minlength=len(names)) / self.counts
        self.centre = x.mean(axis=0)
        spread = x.std(axis=0)
        self.scale = np.where(spread > 0, spread, 1.0)
        self.target_mean = float(y.mean())
        self._factors: list[np.ndarray] = []
        self._lows: list[np.ndarray] = []
        self._highs: list[np.ndarray] = []
        order = np.argsort(codes, kind="stable")
        for rows in np.split(order, np.cumsum(self.counts)[:-1]):
            mine = x[rows]
            table = np.empty((len(rows), x.shape[1] + 2))
            table[:, 0] = 1.0
            table[:, 1:-1] = (mine - self.centre) / self.scale
            table[:, -1] = y[rows] - self.target_mean
            self._factors.append(np.asarray(np.linalg.qr(table, mode="r")))  # (min(n_k, p+2), p+2)
            self._lows.append(mine.min(axis=0))
            self._highs.append(mine.max(axis=0))

    @property
    def n_features(self) -> int:
        return len(self.centre)

    def varying(self, members: Sequence[int]) -> np.ndarray:
        """(p,) which features are not constant over these bots' conversations."""
        low = np.min([self._lows[k] for k in members], axis=0)
        high = np.max([self._highs[k] for k in members], axis=0)
        return (high - low) > 1e-12 * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))

    def line(self, members: Sequence[int], *, check: bool = True) -> Line:
        """Fit on these bots (numbers into `bots`, repeated if resampled).

        Raises:
            HybridError: if there are no more conversations than coefficients.
        """
        used = self.varying(members)
        n = int(self.counts[list(members)].sum())
        if check and n <= used.sum() + 1:
            raise HybridError(
                f"{n} conversations cannot determine {int(used.sum())} features and an intercept; choose "
                "fewer features or collect more rated conversations"
            )
        stack = np.vstack([self._factors[k] for k in members])
        columns = np.flatnonzero(np.concatenate([[True], used]))
        solved = np.linalg.lstsq(stack[:, columns], stack[:, -1], rcond=None)[0]
        scaled = np.zeros(self.n_features)
        scaled[used] = solved[1:]
        slopes = scaled / self.scale
        intercept = self.target_mean + float(solved[0]) - float(self.centre @ slopes)
        return Line(intercept, slopes, used, n, _condition(stack[:, columns]) if check else None)

    def without(self, k: int) -> list[int]:
        """All bots but number k."""
        return [j for j in range(len(self.bots)) if j != k]

    def response(self, k: int, at: np.ndarray, *, common: bool) -> tuple[np.ndarray, float]:
        """How fold k's prediction at one point depends on the bots' mean ratings.

        The prediction is linear in the ratings, so with ratings written as bot mean + rest it is
        `weights @ bot_means + rest`; other means (bots permuted, say) need no new fit.

        Args:
            k: the bot left out.
            at: (p,) features, raw units.
            common: whether the intercept is that of all bots.

        Returns:
            weights (K,) and the rest.
        """
        members = self.without(k)
        used = self.varying(members)
        columns = np.flatnonzero(np.concatenate([[True], used]))
        blocks = [self._factors[j] for j in members]
        stack = np.vstack(blocks)
        n_bots = len(self.bots)
        right = np.zeros((len(stack), n_bots + 1))
        start = 0
        for j, block in zip(members, blocks, strict=True):
            stop = start + len(block)
            # A bot's constant is its column of ones; what remains of its ratings is the last column.
            right[start:stop, j] = block[:, 0]
            right[start:stop, -1] = block[:, -1] - block[:, 0] * (
                self.bot_means[j] - self.target_mean
            )
            start = stop
        solved = np.linalg.lstsq(stack[:, columns], right, rcond=None)[0]  # (1 + used, K + 1)
        point = ((at - self.centre) / self.scale)[used]
        effect = point @ solved[1:] + (0.0 if common else solved[0])
        weights, rest = effect[:-1].copy(), float(effect[-1])
        if common:
            weights += self.counts / self.counts.sum()
        return weights, rest


def _condition(columns: np.ndarray) -> float | None:
    """Condition number of the standardised features, from a factor of [1, features]."""
    if columns.shape[1] < 2:
        return None
    ones, features = columns[:, 0], columns[:, 1:]
    centred = features - np.outer(ones, ones @ features / (ones @ ones))
    lengths = np.linalg.norm(centred, axis=0)
    singular = np.linalg.svd(centred / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    smallest = float(singular[-1])
    return float(singular[0]) / smallest if smallest > 1e-15 else float("inf")
