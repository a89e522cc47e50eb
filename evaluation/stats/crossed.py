"""Models with crossed random effects: linear, and cumulative logit.

The linear model is fitted by restricted likelihood, the logit by Laplace's approximation. Both add to the fixed part X
β the effects of groups (raters, items), Z Λ b, with b ~ N(0, I) and the standard deviations tau_g in Λ; A = I + Λ Zᵀ W
Z Λ.

Linear: y = X β + Z Λ b + e (W = I, tau_g in units of the error's). Given Λ, the restricted likelihood has one maximum
in β and sigma (Bates, Mächler, Bolker and Walker 2015, Journal of Statistical Software 67); the variances tau_g² are
found by its profile. As a function of tau_g the profile is flat at every 0, maximum or not. Degrees of freedom are
Satterthwaite's with the expected information of the variances (Giesbrecht and Burns 1985, Biometrics 41); for several
differences at once, those of Fai and Cornelius (1996).

Cumulative logit: logit P(y ≤ j) = kappa_j − x β − z Λ b. With f the log likelihood minus bᵀ b / 2 and b̂ its mode,

    log L ≈ f(b̂) − ½ log |A|,  W = −∂² log p / ∂eta² at b̂,

the approximation of `clmm` in R's package ordinal (Christensen 2019). Its gradient is exact, including the dependence
of b̂ and W on the parameters; its numerical derivative is the information. Tests are Wald's, by the normal
distribution. `evaluation.stats.ordinal` is the model of bots alone, with errors clustered by rater and no random
effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, sparse, stats
from scipy.special import expit

MOST_EFFECTS = 1500
"""Maximum number of random effects, because the cost is cubic."""
_ALIKE = 1e-4
"""Share of the error's standard deviation below which that of random effects counts as 0."""
_MOST_RATIO = 1e3
"""Maximum ratio of a group's standard deviation to the error's; above it the groups explain everything."""
_START_RATIOS = (1.0, 0.25, 0.04, 0.0025)
"""Starting values of the variance ratio of group and error; the search begins at the likeliest."""
_FLAT = 1e-2
"""Slope of −2 log likelihood per rating below which it counts as 0."""
_MOST_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class CrossedFit:
    """A fit of fixed effects β and of variances.

    Attributes:
        beta, covariance: (p,) and (p, p).
        tau: (G,) standard deviation of each group's effects.
        tau_errors: errors of their logarithms, NaN where tau is 0.
        sigma: standard deviation of the error.
        sigma_error: error of its logarithm. For logistic errors π / √3, without an error.
        log_likelihood: restricted for a linear model.
        thresholds: thresholds of an ordinal model.
        converged: True if the maximum was found.
    """

    beta: np.ndarray
    covariance: np.ndarray
    tau: np.ndarray
    tau_errors: np.ndarray
    sigma: float
    sigma_error: float
    log_likelihood: float
    converged: bool
    thresholds: np.ndarray
    _slopes: tuple[np.ndarray, ...] = ()
    _information: np.ndarray | None = None

    def freedom(self, row: np.ndarray) -> float:
        """Return the degrees of freedom of a weighted sum's variance.

        Weights of β are (p,). Infinite if the variance is known.
        """
        if self._information is None:
            return float("inf")
        gradient = np.array([row @ slope @ row for slope in self._slopes])
        spread = float(gradient @ np.linalg.pinv(self._information, hermitian=True) @ gradient)
        return 2 * float(row @ self.covariance @ row) ** 2 / spread if spread > 0 else float("inf")

    def rating_sd(self) -> tuple[float, float]:
        """Return one rating's standard deviation, and the error of its logarithm.

        The deviation is around the fixed part.

        For an ordinal model the variances are treated as independent.
        """
        total = float((self.tau**2).sum() + self.sigma**2)
        if self._information is None:
            variance = float(np.nansum((2 * self.tau**2 * self.tau_errors) ** 2))
        else:
            variance = float(np.linalg.pinv(self._information).sum())
        return float(np.sqrt(total)), float(np.sqrt(max(variance, 0.0))) / (2 * total)

    def test(self, rows: np.ndarray) -> tuple[float, float | None, float | None]:
        """Return F, its second degrees of freedom and p for contrasts.

        The contrasts (q, p) are all 0 under the hypothesis. Without degrees of freedom the test is chi-squared over q.

        F and p follow Fai and Cornelius; p is None if too few groups leave no degrees of freedom.
        """
        values, vectors = np.linalg.eigh(rows @ self.covariance @ rows.T)
        along, q = vectors.T @ rows, len(rows)
        f = float(((along @ self.beta) ** 2 / values).sum()) / q
        free = np.array([self.freedom(row) for row in along])
        if np.isinf(free).all():
            return f, None, float(stats.chi2.sf(f * q, q))
        if q == 1:
            return f, float(free[0]), float(stats.f.sf(f, 1, free[0]))
        if (free <= 2).any():
            return f, None, None
        mean = float(np.where(np.isinf(free), 1.0, free / (free - 2)).sum())
        df2 = 2 * mean / (mean - q) if mean > q else float("inf")
        return f, df2, float(stats.f.sf(f, q, df2))


