"""Test several differences of bots at once where raters are few and rate several: Wald's test as Hotelling's T².

With q differences d = C m of the bots' means and their covariance V = C Cov(m) Cᵀ, clustered by rater (`gls`), Q = dᵀ
V⁻¹ d. V is estimated, so Q is not chi-squared: if V behaves like a Wishart matrix with eta degrees of freedom,

    F = (eta − q + 1) / (eta q) · Q

has the F distribution with q and eta − q + 1 degrees of freedom (Pustejovsky and Tipton 2018, Journal of Business &
Economic Statistics 36). Their eta needs the variance of every entry of V. Here it is the harmonic mean of
Satterthwaite's degrees of freedom of the q uncorrelated differences along the eigenvectors of V, so that with q = 1
it is the t-test of `gls`, and where everybody rates every bot once, Hotelling's T² itself. With few raters who rate
unequally often it rejects more seldom than it might.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.gls import RaterGls
from evaluation.wording import counted

ONE_RATER = Reason(
    "one_rater_of_some",
    "one rater gave all ratings of a bot: how far its mean can be off is not known",
)
CONSTANT = Reason(
    "constant_cells",
    "the ratings do not vary within the cells: nothing to judge the effects by",
)
_SINGULAR = 1e-10
"""An eigenvalue of V below this share of the largest is none: a difference that nothing varies."""


@dataclass(frozen=True, slots=True)
class WaldTest:
    """The test of q differences.

    Attributes:
        f, p: None where there is no test.
        df1, df2: its degrees of freedom; df2 is None where there is no test, or where the covariance is taken as
            known (chi-squared).
        reason: why there is no test.
    """

    f: float | None
    p: float | None
    df1: int
    df2: float | None
    reason: Reason | None = None


def wald_test(fit: RaterGls, contrasts: np.ndarray) -> WaldTest:
    """Test whether all differences of the bots' means are 0.

    Args:
        contrasts: (q, K) weights of the bots' means in each difference; linearly independent.
    """

    used = np.abs(contrasts).max(axis=0) > 1e-9 * np.abs(contrasts).max()
    if (fit.n_raters[used] < 2).any():
        return WaldTest(None, None, len(contrasts), None, ONE_RATER)
    # Of equal length and at right angles, so that no eigenvalue is small for the units of a difference.
    rows = np.linalg.qr(contrasts.T)[0].T
    variances, vectors = np.linalg.eigh(rows @ fit.covariance @ rows.T)
    if variances[0] <= _SINGULAR * variances[-1] or variances[-1] <= 0:
        return WaldTest(None, None, len(contrasts), None, CONSTANT)
    along = vectors.T @ rows
    squared = float(((along @ fit.means) ** 2 / variances).sum())
    return hotelling_test(squared, np.array([fit.combined(row).df for row in along]))


def hotelling_test(squared: float, df: np.ndarray) -> WaldTest:
    """Test q differences by their squared distance from 0.

    Args:
        squared: Q, in units of the differences' estimated covariance.
        df: (q,) degrees of freedom of the variances of q uncorrelated differences.
    """
    from scipy import stats

    q = len(df)
    eta = q / float((1 / df).sum()) if np.isfinite(df).any() else np.inf
    if np.isinf(eta):
        return WaldTest(squared / q, float(stats.chi2.sf(squared, q)), q, None)
    df2 = eta - q + 1
    if df2 <= 0:
        why = f"too few raters to test {counted(q, 'difference')} at once"
        return WaldTest(None, None, q, None, Reason("few_raters_for_test", why, n_differences=q))
    f = df2 / (eta * q) * squared
    return WaldTest(f, float(stats.f.sf(f, q, df2)), q, df2)
