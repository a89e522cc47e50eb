"""Fit of the hybrid metric, which predicts ratings of unseen bots.

M_H = λ_0 + Σ λ_i M_i by ordinary least squares, fitted without one bot at a time (Ghandeharioun et al. 2019; fact sheet
section 3). The ratings of a bot are never used to predict it.

There are two intercepts. With `fold`, as in the paper, each fold has its own. It is close to the mean rating of the
other bots and so includes the left-out bot's mean with a minus sign; uninformative features then correlate at nearly −1
with the human means. With `common`, the default, features are centred on all bots, all folds share one intercept and
each fold contributes only slopes; chance then correlates near 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots import Identity
from chatbots.text import quote
from evaluation.data.ratings import Ratings
from evaluation.findings import finding
from evaluation.hybrid.assess import assess
from evaluation.hybrid.assessment_data import Baselines, HumanData
from evaluation.hybrid.baselines import GROUP, MIN_BOTS, baselines_of, with_indicators
from evaluation.hybrid.bot_level import INTERCEPTS, PREFERRED_INTERCEPT, Intercept, NullOf
from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums, NoNoise
from evaluation.hybrid.features import (
    LENGTHS,
    Design,
    HybridError,
    Preset,
    design_of,
    preset_get,
    refuse_retired,
    shown_names,
)
from evaluation.hybrid.gaussian_process import BLOCK_VARIANCE_GRID, PRIOR_MEDIAN, PRIOR_SIGMA, RESIDUAL_VARIANCE_GRID
from evaluation.hybrid.gaussian_process_folds import ProcessFolds
from evaluation.hybrid.least_squares import Factors, Influence, fit_all_bots
from evaluation.hybrid.levels import SignificantPairs, bootstrap_draws, permuted_lines, significant_pairs
from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.hybrid.results import HybridResult, KeptFit
from evaluation.hybrid.rivals import KeptRivals, rival_folds
from evaluation.number_format import pluralise
from evaluation.threads import with_one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

N_DRAWS = 500
MOST_NAMED = 10
"""Maximum number of undefined features listed in an error."""


def _identity(
    rated: Design, preset: Preset, targets: tuple[str, ...], intercept: Intercept, metrics: Mapping[str, Any] | None
) -> Identity:
    params: dict[str, Any] = {
        "features": shown_names(rated.features),
        "targets": list(targets),
        "intercept": intercept,
        "metrics": dict(metrics or {}),
    }
    if preset.parts:
        params["thetas"], params["taus"] = list(RESIDUAL_VARIANCE_GRID), list(BLOCK_VARIANCE_GRID)
        params["prior"] = [PRIOR_MEDIAN, PRIOR_SIGMA]
        params["noise"] = "raters, conversations and ratings"
        params["blocks"] = {
            part: [rated.features[k] for k in numbers] for part, numbers in preset.parts_of(rated.features).items()
        }
    return Identity(f"hybrid_{preset.name.partition('@')[0]}", preset.version, params)


def fit_process(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    ratings: Ratings | None,
    metric_identities: Mapping[str, Any] | None,
) -> tuple[KeptFit, ProcessFolds]:
    """Fit a Gaussian process of bot means: each fold and all bots."""
    codes, names = _codes(rated.bots)
    engine = ProcessFolds(
        rated.x,
        rated.y,
        codes,
        names,
        preset.parts_of(rated.features),
        RatingNoise.match(ratings, targets, rated.ids, codes, rated.y),
    )
    all_bots = engine.means.all_bots
    fit = KeptFit(
        identity=_identity(rated, preset, targets, intercept, metric_identities),
        preset=preset.name,
        features=rated.features,
        targets=targets,
        intercept=intercept,
        centre=all_bots.x.mean(axis=0),
        scale=all_bots.scale,
        target_mean=float(all_bots.rating.mean()),
        full_line=engine.line(),
        folds=engine.lines(common=False),
        draws=np.zeros((0, len(rated.features) + 1)),
        commons=engine.lines(common=True),
        means=engine.means,
    )
    return fit, engine


def means_given(
    rated: Design, targets: Sequence[str], ratings: Ratings | None
) -> tuple[BotFeatureMeans | None, np.ndarray | None]:
    """Reduce the ratings to which a stored fit is applied.

    The reduction is that of `fit_process`.

    Returns:
        The bots' means, None if no two ratings of a bot differ; and (n,) targets minus rater effects.
    """
    if not len(rated.y):
        return None, None
    codes, names = _codes(rated.bots)
    noise = RatingNoise.match(ratings, targets, rated.ids, codes, rated.y)
    sums = BotSums(rated.x, rated.y, codes, names, noise)
    try:
        return sums.compute_means(np.ones(len(names), dtype=bool)), sums.adjusted()
    except NoNoise:
        return None, None


def _codes(bots: np.ndarray) -> tuple[np.ndarray, list[str]]:
    names, codes = np.unique(bots.astype(str), return_inverse=True)
    return codes, [str(name) for name in names]


def fit_least_squares(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    seed: int,
    metric_identities: Mapping[str, Any] | None,
) -> tuple[KeptFit, Factors, Influence]:
    """Fit by least squares: each fold and all bots.

    Folds use `RowBlocks`, the fit on all bots statsmodels, for influence diagnostics.
    """
    factors = Factors(rated.x, rated.y, rated.bots)
    folds = {bot: factors.line(factors.leave_out(k)) for k, bot in enumerate(factors.bots)}
    full_line, carrying = fit_all_bots(
        rated, factors.line(range(len(factors.bots))), folds, factors.centre, factors.scale
    )
    fit = KeptFit(
        identity=_identity(rated, preset, targets, intercept, metric_identities),
        preset=preset.name,
        features=rated.features,
        targets=targets,
        intercept=intercept,
        centre=factors.centre,
        scale=factors.scale,
        target_mean=factors.target_mean,
        full_line=full_line,
        folds=folds,
        draws=bootstrap_draws(factors, N_DRAWS, seed),
    )
    return fit, factors, carrying


@with_one_blas_thread
def fit_hybrid(
    human: pd.DataFrame,
    *,
    features: Sequence[str] | None = None,
    targets: Sequence[str] = ("quality",),
    preset: str = "paper",
    intercept: Intercept = PREFERRED_INTERCEPT,
    selfplay: pd.DataFrame | None = None,
    seed: int = 0,
    dimensions: Sequence[str] = (),
    metric_identities: Mapping[str, Any] | None = None,
    ratings: Ratings | None = None,
    study: str = "",
    has_baselines: bool = True,
) -> HybridResult:
    """Fit leave-bot-out, predict, and compare with the human ratings.

    Args:
        human: one row per rated conversation (or one per rating: they are averaged): `conversation`, `bot`, optionally
            `participant`, the features and the rating dimensions. The columns `words_user`, `n_turns` and `group` (any
            label per bot, e.g. its training corpus) serve as baselines.
        features: metric columns to predict from; None for those of the preset.
        targets: rating dimensions; several are averaged without rescaling.
        preset: "paper" or "strong".
        intercept: "fold" or "common", see above.
        selfplay: `conversation`, `bot` and the features of self-play conversations. Bots without ratings are predicted
            by the fit on all rated bots, with a bootstrap interval.
        seed: seed of the bootstrap and the permutations.
        dimensions: further rating dimensions to correlate the bot scores with.
        metric_identities: identities of the metrics behind the columns, kept with the fit.
        ratings: individual ratings, used by `strong` for rater effects and rating noise, and to find significantly
            different bots. Without them, each conversation counts as one rating.
        study: key of the study, stored with the fit. Applied to another study, the fit gives only ranks.
        has_baselines: False to skip trivial predictors and significantly different pairs, a third of the work.

    Raises:
        HybridError: fewer than three bots with usable ratings, too few conversations, unknown preset or
            column.
    """
    chosen = preset_get(preset)
    names = tuple(chosen.features if features is None else features)
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    _check(targets, intercept, names)
    other_dimensions = tuple(name for name in dimensions if name not in targets)
    human, groups = with_indicators(human)
    labels = {} if not groups else dict(zip(human["bot"].astype(str), human[GROUP], strict=True))
    design = design_of(human, names, targets, dimensions=other_dimensions, extra=[*LENGTHS, *groups])
    rated = design.rows(np.isfinite(design.y))
    n_bots = len(set(rated.bots))
    if n_bots < MIN_BOTS:
        raise HybridError(
            f"{pluralise(n_bots, 'bot')} with rated conversations and all features defined; leave-bot-out needs at "
            f"least {MIN_BOTS} ({pluralise(len(design.rated), 'bot')} rated, "
            f"{pluralise(design.n_dropped, 'conversation')} with an undefined feature{_undefined(design)})"
        )
    null: NullOf
    carrying = adjusted = None
    if chosen.parts:
        fit, process = fit_process(rated, chosen, targets, intercept, ratings, metric_identities)
        adjusted = process.adjusted
        null = partial(process.permuted, seed=seed)
    else:
        fit, factors, carrying = fit_least_squares(rated, chosen, targets, intercept, seed, metric_identities)
        null = partial(permuted_lines, factors, seed=seed)
    fit = replace(
        fit,
        scale_range=_scale(ratings, targets),
        study=study,
        ratings=design.digest(),
        instrument=_instrument(ratings, targets),
    )
    target = rated if adjusted is None else replace(rated, y=adjusted)
    fit = replace(fit, rivals=KeptRivals.from_folds(rival_folds(target, fit.means, groups), fit.means))
    played = None
    if selfplay is not None:
        played = design_of(selfplay, names, extra=list(LENGTHS))
    human_data = HumanData(
        design,
        adjusted=adjusted,
        means=None if fit.means is None else fit.means.all_bots,
        significant=significant_pairs(human, targets, ratings) if has_baselines else SignificantPairs(),
        dimensions=(*targets, *other_dimensions),
        groups=labels,
    )
    baselines = Baselines(
        human=baselines_of(target, groups, intercept, seed) if has_baselines else {},
        selfplay={}
        if played is None or not has_baselines
        else baselines_of(target, groups, intercept, seed, selfplay=played),
        rivals=lambda selfplay_design: rival_folds(target, fit.means, groups, selfplay_design),
    )
    result = assess(fit, human_data, played, baselines, seed=seed, null=null)
    return replace(result, carrying=carrying)


@with_one_blas_thread
def apply_fit(
    fit: KeptFit,
    *,
    human: pd.DataFrame | None = None,
    selfplay: pd.DataFrame | None = None,
    targets: Sequence[str] | None = None,
    seed: int = 0,
    ratings: Ratings | None = None,
    study: str = "",
    same_instrument: bool = False,
) -> HybridResult:
    """Apply a stored fit to new conversations.

    Args:
        fit: a bot that was in the fit is predicted by the fold without it.
        human: as in `fit_hybrid`. If the target dimensions are rated, predictions are correlated with them.
        selfplay: as in `fit_hybrid`.
        targets: rating dimensions of `human` to compare with, if different from those of the fit.
        ratings: as in `fit_hybrid`. All comparisons use these ratings and none use those of the fit.
        study: key of the study applied to. If it may differ from that of the fit, only the order of the predictions is
            meaningful: bots get ranks but no values, intervals or value agreement, and a caution explains this.
            Self-play without a study keeps the fit's own values.
        same_instrument: True if the caller declares that the study asked the same questions of the same kind of people;
            bots then get values. Titles, scales and labels of the targets are compared.

    Raises:
        HybridError: if neither table is given, a feature is missing, the ratings use another scale or instrument than
            declared, or the preset is retired.
    """
    refuse_retired(fit.preset, fit.identity.version)
    if human is None and selfplay is None:
        raise HybridError("nothing to apply the fit to; give a study or a self-play run")
    targets = fit.targets if targets is None else tuple(targets)
    scale = None if human is None else _scale(ratings, targets)
    is_rated = human is not None and all(target in human.columns for target in targets)
    cautions = []
    if is_rated and (scale is None or fit.scale_range is None):
        cautions.append(finding("scale_unknown", of_fit=fit.scale_range is None, of_ratings=scale is None))
    if scale is not None and fit.scale_range is not None and scale != fit.scale_range:
        raise HybridError(
            f"the fit predicts {', '.join(fit.targets)} on a scale of {_ends(fit.scale_range)}, but "
            f"{', '.join(targets)} is rated on {_ends(scale)}; use a fit to ratings on {_ends(scale)}"
        )
    significant = SignificantPairs()
    if human is None:
        design = None
    elif is_rated:
        design = design_of(human, fit.features, targets, extra=LENGTHS)
        significant = significant_pairs(human, targets, ratings)
    else:
        design = design_of(human, fit.features)
    played = None if selfplay is None else design_of(selfplay, fit.features, extra=LENGTHS)
    is_replication = same_instrument and fit.study != study
    if is_replication:
        _check_instrument(fit, targets, ratings)
        cautions.append(finding("same_instrument", study=fit.study))
    is_other_study = (not fit.study or fit.study != study) and not is_replication
    if human is None and not study:
        is_other_study = False
    means = adjusted = None
    rivals: Callable[[Design | None], dict[str, Any]] | None = None
    if design is not None and is_rated and not is_other_study:
        rated = design.rows(np.isfinite(design.y))
        if fit.means is not None:
            means, adjusted = means_given(rated, targets, ratings)
        if fit.rivals is None:
            cautions.append(finding("rivals_not_kept"))
        else:
            kept_rivals = fit.rivals

            def rivals(selfplay_design: Design | None) -> dict[str, Any]:
                return kept_rivals.folds_for(fit.means, rated if selfplay_design is None else selfplay_design)

    human_data = HumanData(
        design,
        adjusted=adjusted,
        means=means,
        significant=significant,
        is_fitted=design is not None and design.digest() == fit.ratings,
    )
    result = assess(
        fit, human_data, played, Baselines(rivals=rivals), seed=seed, null=None, is_other_study=is_other_study
    )
    return replace(result, cautions=(*result.cautions, *cautions))


def _undefined(design: Design) -> str:
    """List undefined features with counts, most frequent first; may be empty."""
    counts = sorted(((n, name) for name, n in design.dropped.items() if n), reverse=True)
    parts = [f"{name} in {n}" for n, name in counts[:MOST_NAMED]]
    if len(counts) > MOST_NAMED:
        parts.append(f"{len(counts) - MOST_NAMED} more")
    return f": {', '.join(parts)}" if parts else ""


def _scale(ratings: Ratings | None, targets: Sequence[str]) -> tuple[float, float] | None:
    """Return the ends of the scale of the targets' mean, or None.

    None if a scale is unknown or inferred from the answers.
    """
    dimensions = () if ratings is None else ratings.dimensions
    known = {dimension.key: dimension for dimension in dimensions if not dimension.inferred}
    if any(target not in known for target in targets):
        return None
    ends = [(known[target].low, known[target].high) for target in targets]
    return float(np.mean([low for low, _ in ends])), float(np.mean([high for _, high in ends]))


def _instrument(ratings: Ratings | None, targets: Sequence[str]) -> dict[str, Any]:
    """Return the known scale of each target, as raters saw it."""
    return {
        dimension.key: {
            "title": dimension.title,
            "scale": [float(dimension.low), float(dimension.high)],
            "labels": [dimension.low_label, dimension.high_label],
            # An unknown direction counts as "high is good", so that both are the same instrument.
            "direction": "low is good" if dimension.reversed else "high is good",
        }
        for dimension in (() if ratings is None else ratings.dimensions)
        if dimension.key in targets and not dimension.inferred
    }


def _check_instrument(fit: KeptFit, targets: Sequence[str], ratings: Ratings | None) -> None:
    instrument = _instrument(ratings, targets)
    if set(targets) != set(fit.targets):
        raise HybridError(f"not the same instrument: the fit predicts {', '.join(fit.targets)}")
    for target in fit.targets:
        here_fields, fitted_fields = instrument.get(target), fit.instrument.get(target)
        if here_fields is None or fitted_fields is None:
            location = "here" if here_fields is None else "of the fit"
            raise HybridError(
                f"the scale of {target} {location} is unknown, so the instruments cannot be compared; set the "
                "scale and fit again"
            )
        if differ := [name for name in here_fields if here_fields[name] != fitted_fields[name]]:
            differences = "; ".join(
                f"{name} {fitted_fields[name]} of the fit, {here_fields[name]} here" for name in differ
            )
            raise HybridError(f"not the same instrument: {target} differs ({differences})")


def _ends(scale: tuple[float, float]) -> str:
    return f"{scale[0]:g} to {scale[1]:g}"


def _check(targets: tuple[str, ...], intercept: str, names: tuple[str, ...]) -> None:
    if not targets:
        raise HybridError("no target is chosen; name at least one rating dimension")
    if intercept not in INTERCEPTS:
        raise HybridError(f"intercept is {quote(intercept)}; it must be 'fold' or 'common'")
    for kind, choices in (("feature", names), ("target", targets)):
        twice = [name for i, name in enumerate(choices) if name in choices[:i]]
        if twice:
            raise HybridError(f"the {kind} {quote(twice[0])} is given twice")
