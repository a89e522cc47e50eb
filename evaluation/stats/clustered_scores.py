"""Errors of a maximum-likelihood fit whose ratings are not independent: clustered by rater, right for few of them.

The sandwich of the raters' scores S_g (Liang and Zeger 1986) is too small where raters are few, for each has pulled
the fit towards itself. With M the inverse of the information and I_g what rater g adds to it, S_g is (I − I_g M)
times what it would be at the truth, so that

    Cov = M Σ_g B_g S_g S_gᵀ B_gᵀ M,  B_g = (I − I_g M)^(−1/2)

has no bias where ratings are independent (Kauermann and Carroll 2001, Journal of the American Statistical Association
96; CR2 of Bell and McCaffrey for linear models). A contrast is held against Student's t with Satterthwaite's degrees
of freedom of its variance, tr(Q)² / tr(Q²) with Q_gh = a_gᵀ (δ_gh I_g − I_g M I_h) a_h and a_g = B_gᵀ M times the
contrast (Fay and Graubard 2001, Biometrics 57).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BLOCK = 4_000_000  # numbers held at once
_NONE = 1e-9
"""What is left of a rater's score is none below this share: it has determined a parameter alone."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """Errors clustered by rater.

    Attributes:
        covariance: (p, p) of the parameters.
        df: (c,) degrees of freedom of the variance of each contrast.
    """

    covariance: np.ndarray
    df: np.ndarray


def clustered_scores(
    inverse: np.ndarray,
    scores: np.ndarray,
    counts: np.ndarray,
    informations: np.ndarray,
    contrasts: np.ndarray,
) -> Clustered:
    """Return the errors of a fit.

    Args:
        inverse: (p, p) of the information of all ratings.
        scores: (G, p) each rater's, at the fit.
        counts: (G, K) ratings that each rater gave of each kind.
        informations: (K, p, p) what one rating of a kind adds to the information.
        contrasts: (p, c).
    """
    rows, which, times = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    root = np.linalg.cholesky(inverse)  # M = root rootᵀ
    n_parameters, n_contrasts = contrasts.shape
    aimed = root.T @ contrasts
    adjusted = np.empty_like(scores)
    trace, squares = np.zeros((2, n_contrasts))
    crossed = np.zeros((n_contrasts, n_parameters, n_parameters))
    step = max(1, _BLOCK // (n_parameters * max(n_parameters, n_contrasts)))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        added = root.T @ np.tensordot(rows[part], informations, 1) @ root
        values, vectors = np.linalg.eigh(np.eye(n_parameters) - added)
        kept = values > _NONE
        power = np.where(kept, np.where(kept, values, 1.0) ** -0.5, 0.0)
        middle = (vectors * power[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        mine = np.flatnonzero((which >= start) & (which < start + step))
        adjusted[mine] = np.einsum(
            "gij,gj->gi", middle[which[mine] - start], scores[mine] @ root, optimize=True
        )
        turned = middle @ aimed  # a_g is root times it
        pulls = added @ turned  # of which Q_gh is less the product, and on its diagonal `own` more
        own, n = (turned * pulls).sum(axis=1), times[part].astype(float)
        less = (pulls**2).sum(axis=1)
        trace += n @ (own - less)
        squares += n @ (own * (own - 2 * less))
        crossed += np.einsum("u,upc,uqc->cpq", n, pulls, pulls, optimize=True)
    squares += (crossed**2).sum(axis=(1, 2))
    df = np.divide(trace**2, squares, out=np.full(n_contrasts, np.inf), where=squares > 0)
    return Clustered(root @ (adjusted.T @ adjusted) @ root.T, df)