def _indicators(groups: Sequence[np.ndarray], n: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return Z, (n, q), and the group of each effect, (q,)."""
    if not groups:
        return sparse.csr_matrix((n, 0)), np.empty(0, dtype=int)
    blocks = [sparse.csr_matrix((np.ones(n), (np.arange(n), codes))) for codes in groups]
    sizes = [block.shape[1] for block in blocks]
    return sparse.hstack(blocks, format="csr"), np.repeat(np.arange(len(blocks)), sizes)


def fit_linear(y: np.ndarray, x: np.ndarray, groups: Sequence[np.ndarray]) -> CrossedFit:
    """Fit a linear mixed model by restricted maximum likelihood.

    Args:
        y: (n,).
        x: (n, p) of full rank, p < n.
        groups: for each random effect, (n,) codes 0 … q_g − 1; without any, this is ordinary least squares.
    """
    n, p = x.shape
    z, effect_group = _indicators(groups, n)
    zz, zx, zy = (z.T @ z).toarray(), z.T @ x, z.T @ y
    xx, xy, yy = x.T @ x, x.T @ y, float(y @ y)

    def solve(ratios: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the profile likelihood and its parts.

        These are −2 log likelihood and its gradient, β with its covariance, ZᵀV⁻¹X and ZᵀPZ. All but the first two are
        in units of the error's variance. The gradient is with respect to the variances; that for a standard deviation
        is 0 wherever it is 0.

        Args:
            ratios: (G,) variances of the groups in units of the error's.
        """
        scale = np.sqrt(ratios)[effect_group]
        factor = linalg.cholesky(
            np.eye(len(effect_group)) + scale[:, None] * zz * scale, lower=True, check_finite=False
        )
        wide = np.hstack([zx, zz])
        half = linalg.solve_triangular(factor, scale[:, None] * wide, lower=True, check_finite=False)
        half_x, half_y = half[:, :p], linalg.solve_triangular(factor, scale * zy, lower=True)
        of_x = linalg.cholesky(xx - half_x.T @ half_x, lower=True)
        unit = linalg.cho_solve((of_x, True), np.eye(p))
        beta = unit @ (xy - half_x.T @ half_y)
        rest = max(yy - float(half_y @ half_y) - float(beta @ (xy - half_x.T @ half_y)), 1e-300)
        inner = wide - half[:, p:].T @ half
        zvx = inner[:, :p]
        zpz = inner[:, p:] - zvx @ unit @ zvx.T
        zpy = zy - half[:, p:].T @ half_y - zvx @ beta
        each = np.diag(zpz) - (n - p) * zpy**2 / rest
        gradient = np.bincount(effect_group, each, len(ratios))
        logs = 2 * float(np.log(np.diag(factor)).sum() + np.log(np.diag(of_x)).sum())
        value = logs + (n - p) * (1 + np.log(2 * np.pi * rest / (n - p)))
        return value, gradient, beta, rest / (n - p) * unit, zvx, zpz

    ratios = np.zeros(len(groups))
    if groups:
        start = min(_START_RATIOS, key=lambda ratio: solve(np.full(len(groups), ratio))[0])

        def scaled(multiples: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = solve(start * multiples)[:2]
            return value, start * gradient

        result = optimize.minimize(
            scaled,
            np.ones(len(groups)),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, _MOST_RATIO**2 / start)] * len(groups),
            options={"ftol": 1e-12, "gtol": 1e-5},
        )
        ratios = np.where(start * result.x < _ALIKE**2, 0.0, start * result.x)
    deviance, gradient, beta, covariance, zvx, zpz = solve(ratios)
    theta = np.sqrt(ratios)
    scale = theta[effect_group]
    apart = y - x @ beta
    shrunk = linalg.solve(
        np.eye(len(effect_group)) + scale[:, None] * zz * scale, scale[:, None] * np.column_stack([zx, z.T @ apart])
    )
    weighed = np.column_stack([x, apart]) - z @ (scale[:, None] * shrunk)
    vx, variance = weighed[:, :p], float(apart @ weighed[:, p]) / (n - p)
    unit = covariance / variance
    # Keep groups with an estimate of 0, because the uncertainty of their variance still limits the degrees of freedom.
    k = len(groups)
    members = [effect_group == g for g in range(k)]
    information, slopes = np.empty((k + 1, k + 1)), []
    squared = zpz @ (scale[:, None] ** 2 * zpz)
    zppz = zpz - squared
    traces = np.array([np.trace(zpz[np.ix_(rows, rows)]) for rows in members])
    twice = np.array([np.trace(zppz[np.ix_(rows, rows)]) for rows in members])
    for g, rows in enumerate(members):
        for h, columns in enumerate(members):
            information[g, h] = (zpz[np.ix_(rows, columns)] ** 2).sum()
        slopes.append(unit @ zvx[rows].T @ zvx[rows] @ unit)
    information[:k, -1] = information[-1, :k] = twice
    information[-1, -1] = n - p - float(theta**2 @ (traces + twice))
    slopes.append(unit @ vx.T @ vx @ unit)
    information /= 2 * variance**2
    spread = np.sqrt(np.maximum(np.diag(np.linalg.pinv(information, hermitian=True)), 0))
    sigma = float(np.sqrt(variance))
    with np.errstate(divide="ignore"):
        errors = np.where(theta > 0, spread[:k] / (2 * variance * theta**2), np.nan)
    # At a variance of 0 the likelihood must not increase with the variance.
    along = np.where(theta > 0, np.abs(2 * theta**2 * gradient), -gradient)
    return CrossedFit(
        beta,
        covariance,
        theta * sigma,
        errors,
        sigma,
        float(spread[-1] / (2 * variance)),
        -deviance / 2,
        bool((along < _FLAT * n).all()) and bool((theta < _MOST_RATIO).all()) and sigma > float(y.std()) / _MOST_RATIO,
        np.empty(0),
        tuple(slopes),
        information,
    )


