"""Generalised least squares: bots' means with raters as a random effect.

The model of rater g's rating of bot b is y = mu_b + u_g + e, with Var(u) = tau² and Var(e) = sigma². With theta = tau²
/ sigma² (restricted maximum likelihood), X the bots' columns and W = V⁻¹,

    m = M Xᵀ W y,  M = (Xᵀ W X)⁻¹.

The model determines only the weights. The standard errors are valid for any covariance within raters and for bots with
different variances: they are cluster-robust of type CR2 (Bell & McCaffrey, 2002, Survey Methodology 28; Pustejovsky &
Tipton, 2018, Journal of Business & Economic Statistics 36),

    Cov(m) = M (sum_g X_gᵀ W_g A_g e_g e_gᵀ A_gᵀ W_g X_g) Mᵀ,
    A_g = D_g (D_g (V_g − X_g M X_gᵀ) D_g)^{+1/2} D_g,  D_g² = V_g,

which is unbiased if the working model is correct, even for bots with few raters. The variance due to the estimation of
theta is added (`left_open`): a few raters of two bots each determine theta poorly, and without this term 90 % intervals
cover 88 %. A difference is tested by Student's t with Satterthwaite's degrees of freedom, df = 2 E(v)² / Var(v) of its
estimated variance v for normal ratings with a variance per bot. If every rating has a different rater, this is exactly
Welch's test; if all raters rate both bots once, exactly the paired t-test (checked by tests). statsmodels' clustered
covariance reproduces neither, because its correction factor is the same for all pairs and too small for a bot with few
raters; otherwise tests compare the sums below with it.

A rater's ratings of a bot enter as their mean, so no array is larger than raters × bots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evaluation.stats.constants import MOST_NUMBERS

TOP = 1 - 1e-7
"""Maximum raters' share of the variance in the search."""
_SHARES = (np.arange(30) + 0.5) / 30
"""Grid of shares over which means are averaged."""


class Likelihood:
    """Restricted likelihood as a function of the raters' variance share.

    It is computed from sums per rater and bot. With θ = rater variance / error variance, a rater with m ratings has V⁻¹
    = I − θ/(1 + mθ) · 11ᵀ.
    """

    def __init__(self, y: np.ndarray, bot: np.ndarray, rater: np.ndarray, n_bots: int, n_raters: int) -> None:
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
        """Return the bots' residual sum of squares under this share.

        Near 1 it is that of bots and raters.
        """
        return self._parts(share)[2]

    def freedoms(self) -> tuple[int, int]:
        """Return the degrees of freedom of raters beyond bots, and residual ones."""
        from scipy.sparse.csgraph import connected_components

        # Each connected component of bots and raters costs the raters one degree of freedom.
        n_parts = int(connected_components(self.counts.T @ self.counts > 0)[0])
        n_raters = len(self.size)
        return n_raters - n_parts, self.n - n_raters - self.n_bots + n_parts

    def no_error(self) -> bool:
        """Return True if bots and raters explain everything, leaving no error."""
        return self._parts(TOP)[2] <= 1e-12 * max(self.squares, 1e-300)

    def minus_twice_log(self, share: float) -> float:
        """Return −2 log restricted likelihood up to a constant.

        The error variance is profiled out.
        """
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
    """Return the raters' most likely variance share, and its −2 log likelihood."""
    from scipy import optimize

    grid = np.concatenate([[0.0], np.linspace(0.02, 0.98, 25), [0.995, 0.999, TOP]])
    values = [likelihood.minus_twice_log(share) for share in grid]
    best = int(np.argmin(values))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    optimum = optimize.minimize_scalar(
        likelihood.minus_twice_log, bounds=around, method="bounded", options={"xatol": 1e-10}
    )
    share, least = float(optimum.x), float(optimum.fun)
    return (share, least) if values[best] > least else (float(grid[best]), values[best])


def left_open(likelihood: Likelihood, means: np.ndarray) -> np.ndarray:
    """Return the (K, K) covariance due to estimating the raters' share.

    The means under other shares are averaged with the restricted likelihood as weight and a uniform prior. This is the
    term of Kackar and Harville (1984, Journal of the American Statistical Association 79) without their expansion,
    which fails if the most likely share is 0. If every rater rates every bot equally often, the means do not depend on
    the share and the term is 0.

    Args:
        means: (K,) means under the estimated share.
    """
    log = np.array([likelihood.minus_twice_log(share) for share in _SHARES])
    weights = np.exp((log.min() - log) / 2)
    apart = np.array([likelihood.means(share) for share in _SHARES]) - means
    return np.asarray((apart * (weights / weights.sum())[:, None]).T @ apart)


