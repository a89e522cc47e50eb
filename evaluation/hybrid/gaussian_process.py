"""Gaussian process over bots, and the mixtures of normals it predicts.

Mixture: the prediction of a bot's true mean, averaged over a grid. Grid point g contributes N(m_g, v_g) with weight
w_g. Given a mean rating r whose noise at g has mean a_g, variance e_g² and covariance c_g with the error of m_g, the
updated mixture has

    weights ∝ w_g N(r; m_g + a_g, f_g),  f_g = v_g + e_g² + 2 c_g
    m_g' = m_g + (v_g + c_g) (r − m_g − a_g) / f_g,  v_g' = v_g − (v_g + c_g)² / f_g

(Bernardo and Smith 1994, section 5.2); for independent noise 1 / v_g' = 1 / v_g + 1 / e². The mixture is not normal,
because components with larger expected differences between bots are wider; its intervals are therefore taken from its
quantiles.

Gaussian process with known noise: regression of mean ratings on a few blocks of mean features. Equations (3) and (4) of
the preset `strong`, version 3; Rasmussen and Williams (2006), chapters 2 and 5, and for the flat mean section 2.7. With
X_b the bots' means of the columns of block b, centred, in within-bot standard deviations:

    K_b = (K / tr(X_b X_bᵀ)) X_b X_bᵀ
    m ~ N(mu 1, s² V),  V = theta I + Σ_b tau_b K_b + N,  mu flat

where s² N is the error covariance of the mean ratings (`rating_noise`), diagonal if raters are unnamed.

theta and tau are on a grid (`RESIDUAL_VARIANCE_GRID`, `BLOCK_VARIANCE_GRID`). Predictions average over its points
instead of selecting one, with weights from the restricted likelihood

    log L = −½ (log |V| + log 1ᵀV⁻¹1 + (m − mu 1)ᵀ V⁻¹ (m − mu 1) / s²),  mu = 1ᵀV⁻¹m / 1ᵀV⁻¹1

times a prior density of theta + Σ tau. Many vectors m, such as those of a permutation test, are computed together: grid
points with the same tau share one eigendecomposition, and theta only shifts its eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans
from evaluation.hybrid.least_squares import LinearPredictor

_HALVINGS = 50
_TAIL = 10.0
"""Search range in standard deviations of a component; the mass of a normal beyond it is below 1e-22."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Error of a mean rating at each of G grid points.

    Attributes:
        mean: (P, G).
        variance: (1, G).
        covariance: (1, G) covariance with the error of the grid point's mean.
    """

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray

    @classmethod
    def alone(cls, variance: float) -> Noise:
        """Return noise that is independent of the mixture."""
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
        """(P,) variances: mean of the components' variances plus variance of their means."""
        away = (self.means - self.mean[:, None]) ** 2
        return np.asarray((self.weights * (self.variances + away)).sum(axis=1))

    def widened(self, variance: float | np.ndarray) -> Mixture:
        """Add independent normal noise with one variance or (P,) variances."""
        added = np.asarray(variance, dtype=float)
        return Mixture(self.weights, self.means, self.variances + added[..., None])

    def widened_by(self, variances: np.ndarray, weights: np.ndarray) -> Mixture:
        """Add independent noise from a mixture of normals.

        The components have (A,) variances and (A,) weights.
        """
        shape = (len(self.means), -1)
        return Mixture(
            (self.weights[:, :, None] * weights).reshape(shape),
            np.repeat(self.means, len(variances), axis=1),
            (self.variances[:, :, None] + variances).reshape(shape),
        )

    def log_density(self, value: float) -> float:
        """Return the log density of the first mixture at a value."""
        spread = self.variances[0]
        density = np.exp(-((value - self.means[0]) ** 2) / spread / 2) / np.sqrt(2 * np.pi * spread)
        return float(np.log(max(float(self.weights[0] @ density), 1e-300)))

    def rated(self, noise: Noise) -> Mixture:
        """Return the predictive distribution of a mean rating of the mixtures' quantity."""
        spread = self.variances + noise.variance + 2 * noise.covariance
        # Estimated covariances can give a variance of 0 or less; use a tiny one instead.
        return Mixture(self.weights, self.means + noise.mean, np.maximum(spread, 1e-9 * self.variances))

    def updated(self, rating: float | np.ndarray, noise: Noise) -> Mixture:
        """Return the mixtures updated by a mean rating of their quantity.

        Args:
            rating: (P,) or one for all.
        """
        expected = self.rated(noise)
        away = np.asarray(rating, dtype=float)[..., None] - expected.means
        # A weight of 0 stays 0, because log 0 = −∞ carries through the sum.
        with np.errstate(divide="ignore"):
            log = np.log(self.weights) - 0.5 * (np.log(expected.variances) + away**2 / expected.variances)
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        known = self.variances + noise.covariance
        variances = self.variances - known**2 / expected.variances
        return Mixture(
            weights / weights.sum(axis=1, keepdims=True),
            self.means + known / expected.variances * away,
            np.maximum(variances, 1e-9 * self.variances),
        )

    def quantile(self, share: float) -> np.ndarray:
        """Return the (P,) quantiles at a share, by bisection.

        Raises:
            ValueError: if the share is not between 0 and 1.
        """
        from scipy.special import ndtr

        if not 0 < share < 1:
            raise ValueError(f"share is {share}; it must be between 0 and 1")
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
        """Return the (P,) ends of equal-tailed intervals that contain this share."""
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def first_interval(self, level: float) -> tuple[float, float]:
        """Return the interval of the first mixture."""
        low, high = self.interval(level)
        return float(low[0]), float(high[0])


