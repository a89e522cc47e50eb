"""Methods text of a hybrid fit's predictions, with equations, in sentences fit for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.hybrid.presets import preset_get
from evaluation.hybrid.process import PRIOR_MEDIAN, PRIOR_SIGMA, TAUS, THETAS
from evaluation.hybrid.process_folds import N_PERMUTATIONS
from webapp.dashboard import counts
from webapp.runs.models import HybridFit


def hybrid_methods(fits: Sequence[HybridFit]) -> list[str]:
    """Return a paragraph for each way of fitting that these fits took, as it is now."""
    found = {}
    for fit in fits:
        result = fit.result or {}
        preset = str(result.get("preset", ""))
        if preset in _PARAGRAPHS and _is_present(result, preset):
            found[preset] = _PARAGRAPHS[preset](result)
    return list(found.values())


def _is_present(result: Mapping[str, Any], preset: str) -> bool:
    """Return True if the fit has the version that the paragraph describes."""
    identity = result.get("identity") or {}
    return identity.get("version") == preset_get(preset).version


def _paper(result: Mapping[str, Any]) -> str:
    return (
        "Ratings were predicted from {features} by ordinary least squares over {conversations} of {bots}, without "
        "one bot at a time (Ghandeharioun et al., 2019); leverages, Cook’s distances (1977) and the condition number "
        "are those of the fit to all of them."
    ).format(features=_features(result), **_numbers(result))


def _strong(result: Mapping[str, Any]) -> str:
    return (
        "Mean ratings of bots were predicted from their mean features ({features}; {conversations} of {bots}) by a "
        "Gaussian process with known noise, fitted without the bot that is predicted (preset strong, version 3). "
        "Ratings y lose the effects of their raters, random effects beside fixed effects of bots (Henderson, 1975) "
        "by restricted maximum likelihood, learned on the K bots of a fold. m_j is then bot j’s mean, and s²N the "
        "covariance of how far these means, which are linear in the ratings, are off by raters, conversations and "
        "single ratings; without names of raters it is diagonal, s² / n_eff,j with n_eff,j = n_j / (1 + (k − 1) ICC) "
        "for n_j ratings, k a conversation. s² is the variance of a rating within bots and raters. Features are in "
        "units of their pooled standard deviation within bots, X_b the centred bot means of block b, and K_b = K X_b "
        "X_bᵀ / tr(X_b X_bᵀ). m ~ N(μ1, s²V), V = θI + Σ_b τ_b K_b + N, μ flat. Points of the grid θ ∈ {{{thetas}}}, "
        "τ_b ∈ {{{taus}}} have the weight w ∝ |V|^(−½) (1ᵀV⁻¹1)^(−½) exp(−(m − μ̂1)ᵀV⁻¹(m − μ̂1) / 2s²) p(θ + Σ "
        "τ_b), μ̂ = 1ᵀV⁻¹m / 1ᵀV⁻¹1 and p log-normal with median {median} and σ {sigma}; none is picked. A bot with "
        "features x has by each point the mean μ̂ + kᵀV⁻¹(m − μ̂1), k = Σ_b τ_b k_b(x), and the variance s²(θ + Σ_b "
        "τ_b k_b(x, x) − kᵀV⁻¹k + (1 − 1ᵀV⁻¹k)² / 1ᵀV⁻¹1), to which that of drawing its conversations again is added "
        "(Rasmussen and Williams, 2006, sections 2.2 and 2.7). Predictions are the mixture’s means, intervals of the "
        "true mean lie between its quantiles, those of the mean of n further ratings have their noise too. Ratings "
        "of the bot itself weigh the points anew and are combined with each (empirical Bayes), less what their "
        "raters share with the others.  The null permutes m {permutations} times and weighs the grid anew each "
        "time. Q² = 1 − Σ(m_j − p_j)² / Σ(m_j − m̄_−j)², with m̄_−j the mean of the other bots. From self-play the "
        "turns of both sides are averaged; intervals are widened by what the errors of the other bots on self-play "
        "exceed the stated variance by, where four others show it."
    ).format(
        features=_features(result),
        thetas=_grid(THETAS),
        taus=_grid(TAUS),
        median=f"{PRIOR_MEDIAN:g}",
        sigma=f"{PRIOR_SIGMA:g}",
        permutations=f"{N_PERMUTATIONS:,}",
        **_numbers(result),
    )


_PARAGRAPHS = {"paper": _paper, "strong": _strong}


def _numbers(result: Mapping[str, Any]) -> dict[str, str]:
    return {
        "conversations": counts.conversations(result["n_conversations"]),
        "bots": counts.bots(result["n_bots"]),
    }


def _features(result: Mapping[str, Any]) -> str:
    """Describe the number of columns that a fit reads, and any blocks."""
    n = len(result["features"])
    blocks = result.get("block_shares") or {}
    if not blocks:
        return f"{n} metrics of conversations"
    return "{n} metrics of conversations in the blocks {blocks}".format(
        n=n, blocks=", ".join(blocks)
    )


def _grid(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