def rater_share(likelihood: Likelihood, level: float) -> tuple[float, float, float]:
    """Return the raters' most likely share of the variance, with its interval.

    The interval is exact for normal ratings.

    Wald (1947, Annals of Mathematical Statistics 18; Seely and El-Bassiouni 1983 with fixed effects): with theta the
    true ratio of the variances, the sum of squares explained by raters beyond bots, weighted by theta, is independent
    of the residual one, so their ratio F(theta) has the F distribution for any design. The interval contains all ratios
    whose F(theta) is between its quantiles. If raters differ by less than expected by chance, the estimated ratio is
    truncated at 0, so the interval is never empty.
    """
    from scipy import optimize, stats

    share, _least = most_likely_share(likelihood)
    raters, rest = likelihood.freedoms()
    error = likelihood.unexplained(TOP)

    def f(share: float) -> float:
        return max(likelihood.unexplained(share) - error, 0.0) / raters / (error / rest)

    at_none = f(0.0) if raters else 0.0
    if not at_none:
        return share, 0.0, 1.0  # raters and error cannot be separated

    def end(quantile: float, known: float) -> float:
        if known <= quantile:
            return 0.0
        return float(optimize.brentq(lambda share: f(share) / at_none * known - quantile, 0.0, TOP))

    below, above = stats.f.ppf([0.5 - level / 2, 0.5 + level / 2], raters, rest)
    low, high = end(float(above), at_none), end(float(below), max(at_none, 1.0))
    # The most likely share uses other weights, so it can be slightly outside the interval.
    return share, min(low, share), max(high, share)


MOST_SHARE = 0.999
"""Maximum share of variance between raters; a larger one changes no weight but costs precision."""
_NONE = 1e-9
"""Share of a cluster's variance below which a remainder counts as 0."""
_NO_ERROR = 1e-7
"""Standard errors below this share of the ratings are rounding errors."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Difference of two bots' means, or another weighted sum of them.

    Attributes:
        difference: the sum, in points.
        error: its standard error, 0 where nothing varies.
        df: degrees of freedom.
    """

    difference: float
    error: float
    df: float


