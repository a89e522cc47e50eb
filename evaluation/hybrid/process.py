"""A Gaussian process over bots with known noise: mean ratings on a few blocks of mean features.

Equations (3) and (4) of the preset `strong`, version 3; Rasmussen and Williams (2006), chapters 2 and 5, and for the
flat mean section 2.7. With X_b the bots' means of the columns of block b, centred, in within-bot standard deviations:

    K_b = (K / tr(X_b X_bᵀ)) X_b X_bᵀ
    m ~ N(mu 1, s² V),  V = theta I + Σ_b tau_b K_b + N,  mu flat

with s² N the covariance of how far the mean ratings are off (`adjusted`); diagonal where raters have no name.

theta and tau run over a grid. Its points are weighted, never picked: by the restricted likelihood

    log L = −½ (log |V| + log 1ᵀV⁻¹1 + (m − mu 1)ᵀ V⁻¹ (m − mu 1) / s²),  mu = 1ᵀV⁻¹m / 1ᵀV⁻¹1

times a prior density of theta + Σ tau. Everything about many vectors m (those of a permutation null) is computed at
once: grid points with the same tau share one eigendecomposition, theta only shifts its eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from evaluation.hybrid.leastsquares import Line
from evaluation.hybrid.means import BotMeans
from evaluation.hybrid.mixture import Mixture, Noise

THETAS = (0.002, 0.01, 0.04, 0.15, 0.5)
"""Variance between bots that no feature explains, in units of that of a rating."""
TAUS = (0.0, 0.01, 0.05, 0.2, 0.8)
"""Variance between bots that a block explains, in the same units."""
PRIOR_MEDIAN, PRIOR_SIGMA = 0.05, 1.5
"""Of the log-normal density of the whole variance between bots."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior on the grid of A tau and H theta, given P vectors of mean ratings.

    Attributes:
        weights: (A, P, H), summing to 1 for each vector.
        mu: (A, P, H).
        turned: (A, P, K) the vectors along the eigenvectors.
    """

    weights: np.ndarray
    mu: np.ndarray
    turned: np.ndarray


@dataclass(frozen=True, slots=True)
class Answers:
    """Predictions averaged over the grid: `level + Σ_b k_b(x) · duals_b`, for each of P vectors.

    Attributes:
        level: (P,).
        duals: (P, B, K).
    """

    level: np.ndarray
    duals: np.ndarray


class Process:
    """The process of these bots.

    Args:
        means: of the bots that it learns from.
        blocks: columns of the features, by number, of each block.
    """

    def __init__(self, means: BotMeans, blocks: Sequence[np.ndarray]) -> None:
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
        kernels = np.stack(
            [factor * part @ part.T for factor, part in zip(self._factor, self._z, strict=True)]
        )
        # A block without variance explains nothing, so its tau stays at 0.
        self.taus = np.array(
            list(product(*[TAUS if factor > 0 else (0.0,) for factor in self._factor]))
        )  # (A, B)
        self._thetas = np.array(THETAS)
        shared = np.tensordot(self.taus, kernels, 1) + means.noise
        values, self._vectors = np.linalg.eigh(shared)  # (A, K), (A, K, K)
        values = np.clip(values, 0.0, None)[:, None, :] + self._thetas[:, None]  # (A, H, K)
        self._inverse = 1 / values
        self._ones = self._vectors.sum(axis=1)  # (A, K)
        self._information = np.einsum("ai,ahi->ah", self._ones**2, self._inverse)  # 1ᵀV⁻¹1
        self._constant = -0.5 * (np.log(values).sum(axis=2) + np.log(self._information))
        self.total = self._thetas + self.taus.sum(axis=1)[:, None]  # (A, H)
        self._prior = (
            -np.log(self.total) - 0.5 * (np.log(self.total / PRIOR_MEDIAN) / PRIOR_SIGMA) ** 2
        )

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return (x - self.centre) / self._unit

    def posterior(self, ratings: np.ndarray, *, flat: bool = False) -> Posterior:
        """Weigh the grid by each vector of mean ratings.

        Args:
            ratings: (P, K).
            flat: with points of equal prior mass in place of the log-normal density.
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
        """Return aᵀV⁻¹m of vectors m and a vector a for each tau, both along the eigenvectors, as (A, P, H).

        Args:
            turned: (A, P, K).
            along: (A, K).
        """
        # The smaller factor is scaled: there are many more vectors than values of theta.
        return np.asarray(turned @ (along[:, :, None] * self._inverse.swapaxes(1, 2)))

    def kernel(self, x: np.ndarray) -> np.ndarray:
        """Return k_b(x), (B, K), for the (p,) mean features of another bot; this fold's centre, scale and trace."""
        z = self._standard(x)
        return np.stack(
            [
                factor * part @ z[columns]
                for factor, part, columns in zip(self._factor, self._z, self._columns, strict=True)
            ]
        )

    def _at(
        self, x: np.ndarray, shared: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return kᵀ along the eigenvectors (A, K), 1ᵀV⁻¹k and the variance besides the noise, both (A, H).

        The variance is in units of s², given mu: theta + Σ tau k_b(x, x) − kᵀV⁻¹k.

        Args:
            x: (p,) mean features of another bot.
            shared: (K,) covariance of its rating's noise with that of these bots, to be added to k.
        """
        z = self._standard(x)
        own = np.array(
            [
                factor * float(z[columns] @ z[columns])
                for factor, columns in zip(self._factor, self._columns, strict=True)
            ]
        )
        k = self.taus @ self.kernel(x)
        if shared is not None:
            k = k + shared
        turned = np.einsum("ak,aki->ai", k, self._vectors)
        ones = np.einsum("ai,ahi->ah", turned * self._ones, self._inverse)
        variance = self._thetas + (self.taus @ own)[:, None]
        return turned, ones, variance - np.einsum("ai,ahi->ah", turned**2, self._inverse)

    def mu_with(
        self,
        posterior: Posterior,
        x: np.ndarray,
        rating: np.ndarray,
        noise: float,
        shared: np.ndarray,
    ) -> np.ndarray:
        """Return mu estimated on one more bot too, (A, P, H), its weights on the grid unchanged.

        Args:
            x: (p,) mean features of that bot.
            rating: (P,) its mean ratings.
            noise: variance of how far these are off; shared: (K,) their covariance with those of these bots; in units
                of s².
        """
        turned, ones, variance = self._at(x, shared)
        error = rating[:, None] - self._crossed(posterior.turned, turned)
        rest = variance + noise
        free = 1 - ones
        crossed = posterior.mu * self._information[:, None] + (free / rest)[:, None] * error
        return np.asarray(crossed / (self._information + free**2 / rest)[:, None])

    def noise_at(
        self, posterior: Posterior, x: np.ndarray, noise: float, shared: np.ndarray
    ) -> Noise:
        """Return the error of another bot's mean rating at each grid point, given these bots' mean ratings.

        Ratings by raters who also rated these bots share part of their error. With n the shared covariance the noise
        has the mean nᵀV⁻¹(m − mu 1), the variance N − nᵀV⁻¹n and the covariance −kᵀV⁻¹n with the error in the
        prediction of the bot's true mean, each with its share of the variance of mu.

        Args:
            x: (p,) mean features of that bot.
            noise, shared: as in `mu_with`.
        """
        turned, ones, _ = self._at(x)
        along = np.einsum("k,aki->ai", shared, self._vectors)
        crossed = np.einsum("ai,ahi->ah", along * self._ones, self._inverse)
        s2 = self.means.variance
        variance = noise - np.einsum("ai,ahi->ah", along**2, self._inverse)
        variance = s2 * (variance + crossed**2 / self._information)
        covariance = -np.einsum("ai,ahi->ah", turned * along, self._inverse)
        covariance = s2 * (covariance - (1 - ones) * crossed / self._information)
        mean = self._crossed(posterior.turned, along)
        mean = (mean - posterior.mu * crossed[:, None]).swapaxes(0, 1)
        return Noise(
            mean.reshape(len(mean), -1), variance.reshape(1, -1), covariance.reshape(1, -1)
        )

    def answers(self, posterior: Posterior, mu: np.ndarray | None = None) -> Answers:
        """Average predictions over the grid.

        Args:
            mu: (A, P, H); None: that of these bots.
        """
        mu = posterior.mu if mu is None else mu
        weighted = posterior.weights * mu
        rest = posterior.turned * (posterior.weights @ self._inverse) - self._ones[:, None] * (
            weighted @ self._inverse
        )  # (A, P, K): Σ_theta w V⁻¹(m − mu 1), along the eigenvectors
        by_block = np.einsum("ab,aki->aibk", self.taus, self._vectors)
        n_grid, n_vectors, n_bots = rest.shape
        duals = rest.swapaxes(0, 1).reshape(n_vectors, n_grid * n_bots) @ by_block.reshape(
            n_grid * n_bots, -1
        )
        return Answers(
            weighted.sum(axis=(0, 2)), duals.reshape(n_vectors, len(self._factor), n_bots)
        )

    def predicted(
        self, posterior: Posterior, x: np.ndarray, mus: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return a bot's predictions from its (p,) features, (P,) by each mu, (A, P, H), without the duals."""
        turned, ones, _ = self._at(x)
        crossed = self._crossed(posterior.turned, turned)
        free = (1 - ones)[:, None]
        return [np.einsum("aph,aph->p", posterior.weights, mu * free + crossed) for mu in mus]

    def line(self, answers: Answers, n: int, names: Sequence[str]) -> Line:
        """Return the prediction from the first vector as a line in raw units, for single conversations too.

        Args:
            n: conversations behind the bots.
            names: of the blocks.
        """
        slopes = np.zeros(len(self.centre))
        for factor, part, columns, dual in zip(
            self._factor, self._z, self._columns, answers.duals[0], strict=True
        ):
            slopes[columns] += factor * (dual @ part) / self._unit[columns]
        intercept = float(answers.level[0] - self.centre @ slopes)
        return Line(intercept, slopes, self.used, n, None, None, tuple(names))

    def expected(self, posterior: Posterior, x: np.ndarray) -> Mixture:
        """Return by each vector where the true mean of a bot with these (p,) features is: P mixtures over the grid.

        A component has the variance of its point, that of mu in it.
        """
        turned, ones, variance = self._at(x)
        free = 1 - ones
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
        """Return each block's share of the variance between bots, (B,), averaged over the grid."""
        weights = posterior.weights[:, 0]
        return np.asarray((weights / self.total).sum(axis=1) @ self.taus)