class _Laplace:
    """Approximate likelihood of a cumulative logit, with its gradient.

    The parameters are the first threshold, the logarithms of the steps to the next ones, β, and the tau_g, whose sign
    has no meaning.
    """

    def __init__(self, point: np.ndarray, x: np.ndarray, groups: Sequence[np.ndarray]) -> None:
        self.point, self.x = point, x
        self.n_cuts = int(point.max())
        self.z, self.of = _indicators(groups, len(point))
        # (G, n) index of each rating's effects in b
        starts = np.cumsum([0, *(int(codes.max()) + 1 for codes in groups)])
        self.places = [codes + start for codes, start in zip(groups, starts, strict=False)]
        self.b = np.zeros(len(self.of))

    def cuts(self, parameters: np.ndarray) -> np.ndarray:
        """Return the thresholds."""
        first, steps = parameters[:1], np.exp(parameters[1 : self.n_cuts])
        return np.cumsum(np.concatenate([first, steps]))

    def _points(self, cuts: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return p and, by threshold, f, f′ and f″ over p.

        First by the upper, then by the lower threshold.
        """
        ends = np.concatenate([[-np.inf], cuts, [np.inf]])
        s, t = ends[self.point + 1] - eta, ends[self.point] - eta
        # Subtracting two numbers near 1 loses precision, so use upper tails there.
        p = np.maximum(np.where(s + t > 0, expit(-t) - expit(-s), expit(s) - expit(t)), 1e-300)
        derivatives = []
        for distance in (s, t):
            low, high = expit(distance), expit(-distance)
            f = low * high
            derivatives += [f / p, f * (high - low) / p, f * (1 - 6 * f) / p]
        return (p, *derivatives)

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log likelihood, and its gradient."""
        with np.errstate(over="ignore", invalid="ignore"):
            cuts = self.cuts(parameters)
        n_cuts, p = self.n_cuts, self.x.shape[1]
        beta, tau = parameters[n_cuts : n_cuts + p], parameters[n_cuts + p :]
        if not np.isfinite(cuts).all() or np.abs(parameters[:1]).max() > 100 or np.abs(parameters[1:]).max() > 50:
            return np.inf, np.zeros(len(parameters))
        scale, fixed = tau[self.of], self.x @ beta
        zs = self.z @ sparse.diags(scale)

        def height(b: np.ndarray) -> float:
            return float(np.log(self._points(cuts, fixed + zs @ b)[0]).sum() - b @ b / 2)

        b, now = self.b, height(self.b)
        for _ in range(_MOST_ROUNDS):
            _prob, a, da, dda, c, dc, ddc = self._points(cuts, fixed + zs @ b)
            slope, weight = c - a, (a - c) ** 2 - (da - dc)
            h = (zs.T @ zs.multiply(weight[:, None])).toarray() + np.eye(len(b))
            factor = linalg.cho_factor(h, lower=True)
            step = linalg.cho_solve(factor, zs.T @ slope - b)
            if np.abs(step).max(initial=0.0) < 1e-9:
                break
            size = 1.0
            while (then := height(b + size * step)) < now - 1e-10 and size > 1e-8:
                size /= 2
            b, now = b + size * step, then
        self.b = b
        value = now - float(np.log(np.diag(factor[0])).sum())

        inverse = linalg.cho_solve(factor, np.eye(len(b)))
        leverage = np.zeros(len(self.point))
        for i in self.places:
            for j in self.places:
                leverage += scale[i] * scale[j] * inverse[i, j]
        gap, bend = a - c, da - dc
        # Derivatives of the slope and the weight by the upper and the lower threshold.
        slope_s, slope_t = a * gap - da, dc - c * gap
        weight_s = -2 * gap * slope_s - (dda - bend * a)
        weight_t = -2 * gap * slope_t + ddc - bend * c
        moved = -leverage * (weight_s + weight_t)
        back = linalg.cho_solve(factor, zs.T @ moved)
        m = zs @ back
        upper = a - (leverage * weight_s + m * slope_s) / 2
        lower = -c - (leverage * weight_t + m * slope_t) / 2
        by_cut = np.bincount(self.point, upper, n_cuts + 1)[:n_cuts] + np.bincount(self.point, lower, n_cuts + 1)[1:]
        steps = np.concatenate([[1.0], np.exp(parameters[1:n_cuts])])
        of_cuts = np.cumsum(by_cut[::-1])[::-1] * steps
        along = slope - (moved - m * weight) / 2
        of_beta = self.x.T @ along
        # Derivatives by each tau: through eta directly, the mode, and the determinant.
        zt = self.z.T @ along
        by_effect = b * zt - (back * (self.z.T @ slope)) / 2
        shrunk = 1 - np.diag(inverse)
        of_tau = np.array([by_effect[self.of == g].sum() for g in range(len(tau))])
        for g, tau_g in enumerate(tau):
            if tau_g:
                of_tau[g] -= shrunk[self.of == g].sum() / tau_g
        return -value, -np.concatenate([of_cuts, of_beta, of_tau])


def fit_ordinal(point: np.ndarray, x: np.ndarray, groups: Sequence[np.ndarray]) -> CrossedFit:
    """Fit a cumulative logit with crossed random effects.

    Args:
        point: (n,) codes 0 … J − 1 of the answers; each code occurs.
        x: (n, p) without an intercept.
        groups: as `fit_linear`.
    """
    model = _Laplace(point, x, groups)
    n_cuts, p = model.n_cuts, x.shape[1]
    below = np.cumsum(np.bincount(point))[:-1] / len(point)
    cuts = np.log(below / (1 - below))
    start = np.concatenate([cuts[:1], np.log(np.diff(cuts)), np.zeros(p), np.ones(len(groups))])
    optimum = optimize.minimize(model, start, jac=True, method="BFGS", options={"gtol": 1e-5, "maxiter": _MOST_ROUNDS})
    parameters = optimum.x.copy()
    tau = np.abs(parameters[n_cuts + p :])
    parameters[n_cuts + p :] = tau = np.where(tau < _ALIKE * np.pi, 0.0, tau)
    value, gradient = model(parameters)
    free = np.concatenate([np.ones(n_cuts + p, dtype=bool), tau > 0])
    step = 1e-4 * np.maximum(1, np.abs(parameters))
    rows = []
    for i in np.flatnonzero(free):
        up, down = parameters.copy(), parameters.copy()
        up[i] += step[i]
        down[i] -= step[i]
        rows.append((model(up)[1] - model(down)[1])[free] / (2 * step[i]))
    hessian = (np.array(rows) + np.array(rows).T) / 2
    positive = bool(np.isfinite(hessian).all()) and bool(np.linalg.eigvalsh(hessian)[0] > 1e-8)
    inverse = np.linalg.inv(hessian) if positive else np.full(hessian.shape, np.nan)
    errors = np.full(len(groups), np.nan)
    errors[tau > 0] = np.sqrt(np.diag(inverse)[n_cuts + p :]) / tau[tau > 0]
    return CrossedFit(
        parameters[n_cuts : n_cuts + p],
        inverse[n_cuts : n_cuts + p, n_cuts : n_cuts + p],
        tau,
        errors,
        float(np.pi / np.sqrt(3)),
        float("nan"),
        -value,
        positive and bool(np.abs(gradient[free]).max() < 1e-2) and bool(np.abs(parameters[n_cuts:]).max() < 15),
        model.cuts(parameters),
    )