@dataclass(frozen=True, eq=False)
class RaterGls:
    """The fit.

    Attributes:
        means: (K,) means for the average rater.
        bot, rater: (k,) codes of the ratings.
        apart: (k,) deviation of each rating from its bot's mean.
        counts: (G, K) number of ratings of each bot by each rater.
        share: share of the variance around the bot means that is due to raters (0 … 1).
        unsure: (K, K) additional covariance because the share is estimated; None if it is not.
    """

    means: np.ndarray
    bot: np.ndarray
    rater: np.ndarray
    apart: np.ndarray
    counts: np.ndarray
    share: float
    unsure: np.ndarray | None = None

    @cached_property
    def _c(self) -> np.ndarray:
        """(G,) c_g of W_g = I − c_g 11ᵀ, in error variances."""
        ratio = self.share / (1 - self.share)
        return ratio / (1 + self.counts.sum(axis=1) * ratio)

    @cached_property
    def _m(self) -> np.ndarray:
        """(K, K) M, in units of the error's variance."""
        inner = self.counts.T @ (self._c[:, None] * self.counts)
        return np.linalg.inv(np.diag(self.counts.sum(axis=0)) - inner)

    @cached_property
    def n_raters(self) -> np.ndarray:
        """(K,) number of raters of each bot."""
        return (self.counts > 0).sum(axis=0)

    @cached_property
    def influence(self) -> np.ndarray:
        """(k, K) contribution of each rating's residual to each mean.

        It is the row of M Xᵀ W times the residual.
        """
        of_rater = self._c[:, None] * (self.counts @ self._m)
        return (self._m[self.bot] - of_rater[self.rater]) * self.apart[:, None]

    @cached_property
    def _patterns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return distinct rows of `counts` with raters' rows and frequencies.

        The shapes are (U, K), (G,) and (U,).
        """
        rows, which, n = np.unique(self.counts, axis=0, return_inverse=True, return_counts=True)
        return rows, which.reshape(-1), n

    @cached_property
    def _transforms(self) -> np.ndarray:
        """(U, K, K) Xᵀ W A of every pattern.

        It applies to the means of a rater's ratings of each bot times √n.
        """
        rows, _which, _n = self._patterns
        step = max(1, MOST_NUMBERS // rows.shape[1] ** 2)
        parts = [self._transform(rows[start : start + step]) for start in range(0, len(rows), step)]
        return np.concatenate(parts)

    def _transform(self, rows: np.ndarray) -> np.ndarray:
        s = np.sqrt(rows)
        size = rows.sum(axis=1)
        ratio = self.share / (1 - self.share)
        identity = np.eye(rows.shape[1])
        outer = s[:, :, None] * s[:, None, :]
        root = identity + ((np.sqrt(1 + ratio * size) - 1) / size)[:, None, None] * outer
        inner = root @ (identity + ratio * outer - outer * self._m) @ root
        values, vectors = np.linalg.eigh(inner)
        is_positive = values > _NONE * values.max(axis=1, keepdims=True)
        power = np.where(is_positive, 1 / np.sqrt(np.where(is_positive, values, 1.0)), 0.0)
        adjust = root @ (vectors * power[:, None, :]) @ np.swapaxes(vectors, 1, 2) @ root
        weight = identity - (ratio / (1 + ratio * size))[:, None, None] * outer
        return s[:, :, None] * (weight @ adjust)

    @cached_property
    def covariance(self) -> np.ndarray:
        """(K, K) covariance of the means: CR2 plus the estimated share's part."""
        rows, which, _n = self._patterns
        total = np.zeros_like(self.counts)
        np.add.at(total, (self.rater, self.bot), self.apart)
        roots = np.sqrt(rows[which])
        reduced = np.divide(total, roots, out=np.zeros_like(total), where=roots > 0)
        # Sort by pattern, so that raters with the same pattern share one product.
        scores = np.empty_like(reduced)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(rows) + 1))
        if len(rows) * 4 < len(which):
            for u in range(len(rows)):
                members = order[ends[u] : ends[u + 1]]
                scores[members] = reduced[members] @ self._transforms[u].T
        else:
            scores = np.einsum("gij,gj->gi", self._transforms[which], reduced)
        scores = scores @ self._m
        covariance = scores.T @ scores
        return covariance if self.unsure is None else covariance + self.unsure

    @cached_property
    def borrowed(self) -> np.ndarray:
        """(K,) borrowed variance of means whose ratings are all equal, otherwise 0.

        Equal ratings of a few raters do not make a mean certain: its own estimated variance is 0.
        """
        n = np.bincount(self.bot, minlength=len(self.means))
        low, high = np.full(len(n), np.inf), np.full(len(n), -np.inf)
        np.minimum.at(low, self.bot, self.apart)
        np.maximum.at(high, self.bot, self.apart)
        is_constant = high - low <= 1e-12
        free = (n - 1)[~is_constant].sum()
        squares = float((self.apart[~is_constant[self.bot]] ** 2).sum())
        return np.where(is_constant, squares / max(free, 1) / np.maximum(self.n_raters, 1), 0.0)

    def borrow(self, gap: Gap, weights: np.ndarray) -> Gap:
        """Add the borrowed variance to a sum of means.

        A sum without any estimated variance is unchanged; the caller reports that nothing varies.

        Args:
            gap: the sum.
            weights: (K,) of the means in it.
        """
        added = float(weights**2 @ self.borrowed)
        return replace(gap, error=float(np.hypot(gap.error, np.sqrt(added)))) if gap.error and added else gap

    @cached_property
    def spread(self) -> tuple[float, np.ndarray]:
        """Return tau² and each bot's own error variance, (K,).

        They are used for degrees of freedom.
        """
        n = np.bincount(self.bot, minlength=len(self.means)).astype(float)
        squares = np.bincount(self.bot, self.apart**2, minlength=len(self.means))
        within = squares / np.maximum(n - 1, 1)
        between = self.share * float(squares.sum() / max(n.sum() - len(n), 1.0))
        return between, np.maximum(within - between, 0.05 * within)

    def gap(self, i: int, j: int) -> Gap:
        """Return the difference of two bots' means, i minus j.

        With its error and degrees of freedom.
        """
        contrast = np.zeros(len(self.means))
        contrast[i], contrast[j] = 1.0, -1.0
        return self.combined(contrast)

    def combined(self, weights: np.ndarray) -> Gap:
        """Return a weighted sum of the bots' means, with weights (K,).

        With its error and degrees of freedom.
        """
        variance = float(weights @ self.covariance @ weights)
        known = float(np.abs(self.means).max()) + float(np.abs(self.apart).max(initial=0.0))
        error = float(np.sqrt(max(variance, 0.0)))
        value = float(weights @ self.means)
        if error <= _NO_ERROR * max(known, 1e-300):
            return Gap(value, 0.0, float("inf"))
        return Gap(value, error, self._freedom(weights))

    def _freedom(self, contrast: np.ndarray) -> float:
        """Return Satterthwaite's degrees of freedom of the variance of a contrast.

        The variance is the sum of (p_gᵀ y)² over raters. With Phi the ratings' covariance and Q = (p_gᵀ Phi p_h), df
        is trace(Q)² / sum(Q²). Q is a diagonal d plus U Zᵀ + Z Uᵀ, with K columns each, so no matrix of raters is made.
        """
        between, residual = self.spread
        rows, _which, n = self._patterns
        s = np.sqrt(rows)
        a = np.einsum("uij,i->uj", self._transforms, self._m @ contrast)
        along = (a * s).sum(axis=1)  # aᵀ 1, for the rater's effect
        size = rows.sum(axis=1)
        ratio = self.share / (1 - self.share)
        c = ratio / (1 + ratio * size)
        d = (a**2 * residual).sum(axis=1) + between * along**2
        u = a * s
        # Phi a, then W Phi a, then M Xᵀ W Phi a.
        spread = a * residual + between * along[:, None] * s
        weighed = spread - (c * (spread * s).sum(axis=1))[:, None] * s
        v = (weighed * s) @ self._m
        z = u @ self._meat / 2 - v
        corner = d + 2 * (u * z).sum(axis=1)
        times = n[:, None] * z
        cross = times.T @ u
        total = float(n @ corner)
        squares = float(
            n @ (d**2 + 4 * d * (u * z).sum(axis=1))
            + 2 * (cross * cross.T).sum()
            + 2 * ((u.T @ (n[:, None] * u)) * (z.T @ times)).sum()
        )
        return total**2 / squares if squares > 0 else float("inf")

    @cached_property
    def _meat(self) -> np.ndarray:
        """(K, K) M Xᵀ W Phi W X M: covariance of the means under `spread`."""
        between, residual = self.spread
        rows, _which, n = self._patterns
        size = rows.sum(axis=1)
        ratio = self.share / (1 - self.share)
        c = ratio / (1 + ratio * size)
        # W X = X − c 1 nᵀ; Phi = diag(residual) + between 11ᵀ.
        remainder = 1 - c * size
        inner = np.diag((n @ rows) * residual)
        crossed = rows.T @ ((n * c)[:, None] * (rows * residual))
        inner = inner - crossed - crossed.T
        inner = inner + rows.T @ ((n * (c**2 * (rows @ residual) + between * remainder**2))[:, None] * rows)
        return self._m @ inner @ self._m


def fit_gls(y: np.ndarray, bot: np.ndarray, rater: np.ndarray) -> RaterGls:
    """Fit the bots' means.

    Args:
        y: (k,) finite ratings.
        bot, rater: (k,) codes 0 … K − 1 and 0 … G − 1; each code occurs.

    Raises:
        ValueError: if there are no ratings.
    """
    if not len(y):
        raise ValueError("there are no ratings to fit")
    n_bots, n_raters = int(bot.max()) + 1, int(rater.max()) + 1
    likelihood = Likelihood(y, bot, rater, n_bots, n_raters)
    share, is_estimated = 0.0, False
    if n_bots > 1 and n_raters < len(y) and len(y) > n_bots:
        nothing = likelihood.no_error()
        share = MOST_SHARE if nothing else min(most_likely_share(likelihood)[0], MOST_SHARE)
        is_estimated = not nothing
    means = likelihood.means(share)
    unsure = left_open(likelihood, means) if is_estimated else None
    return RaterGls(means, bot, rater, y - means[bot], likelihood.counts, share, unsure)


def label_codes(labels: Sequence[object] | np.ndarray) -> np.ndarray:
    """Return the position of each label among the sorted distinct labels: (k,)."""
    return np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)
