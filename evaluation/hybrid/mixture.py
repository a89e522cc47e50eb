"""Mixtures of normal distributions: a process's prediction of a bot's true mean, averaged over a grid.

A grid point g says N(m_g, v_g) with the weight w_g. A mean rating r whose noise has there the mean a_g, the variance
e_g² and the covariance c_g with how far m_g is off makes of it the mixture with

    weights ∝ w_g N(r; m_g + a_g, f_g),  f_g = v_g + e_g² + 2 c_g
    m_g' = m_g + (v_g + c_g) (r − m_g − a_g) / f_g,  v_g' = v_g − (v_g + c_g)² / f_g

(Bernardo and Smith 1994, section 5.2), for a noise of its own 1 / v_g' = 1 / v_g + 1 / e². Its intervals lie between
its quantiles, for it is no normal distribution: points that expect larger differences between bots have wider ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_HALVINGS = 50
_TAIL = 10.0
"""In standard deviations of a component; a normal beyond has less than 1e-22."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Error of a mean rating, at each of G points.

    Attributes:
        mean: (P, G), variance: (1, G) and covariance: (1, G) with the error of the point's own mean.
    """

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray

    @classmethod
    def alone(cls, variance: float) -> Noise:
        """Return a noise that has nothing to do with the mixture."""
        return cls(np.zeros((1, 1)), np.full((1, 1), variance), np.zeros((1, 1)))


@dataclass(frozen=True, slots=True)
class Mixture:
    """P mixtures of G normal distributions.

    Attributes:
        weights: (P, G), summing to 1 over G.
        means: (P, G).
        variances: (P, G), all above 0.
    """

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """(P,) means."""
        return np.asarray((self.weights * self.means).sum(axis=1))

    @property
    def variance(self) -> np.ndarray:
        """(P,) variances: the mean of the components' and the variance of their means."""
        away = (self.means - self.mean[:, None]) ** 2
        return np.asarray((self.weights * (self.variances + away)).sum(axis=1))

    def widened(self, variance: float | np.ndarray) -> Mixture:
        """Return the mixtures with independent normal noise of this variance, or of these (P,), added."""
        added = np.asarray(variance, dtype=float)
        return Mixture(self.weights, self.means, self.variances + added[..., None])

    def widened_by(self, variances: np.ndarray, weights: np.ndarray) -> Mixture:
        """Return the mixtures plus independent normal noise of one of these (A,) variances with these (A,) weights."""
        shape = (len(self.means), -1)
        return Mixture(
            (self.weights[:, :, None] * weights).reshape(shape),
            np.repeat(self.means, len(variances), axis=1),
            (self.variances[:, :, None] + variances).reshape(shape),
        )

    def log_density(self, value: float) -> float:
        """Return the logarithm of the density of the first mixture there."""
        spread = self.variances[0]
        density = np.exp(-((value - self.means[0]) ** 2) / spread / 2) / np.sqrt(2 * np.pi * spread)
        return float(np.log(max(float(self.weights[0] @ density), 1e-300)))

    def rated(self, noise: Noise) -> Mixture:
        """Return the predictive distribution of a mean rating of the mixtures' quantity."""
        spread = self.variances + noise.variance + 2 * noise.covariance
        # Estimated covariances may say that nothing is left; then hardly anything is.
        return Mixture(
            self.weights, self.means + noise.mean, np.maximum(spread, 1e-9 * self.variances)
        )

    def given(self, rating: float | np.ndarray, noise: Noise) -> Mixture:
        """Return the mixtures updated by a mean rating of their quantity.

        Args:
            rating: (P,) or one for all.
        """
        expected = self.rated(noise)
        away = np.asarray(rating, dtype=float)[..., None] - expected.means
        # A weight of 0 stays 0: log 0 is −∞ and so is its sum.
        with np.errstate(divide="ignore"):
            log = np.log(self.weights) - 0.5 * (
                np.log(expected.variances) + away**2 / expected.variances
            )
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        known = self.variances + noise.covariance
        variances = self.variances - known**2 / expected.variances
        return Mixture(
            weights / weights.sum(axis=1, keepdims=True),
            self.means + known / expected.variances * away,
            np.maximum(variances, 1e-9 * self.variances),
        )

    def quantile(self, share: float) -> np.ndarray:
        """Return (P,) points below which this share, between 0 and 1, of each mixture lies; by bisection.

        Raises:
            ValueError: share is 0, 1 or beyond.
        """
        from scipy.special import ndtr

        if not 0 < share < 1:
            raise ValueError(f"share is {share}; it must lie between 0 and 1")
        spread = np.sqrt(self.variances)
        low = (self.means - _TAIL * spread).min(axis=1)
        high = (self.means + _TAIL * spread).max(axis=1)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = (self.weights * ndtr((middle[:, None] - self.means) / spread)).sum(axis=1)
            short = below < share
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray((low + high) / 2)

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the (P,) ends of the intervals with this share of the mixture inside and equal tails outside."""
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def first_interval(self, level: float) -> tuple[float, float]:
        """Return the interval of the first mixture."""
        low, high = self.interval(level)
        return float(low[0]), float(high[0])
