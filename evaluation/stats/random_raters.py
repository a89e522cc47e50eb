"""The restricted likelihood of ratings whose raters are a random effect, as a function of the raters' share alone.

rating = bot + rater + error. With one random effect the likelihood needs sums per rater and bot only, so the optimum
is found exactly, in one dimension, for any number of ratings.
"""

from __future__ import annotations

import numpy as np

TOP = 1 - 1e-7
"""The largest share of the raters that is tried."""
_SHARES = (np.arange(30) + 0.5) / 30
"""Over which means are averaged."""


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

    def unexplained(self, share: float) -> float:
        """Return the sum of squares that the bots leave, weighed by this share; near 1 what bots and raters leave."""
        return self._parts(share)[2]

    def freedoms(self) -> tuple[int, int]:
        """Return the degrees of freedom of what raters explain beyond the bots, and of what neither explains."""
        from scipy.sparse.csgraph import connected_components

        # Bots with a common rater are joined; each part without a link to others costs the raters one degree.
        n_parts = int(connected_components(self.counts.T @ self.counts > 0)[0])
        n_raters = len(self.size)
        return n_raters - n_parts, self.n - n_raters - self.n_bots + n_parts

    def no_error(self) -> bool:
        """Return True if bots and raters explain everything, so that no error is left."""
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


def left_open(likelihood: Likelihood, means: np.ndarray) -> np.ndarray:
    """Return the (K, K) covariance that uncertainty about the raters' share of the variance adds to bots' means.

    Means by other shares are weighed by the restricted likelihood, all shares being as good beforehand: what Kackar
    and Harville (1984, Journal of the American Statistical Association 79) add to the variance, without their
    expansion, which fails where the most likely share is 0. Where every rater rates every bot equally often, no mean
    depends on the share, and nothing is added.

    Args:
        means: (K,) by the share that is used.
    """
    log = np.array([likelihood.minus_twice_log(share) for share in _SHARES])
    weights = np.exp((log.min() - log) / 2)
    apart = np.array([likelihood.means(share) for share in _SHARES]) - means
    return np.asarray((apart * (weights / weights.sum())[:, None]).T @ apart)


def rater_share(likelihood: Likelihood, level: float) -> tuple[float, float, float]:
    """Return the raters' most likely share of the variance and its interval, which is exact under normal ratings.

    Wald (1947, Annals of Mathematical Statistics 18; Seely and El-Bassiouni 1983 with fixed effects): with theta the
    true ratio of the variances, what raters explain beyond the bots, weighed by theta, and what neither explains are
    independent, so that their ratio F(theta) has the F distribution, however unequally people rate. All ratios are
    kept whose F(theta) lies between its quantiles. Where raters differ by less than chance alone would make them,
    they count as differing by just as much: the test of a ratio by that estimate, which cannot fall below 0. So the
    interval is never empty.
    """
    from scipy import optimize, stats

    share, _least = most_likely_share(likelihood)
    raters, rest = likelihood.freedoms()
    error = likelihood.unexplained(TOP)

    def f(at: float) -> float:
        return max(likelihood.unexplained(at) - error, 0.0) / raters / (error / rest)

    at_none = f(0.0) if raters else 0.0
    if not at_none:
        return share, 0.0, 1.0  # nothing tells raters and chance apart

    def end(quantile: float, known: float) -> float:
        if known <= quantile:
            return 0.0
        return float(optimize.brentq(lambda at: f(at) / at_none * known - quantile, 0.0, TOP))

    below, above = stats.f.ppf([0.5 - level / 2, 0.5 + level / 2], raters, rest)
    low, high = end(float(above), at_none), end(float(below), max(at_none, 1.0))
    # The most likely share weighs the ratings otherwise, so that it may lie a little outside.
    return share, min(low, share), max(high, share)
