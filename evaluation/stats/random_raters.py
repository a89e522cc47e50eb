"""The restricted likelihood of ratings whose raters are a random effect, as a function of the raters' share alone.

rating = bot + rater + error. With one random effect the likelihood needs sums per rater and bot only, so the optimum
is found exactly, in one dimension, for any number of ratings.
"""

from __future__ import annotations

import numpy as np

TOP = 1 - 1e-7
"""The largest share of the raters that is tried."""


class Likelihood:
    """Restricted likelihood as a function of the raters' share, from sums per rater and bot.

    With θ = rater variance / error variance, a rater with m ratings has V⁻¹ = I − θ/(1 + mθ) · 11ᵀ.
    """

    def __init__(
        self, y: np.ndarray, bot: np.ndarray, rater: np.ndarray, n_bots: int, n_raters: int
    ) -> None:
        self.n, self.n_bots = len(y), n_bots
        self.centre = float(y.mean())
        y = y - self.centre
        self.counts = np.zeros((n_raters, n_bots))
        np.add.at(self.counts, (rater, bot), 1.0)
        self.size = self.counts.sum(axis=1)
        self.sums = np.bincount(rater, weights=y, minlength=n_raters)
        self.by_bot = np.bincount(bot, weights=y, minlength=n_bots)
        self.squares = float(y @ y)

    def _parts(self, share: float) -> tuple[np.ndarray, np.ndarray, float, float]:
        ratio = share / (1 - share)
        c = ratio / (1 + self.size * ratio)
        normal = np.diag(self.counts.sum(axis=0)) - self.counts.T @ (c[:, None] * self.counts)
        right = self.by_bot - self.counts.T @ (c * self.sums)
        solution = np.linalg.solve(normal, right)
        rest = self.squares - float(c @ self.sums**2) - float(solution @ right)
        return normal, solution, max(rest, 0.0), float(np.log1p(self.size * ratio).sum())

    def no_error(self) -> bool:
        """Tell whether bots and raters explain everything, so that no error is left."""
        return self._parts(TOP)[2] <= 1e-12 * max(self.squares, 1e-300)

    def minus_twice_log(self, share: float) -> float:
        """Return −2 log restricted likelihood up to a constant, the error variance profiled out."""
        normal, _, rest, log_v = self._parts(share)
        return (self.n - self.n_bots) * np.log(rest) + log_v + float(np.linalg.slogdet(normal)[1])

    def means(self, share: float) -> np.ndarray:
        """Return the bots' means: (n_bots,)."""
        return self._parts(share)[1] + self.centre

    def solve(self, share: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the bots' means, their covariance, and the error variance."""
        normal, solution, rest, _ = self._parts(share)
        variance = rest / (self.n - self.n_bots)
        return solution + self.centre, variance * np.linalg.inv(normal), variance


def most_likely_share(likelihood: Likelihood) -> tuple[float, float]:
    """Return the raters' share of the variance, and −2 log likelihood there."""
    from scipy import optimize

    grid = np.concatenate([[0.0], np.linspace(0.02, 0.98, 25), [0.995, 0.999, TOP]])
    values = [likelihood.minus_twice_log(share) for share in grid]
    best = int(np.argmin(values))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(
        likelihood.minus_twice_log, bounds=around, method="bounded", options={"xatol": 1e-10}
    )
    share, least = float(found.x), float(found.fun)
    return (share, least) if values[best] > least else (float(grid[best]), values[best])


def rater_share(likelihood: Likelihood, level: float) -> tuple[float, float, float]:
    """Return the raters' share of the variance and its profile likelihood interval."""
    from scipy import optimize, stats

    share, least = most_likely_share(likelihood)
    target = least + float(stats.chi2.ppf(level, 1))

    def above(at: float) -> float:
        return likelihood.minus_twice_log(at) - target

    low = 0.0 if above(0.0) <= 0 else float(optimize.brentq(above, 0.0, share))
    high = 1.0 if above(TOP) <= 0 else float(optimize.brentq(above, share, TOP))
    return share, low, high