RESIDUAL_VARIANCE_GRID = (0.002, 0.01, 0.04, 0.15, 0.5)
"""Grid of the between-bot variance that no feature explains, in units of a rating's variance."""
BLOCK_VARIANCE_GRID = (0.0, 0.01, 0.05, 0.2, 0.8)
"""Grid of the between-bot variance that a block explains, in the same units."""
PRIOR_MEDIAN, PRIOR_SIGMA = 0.05, 1.5
"""Parameters of the log-normal prior of the total variance between bots."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Grid posterior of A tau and H theta for P vectors of mean ratings.

    Attributes:
        weights: (A, P, H), summing to 1 for each vector.
        mu: (A, P, H).
        turned: (A, P, K) the vectors in the eigenbasis.
    """

    weights: np.ndarray
    mu: np.ndarray
    turned: np.ndarray


@dataclass(frozen=True, slots=True)
class ProcessPredictions:
    """Predictions for P rating vectors, averaged over the grid.

    `level + Σ_b k_b(x) · duals_b`

    Attributes:
        level: (P,).
        duals: (P, B, K).
    """

    level: np.ndarray
    duals: np.ndarray


class BotGaussianProcess:
    """Gaussian process over bots.

    Args:
        means: means of the training bots.
        blocks: column indices of each block's features.
    """

    def __init__(self, means: BotFeatureMeans, blocks: Sequence[np.ndarray]) -> None:
        self.means = means
        self.used = means.scale > 0
        self.centre = means.x.mean(axis=0)
        self._unit = np.where(self.used, means.scale, 1.0)
        n_bots = len(means.bots)
        self._columns = [columns[self.used[columns]] for columns in blocks]
        z = self._standard(means.x)
        self._z = [z[:, columns] for columns in self._columns]
        squares = np.array([float((part**2).sum()) for part in self._z])
        self._factor = np.divide(n_bots, squares, out=np.zeros(len(squares)), where=squares > 0)
        kernels = np.stack([factor * part @ part.T for factor, part in zip(self._factor, self._z, strict=True)])
        # A block without variance explains nothing, so its tau stays 0.
        self.taus = np.array(
            list(product(*[BLOCK_VARIANCE_GRID if factor > 0 else (0.0,) for factor in self._factor]))
        )  # (A, B)
        self._thetas = np.array(RESIDUAL_VARIANCE_GRID)
        shared = np.tensordot(self.taus, kernels, 1) + means.noise
        values, self._vectors = np.linalg.eigh(shared)  # (A, K), (A, K, K)
        values = np.clip(values, 0.0, None)[:, None, :] + self._thetas[:, None]  # (A, H, K)
        self._inverse = 1 / values
        self._ones = self._vectors.sum(axis=1)  # (A, K)
        self._information = np.einsum("ai,ahi->ah", self._ones**2, self._inverse)  # 1ᵀV⁻¹1
        self._constant = -0.5 * (np.log(values).sum(axis=2) + np.log(self._information))
        self.total = self._thetas + self.taus.sum(axis=1)[:, None]  # (A, H)
        self._prior = -np.log(self.total) - 0.5 * (np.log(self.total / PRIOR_MEDIAN) / PRIOR_SIGMA) ** 2

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return (x - self.centre) / self._unit

    def posterior(self, ratings: np.ndarray, *, flat: bool = False) -> Posterior:
        """Compute the grid's posterior weights for each vector of mean ratings.

        Args:
            ratings: (P, K).
            flat: True for equal prior mass at all points instead of the log-normal density.
        """
        turned = np.einsum("pk,aki->api", ratings, self._vectors, optimize=True)
        crossed = self._crossed(turned, self._ones)  # 1ᵀV⁻¹m
        mu = crossed / self._information[:, None]
        squared = turned**2 @ self._inverse.swapaxes(1, 2) - crossed * mu
        log = self._constant[:, None] - 0.5 * squared / self.means.variance
        if not flat:
            log = log + self._prior[:, None]
        weights = np.exp(log - log.max(axis=(0, 2), keepdims=True))
        return Posterior(weights / weights.sum(axis=(0, 2), keepdims=True), mu, turned)

    def _crossed(self, turned: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Return aᵀV⁻¹m, (A, P, H), for vectors m and one a per tau.

        All vectors are in the eigenbasis.

        Args:
            turned: (A, P, K).
            along: (A, K).
        """
        # Scale the smaller factor, because there are many more vectors than values of theta.
        return np.asarray(turned @ (along[:, :, None] * self._inverse.swapaxes(1, 2)))

    def kernel(self, x: np.ndarray) -> np.ndarray:
        """Return k_b(x), (B, K), for another bot's (p,) mean features.

        Centre, scale and trace are those of this fold.
        """
        z = self._standard(x)
        return np.stack(
            [
                factor * part @ z[columns]
                for factor, part, columns in zip(self._factor, self._z, self._columns, strict=True)
            ]
        )

    def _project(self, x: np.ndarray, shared: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return kᵀ in the eigenbasis, 1ᵀV⁻¹k and the noise-free variance.

        Shapes are (A, K), (A, H) and (A, H).

        The variance is in units of s², given mu: theta + Σ tau k_b(x, x) − kᵀV⁻¹k.

        Args:
            x: (p,) mean features of another bot.
            shared: (K,) covariance of its rating's noise with that of these bots, to be added to k.
        """
        z = self._standard(x)
        kernel_diagonal = np.array(
            [
                factor * float(z[columns] @ z[columns])
                for factor, columns in zip(self._factor, self._columns, strict=True)
            ]
        )
        k = self.taus @ self.kernel(x)
        if shared is not None:
            k = k + shared
        turned = np.einsum("ak,aki->ai", k, self._vectors)
        projected_ones = np.einsum("ai,ahi->ah", turned * self._ones, self._inverse)
        variance = self._thetas + (self.taus @ kernel_diagonal)[:, None]
        return turned, projected_ones, variance - np.einsum("ai,ahi->ah", turned**2, self._inverse)

    def mu_with(
        self, posterior: Posterior, x: np.ndarray, rating: np.ndarray, noise: float, shared: np.ndarray
    ) -> np.ndarray:
        """Return mu with one more bot, (A, P, H), keeping the grid weights.

        Args:
            x: (p,) mean features of that bot.
            rating: (P,) its mean ratings.
            noise: error variance of these ratings.
            shared: (K,) error covariance with the other bots' ratings; in units of s².
        """
        turned, projected_ones, variance = self._project(x, shared)
        error = rating[:, None] - self._crossed(posterior.turned, turned)
        rest = variance + noise
        free = 1 - projected_ones
        crossed = posterior.mu * self._information[:, None] + (free / rest)[:, None] * error
        return np.asarray(crossed / (self._information + free**2 / rest)[:, None])

    def noise_at(self, posterior: Posterior, x: np.ndarray, noise: float, shared: np.ndarray) -> Noise:
        """Return the error of another bot's mean rating at each grid point.

        It is conditional on the mean ratings of these bots.

        Ratings by raters who also rated these bots share part of their error. With n the shared covariance the noise
        has the mean nᵀV⁻¹(m − mu 1), the variance N − nᵀV⁻¹n and the covariance −kᵀV⁻¹n with the error in the
        prediction of the bot's true mean, each with its share of the variance of mu.

        Args:
            x: (p,) mean features of that bot.
            noise, shared: as for `mu_with`.
        """
        turned, projected_ones, _ = self._project(x)
        along = np.einsum("k,aki->ai", shared, self._vectors)
        crossed = np.einsum("ai,ahi->ah", along * self._ones, self._inverse)
        s2 = self.means.variance
        variance = noise - np.einsum("ai,ahi->ah", along**2, self._inverse)
        variance = s2 * (variance + crossed**2 / self._information)
        covariance = -np.einsum("ai,ahi->ah", turned * along, self._inverse)
        covariance = s2 * (covariance - (1 - projected_ones) * crossed / self._information)
        mean = self._crossed(posterior.turned, along)
        mean = (mean - posterior.mu * crossed[:, None]).swapaxes(0, 1)
        return Noise(mean.reshape(len(mean), -1), variance.reshape(1, -1), covariance.reshape(1, -1))

    def answers(self, posterior: Posterior, mu: np.ndarray | None = None) -> ProcessPredictions:
        """Average predictions over the grid.

        Args:
            mu: (A, P, H); None: the value for these bots.
        """
        mu = posterior.mu if mu is None else mu
        weighted = posterior.weights * mu
        rest = posterior.turned * (posterior.weights @ self._inverse) - self._ones[:, None] * (
            weighted @ self._inverse
        )  # (A, P, K): Σ_theta w V⁻¹(m − mu 1), in the eigenbasis
        by_block = np.einsum("ab,aki->aibk", self.taus, self._vectors)
        n_grid, n_vectors, n_bots = rest.shape
        duals = rest.swapaxes(0, 1).reshape(n_vectors, n_grid * n_bots) @ by_block.reshape(n_grid * n_bots, -1)
        return ProcessPredictions(weighted.sum(axis=(0, 2)), duals.reshape(n_vectors, len(self._factor), n_bots))

    def predicted(self, posterior: Posterior, x: np.ndarray, mus: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return a bot's (P,) predictions for each mu, without the duals."""
        turned, projected_ones, _ = self._project(x)
        crossed = self._crossed(posterior.turned, turned)
        free = (1 - projected_ones)[:, None]
        return [np.einsum("aph,aph->p", posterior.weights, mu * free + crossed) for mu in mus]

    def line(self, answers: ProcessPredictions, n: int, names: Sequence[str]) -> LinearPredictor:
        """Return the first vector's prediction as a line in raw units.

        The line also predicts single conversations.

        Args:
            n: number of conversations of the bots.
            names: names of the blocks.
        """
        slopes = np.zeros(len(self.centre))
        for factor, part, columns, dual in zip(self._factor, self._z, self._columns, answers.duals[0], strict=True):
            slopes[columns] += factor * (dual @ part) / self._unit[columns]
        intercept = float(answers.level[0] - self.centre @ slopes)
        return LinearPredictor(intercept, slopes, self.used, n, None, None, tuple(names))

    def expected(self, posterior: Posterior, x: np.ndarray) -> Mixture:
        """Return P mixtures for the true mean of a bot's (p,) features.

        Each component's variance includes the uncertainty of mu.
        """
        turned, projected_ones, variance = self._project(x)
        free = 1 - projected_ones
        within = self.means.variance * (variance + free**2 / self._information)  # (A, H)
        crossed = self._crossed(posterior.turned, turned)
        mean = (posterior.mu * free[:, None] + crossed).swapaxes(0, 1)  # (P, A, H)
        n_vectors = len(mean)
        return Mixture(
            posterior.weights.swapaxes(0, 1).reshape(n_vectors, -1),
            mean.reshape(n_vectors, -1),
            np.tile(within.ravel(), (n_vectors, 1)),
        )

    def shares(self, posterior: Posterior) -> np.ndarray:
        """Return each block's share of between-bot variance, (B,).

        Averaged over the grid.
        """
        weights = posterior.weights[:, 0]
        return np.asarray((weights / self.total).sum(axis=1) @ self.taus)
