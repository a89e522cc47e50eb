"""Methods of the analysis, in sentences fit for a paper, with versions.

The part on a hybrid fit's predictions has its equations.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chatbots.installation import package_version, release
from evaluation.analysis.levels import interval_level, order_alpha
from evaluation.analysis.trajectories import SEED
from evaluation.data.ratings import MEAN_KEY
from evaluation.data.result_tables import Cell, NamedTable, declared_table
from evaluation.hybrid.features import PRESETS
from evaluation.hybrid.gaussian_process import BLOCK_VARIANCE_GRID, PRIOR_MEDIAN, PRIOR_SIGMA, RESIDUAL_VARIANCE_GRID
from evaluation.hybrid.gaussian_process_folds import N_PERMUTATIONS
from evaluation.number_format import percent, share
from evaluation.stats.trajectories import N_EXTREME
from evaluation.stats.zscores import MIN_RATINGS
from webapp.core.clock import database_now
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import Section, bot_cell
from webapp.jobs.models import HybridFit, MetricVersion
from webapp.jobs.selectors.analysis_tables import bot_versions
from webapp.jobs.selectors.fits import fit_condition, fits_newest
from webapp.jobs.selectors.metrics import versions_used
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.selectors import study_conversations, title_as_given
from webapp.results.study_data import StudyFrame
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.protocols.base import get_protocol


def hybrid_methods(fits: Sequence[HybridFit]) -> list[str]:
    """Return a paragraph for each fitting method used, in its current version."""
    paragraphs = {}
    for fit in fits:
        result = fit.result or {}
        preset = str(result.get("preset", ""))
        if preset in _PARAGRAPHS and _is_present(result, preset):
            paragraphs[preset] = _PARAGRAPHS[preset](result)
    has_rivals = any((fit.result or {}).get("rivals") for fit in fits)
    return [*paragraphs.values(), *([_RIVALS] if paragraphs and has_rivals else [])]


def _is_present(result: Mapping[str, Any], preset: str) -> bool:
    """Return True if the fit has the version that the paragraph describes."""
    identity = result.get("identity") or {}
    return preset in PRESETS and identity.get("version") == PRESETS[preset].version


def _paper(result: Mapping[str, Any]) -> str:
    return (
        f"Ratings were predicted from {_features(result)} by ordinary least squares over {_over(result)}, without "
        "one bot at a time (Ghandeharioun et al., 2019); leverages, Cook’s distances (1977) and the condition number "
        "are those of the fit to all of them."
    )


def _strong(result: Mapping[str, Any]) -> str:
    return (
        f"Mean ratings of bots were predicted from their mean features ({_features(result)}; {_over(result)}) by a "
        "Gaussian process with known noise, fitted without the bot that is predicted (preset strong, version 3). "
        "Rater effects are removed from the ratings y: they are random effects, with bots as fixed effects "
        "(Henderson, 1975), estimated by restricted maximum likelihood on the K bots of a fold. m_j is then bot j’s "
        "mean, and s²N the covariance of the errors of these means, which are linear in the ratings, due to raters, "
        "conversations and single ratings; without rater IDs it is diagonal, s² / n_eff,j with n_eff,j = n_j / (1 + "
        "(k − 1) ICC) for n_j ratings, k a conversation. s² is the variance of a rating within bots and raters. "
        "Features are in units of their pooled standard deviation within bots, X_b the centred bot means of block "
        "b, and K_b = K X_b X_bᵀ / tr(X_b X_bᵀ). m ~ N(μ1, s²V), V = θI + Σ_b τ_b K_b + N, μ flat. Points of the "
        f"grid θ ∈ {{{_grid(RESIDUAL_VARIANCE_GRID)}}}, τ_b ∈ {{{_grid(BLOCK_VARIANCE_GRID)}}} have the weight w ∝ "
        "|V|^(−½) (1ᵀV⁻¹1)^(−½) exp(−(m − μ̂1)ᵀV⁻¹(m − μ̂1) / 2s²) p(θ + Σ τ_b), μ̂ = 1ᵀV⁻¹m / 1ᵀV⁻¹1 and p "
        f"log-normal with median {PRIOR_MEDIAN:g} and σ {PRIOR_SIGMA:g}; no single point is selected. For each "
        "point, a bot with features x has the mean μ̂ + kᵀV⁻¹(m − μ̂1), k = Σ_b τ_b k_b(x), and the variance s²(θ + "
        "Σ_b τ_b k_b(x, x) − kᵀV⁻¹k + (1 − 1ᵀV⁻¹k)² / 1ᵀV⁻¹1), plus the variance from resampling its conversations "
        "(Rasmussen and Williams, 2006, sections 2.2 and 2.7). Predictions are the means of the mixture, and "
        "intervals of the true mean are between its quantiles; intervals for the mean of n further ratings also "
        "include their noise. Ratings of the bot itself reweight the points and are combined with the prediction of "
        "each (empirical Bayes), without what their raters share with the other bots. The null distribution "
        f"permutes m {N_PERMUTATIONS:,} times and reweights the grid each time. Q² = 1 − Σ(m_j − p_j)² / Σ(m_j − "
        "m̄_−j)², with m̄_−j the mean of the other bots. For self-play, the turns of both sides are averaged; if "
        "there are at least four other bots with self-play, intervals are widened by the variance of their errors "
        "in excess of the predicted one."
    )


_RIVALS = (
    "For comparison, mean log turns, mean log words per message, and both were fitted by the same Gaussian process "
    "and folds. The ratio of root mean square errors has the interval of Pitman (1939) and Morgan (1939) for paired "
    "errors, by Student’s t with K − 3 degrees of freedom; a fit is clearly better if the whole interval is below "
    "1."
)
_PARAGRAPHS = {"paper": _paper, "strong": _strong}


def _over(result: Mapping[str, Any]) -> str:
    return f"{phrases.conversations_text(result['n_conversations'])} of {phrases.bots_text(result['n_bots'])}"


def _features(result: Mapping[str, Any]) -> str:
    """Describe the number of columns that a fit uses, and its blocks."""
    blocks = result.get("block_shares") or {}
    metrics_text = f"{len(result['features'])} metrics of conversations"
    return f"{metrics_text} in the blocks {', '.join(blocks)}" if blocks else metrics_text


def _grid(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


_PACKAGES = ("numpy", "scipy", "pandas", "django", "torch", "transformers")
_DIGEST = 12
_CUT = 60


def methods_section(frame: StudyFrame) -> Section:
    """Write methods for a paper, with tables that make the numbers traceable."""
    fits = fits_newest(frame.study, frame.excluded_flags)
    section = Section("methods", "Data and methods")
    section.lead.extend([_data_sentence(frame), _statistics_sentence(frame)])
    section.lead.extend([*hybrid_methods(fits), _software_sentence()])
    metrics = versions_used(study_conversations(frame.study, **frame.counted_work))
    section.tables.extend([_bots(frame), _metrics(metrics), *([_fits(fits)] if fits else [])])
    section.tables.extend([_questions(frame), _environment()])
    return section


def pair_methods_section(frame: StudyFrame) -> Section:
    """Return the same for a study with paired comparisons."""
    section = Section("methods", "Data and methods")
    always = keeps_always_valid(frame.study)
    intervals = (
        "always-valid, over raters and items, because results were visible while the study was open"
        if always
        else "Wilson’s, with the effective number of judgements from raters as clusters (Korn and Graubard, 1998)"
    )
    test = (
        "an always-valid test (normal mixture; Robbins, 1970)"
        if always
        else "a fixed-sample test of the mean preference with errors clustered by rater and by what was compared (CR2; "
        "Bell and McCaffrey, 2002)"
    )
    study = frame.study
    alpha = order_alpha(study.values.quotas.level)
    data_sentence = (
        f"Study {study.key} (protocol {study.protocol}, version {study.version.number}) has "
        f"{phrases.ratings_text(frame.facts.n_ratings)} of pairs of bots by "
        f"{phrases.people_text(frame.facts.n_raters)}, on {phrases.dimensions_text(len(frame.dimensions))}. Intervals "
        f"of shares are {intervals}. The preferred bot of a pair is decided by {test}, corrected by Holm (1979) for "
        f"all pairs of a question at p < {share(alpha)}. Strengths are those of a Bradley–Terry model with ties "
        "(Davidson, 1970), with raters as clusters and pairwise comparisons corrected by Holm. Agreement is the "
        f"median of Cohen’s κ over pairs of raters with {study.values.judging.kappa_items} shared items or more."
    )
    if frame.include_synthetic:
        data_sentence += " Scripted participants are included."
    section.lead += [data_sentence, _software_sentence()]
    section.tables += [_bots(frame), _questions(frame), _environment()]
    return section


def _data_sentence(frame: StudyFrame) -> str:
    n_raters, study = frame.facts.n_raters, frame.study
    controls = [frame.title(bot) for bot in frame.controls]
    protocol = "import" if study.is_imported else f"{study.protocol}, bots {study.rule}"
    rated = phrases.items_text if get_protocol(study).judges_items else phrases.conversations_text
    sentence = (
        f"Study {study.key} (protocol {protocol}, rubric {study.rubric.name}, version {study.rubric.version}) has "
        f"{phrases.ratings_text(frame.facts.n_ratings)} of {rated(frame.facts.n_conversations)} with "
        f"{phrases.bots_text(len(frame.rated_bots))} by "
        f"{phrases.people_text(n_raters) if n_raters else 'raters without IDs in the data'}, on "
        f"{phrases.dimensions_text(len(frame.dimensions))}."
    )
    if frame.headline.key == MEAN_KEY:
        sentence += (
            " There is no overall question, so bots are ranked by the mean of all dimensions (complete ratings only)."
        )
    if controls:
        sentence += (
            f" Controls made to be bad ({', '.join(controls)}) have hollow marks. They are excluded from rankings, "
            "models and correlations with metrics, but included in correlations between questions."
        )
    if frame.include_synthetic:
        sentence += " Scripted participants are included."
    if frame.excluded_flags:
        rules = " ".join(str(flag_kinds.get(name).rule) for name in frame.excluded_flags)
        sentence += " " + f"Participants with one of these flags are excluded: {rules}"
    return sentence


def _statistics_sentence(frame: StudyFrame) -> str:
    level = frame.study.values.quotas.level
    return (
        f"Intervals of means are {percent(interval_level(level))} score intervals of a quasi-likelihood with the "
        "variance function (μ − a)(b − μ) on a scale from a to b (Papke and Wooldridge, 1996), Wilson’s for shares. "
        "Their variance is clustered by rater (by conversation if there are no rater IDs) with the CR2 correction "
        "and compared with Student’s t with Satterthwaite’s degrees of freedom (Imbens and Kolesár, 2016). Pairs of "
        "bots are compared by generalised least squares: y = μ(bot) + u(rater) + e, with Var(u) = τ² and Var(e) = σ² "
        "by restricted maximum likelihood, and m = M XᵀWy, M = (XᵀWX)⁻¹, W = V⁻¹ (conversations instead of raters if "
        "there are no rater IDs). The errors of m do not depend on that model: they are clustered by rater with the "
        "CR2 correction, M Σ XᵀWAeeᵀAᵀWX M (Bell and McCaffrey, 2002; Pustejovsky and Tipton, 2018), and differences "
        "are compared with Student’s t with Satterthwaite’s degrees of freedom, with a separate variance for each "
        "bot; without repeated raters this is Welch’s test. If several people rate the same items, the largest "
        "variance over raters, items and both is used (Cameron, Gelbach and Miller, 2011). p-values are corrected by "
        f"Holm (1979) for all pairs at p < {share(order_alpha(level))}. This fixed-sample test applies to imported "
        "data, and to a study that has reached its planned size. Otherwise confidence sequences of a normal mixture "
        "around the same estimates decide (Robbins, 1970; Waudby-Smith et al., 2024), which are valid at any number "
        "of looks, and intervals of means are of the same kind. The mixed model has bots fixed and raters random "
        "(restricted maximum likelihood; Pinheiro and Bates, 2000); the ordinal model has proportional odds "
        "(McCullagh, 1980) with errors clustered by rater. Analysis of variance uses type III sums of squares. "
        "Agreement is Krippendorff’s α and intraclass correlations of form 1 (Shrout and Fleiss, 1979). Scores on a "
        f"rater’s own scale include raters with at least {MIN_RATINGS} ratings. Trajectories follow Ghandeharioun et "
        f"al. (2019): the {N_EXTREME} best and worst conversations, ties drawn with seed {SEED}. Undefined values are "
        "excluded from every mean and never counted as 0."
    )


def _software_sentence() -> str:
    return f"Computed with Confab {release()}."


def _bots(frame: StudyFrame) -> NamedTable:
    return declared_table(
        "bot-identities",
        "Bot versions",
        bot_versions(frame.study),
        (
            "Bot",
            lambda version: (
                replace(bot_cell(frame.bots[version.bot_id]), text=version.title)
                if version.bot_id in frame.bots
                else Cell(version.title)
            ),
        ),
        ("Kind", lambda version: Cell(version.kind)),
        ("Version", lambda version: Cell(version.version)),
        ("Identity", lambda version: Cell(version.key[:_DIGEST])),
        ("Parameters", lambda version: Cell(_format_params(version.params))),
    )


def _metrics(versions: Sequence[tuple[MetricVersion, bool]]) -> NamedTable:
    metrics_table = declared_table(
        "metric-identities",
        "Metrics",
        versions,
        ("Metric", lambda row: Cell(row[0].name)),
        ("Version", lambda row: Cell(row[0].version)),
        ("Identity", lambda row: Cell(row[0].key[:_DIGEST])),
        ("Use", lambda row: Cell("used here" if row[1] else "an earlier version, not used")),
        ("Parameters", lambda row: Cell(_format_params(row[0].params))),
    )
    if not versions:
        metrics_table.table.rows.append([Cell("–", reason="no metrics computed yet"), *[Cell("–")] * 4])
    return metrics_table


def _format_params(params: Mapping[str, Any], before: str = "") -> str:
    """Write parameters in one line with shortened digests.

    The identity in the next column covers them.
    """
    parts = []
    for key, value in sorted(params.items()):
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            parts.append(_format_params(value, f"{name}."))
        else:
            text = str(value)
            parts.append(f"{name}={text if len(text) <= _CUT else text[:_DIGEST] + '…'}")
    return ", ".join(part for part in parts if part)


def _fits(fits: Sequence[HybridFit]) -> NamedTable:
    return declared_table(
        "fit-identities",
        "Hybrid fits",
        fits,
        ("Fit", lambda fit: Cell(str(fit.pk))),
        ("Preset", lambda fit: Cell(str(fit.request.get("preset")))),
        ("Target", lambda fit: Cell(", ".join(fit.request.get("targets") or ()))),
        ("Intercept", lambda fit: Cell(str(fit.request.get("intercept")))),
        ("Excluded bots", lambda fit: Cell(", ".join(fit.request.get("exclude_bots") or ()) or "–")),
        *[("Condition", lambda fit: Cell(fit_condition(fit) or "all"))] * any(map(fit_condition, fits)),
        ("Version", lambda fit: Cell(str((fit.result or {}).get("identity", {}).get("version", "–")))),
        ("Made", lambda fit: Cell(f"{fit.ended_at:%Y-%m-%d %H:%M} UTC" if fit.ended_at else "–")),
    )


def _questions(frame: StudyFrame) -> NamedTable:
    return declared_table(
        "questions",
        "Questions to raters",
        frame.study.rubric.dimensions.all(),
        ("Dimension", lambda dimension: Cell(title_as_given(dimension))),
        ("Question", lambda dimension: Cell(dimension.question)),
        ("Scale", lambda dimension: Cell(f"{dimension.scale[0]:g} … {dimension.scale[1]:g}")),
        (
            ("Endpoints"),
            lambda dimension: Cell(" … ".join(filter(None, (dimension.low_label, dimension.high_label))) or "–"),
        ),
    )


def _environment() -> NamedTable:
    versions: dict[str, str | None] = {"Confab": release(), "Python": platform.python_version()}
    versions |= {package: package_version(package) for package in _PACKAGES}
    versions["Made"] = f"{database_now():%Y-%m-%d %H:%M} UTC"
    return declared_table(
        "environment",
        "Software",
        versions.items(),
        ("Package", lambda row: Cell(row[0])),
        ("Version", lambda row: Cell(row[1]) if row[1] else Cell("–", reason="not installed")),
    )
