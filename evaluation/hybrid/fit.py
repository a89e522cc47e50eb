"""The hybrid metric: predict human ratings of bots that the fit has not seen.

M_H = λ_0 + Σ λ_i M_i by ordinary least squares, fitted without one bot at a time (Ghandeharioun et al.
2019; fact sheet section 3). Everything learned from ratings is learned without the bot predicted.

Two intercepts. `fold`, as the paper: each fold has its own, which is close to the mean rating of the other
bots and so carries the left-out bot's mean with a minus sign; features that say nothing then correlate
at nearly −1 with the human means. `common`, the default: features are centred on all bots, all folds share
one intercept and a fold gives the slopes only; then chance correlates near 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.storable import quote
from evaluation.analysis.findings import finding
from evaluation.hybrid.apart import ToldApart, told_apart
from evaluation.hybrid.assess import assess
from evaluation.hybrid.baselines import GROUP, MIN_BOTS, baselines_of, with_indicators
from evaluation.hybrid.bot_level import INTERCEPTS, PREFERRED_INTERCEPT, Intercept, NullOf
from evaluation.hybrid.features import HybridError, design_of
from evaluation.hybrid.fitting import (
    blocks_in,
    fit_least_squares,
    fit_process,
    fit_ridge,
    means_given,
)
from evaluation.hybrid.levels import LENGTHS, permuted_lines, permuted_ridge
from evaluation.hybrid.presets import preset_get
from evaluation.hybrid.results import HybridResult, KeptFit
from evaluation.ratings import Ratings
from evaluation.wording import counted

if TYPE_CHECKING:
    import pandas as pd


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
) -> HybridResult:
    """Fit leave-bot-out, predict, and compare with the human ratings.

    Args:
        human: one row per rated conversation (or one per rating: they are averaged): `conversation`,
            `bot`, optionally `participant`, the features and the rating dimensions. Columns `words_user`
            and `n_turns` serve as baselines; `group` (any label per bot, e.g. its training corpus) too. For
            the preset `strong@2` also the columns of `evaluation.hybrid.embeddings.pooled_embeddings`.
        features: metric columns that predict; None: the preset's. Its embeddings stay next to them.
        targets: rating dimensions; several are averaged as they are.
        preset: "paper", "strong" or an earlier version of one, as "strong@2".
        intercept: "fold" or "common", see above.
        selfplay: `conversation`, `bot` and the features of self-play conversations. A bot without
            ratings is predicted by the fit on all rated bots, with a bootstrap interval.
        seed: of bootstrap and permutations.
        dimensions: further rating dimensions to correlate the bot scores with.
        metric_identities: identities of the metrics behind the columns, kept with the fit.
        ratings: every single rating: what `strong` takes rater effects and rating noise from, and what tells
            which bots people can tell apart, as comparisons of bots do. Without it every conversation counts as
            one rating.
        study: key of the study, kept with the fit: applied to another one it gives ranks only.

    Raises:
        HybridError: fewer than three bots with usable ratings, too few conversations, unknown preset or
            column.
    """
    chosen = preset_get(preset)
    scalars = tuple(chosen.features if features is None else features)
    names = (*scalars, *blocks_in(chosen, human))
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    _check(targets, intercept, names)
    others = tuple(name for name in dimensions if name not in targets)
    human, groups = with_indicators(human)
    labels = {} if not groups else dict(zip(human["bot"].astype(str), human[GROUP], strict=True))
    design = design_of(human, names, targets, dimensions=others, extra=[*LENGTHS, *groups])
    rated = design.rows(np.isfinite(design.y))
    n_bots = len(set(rated.bots))
    if n_bots < MIN_BOTS:
        raise HybridError(
            f"{counted(n_bots, 'bot')} with rated conversations of which all features are defined; "
            f"leave-bot-out needs at least {MIN_BOTS} ({counted(len(design.rated), 'bot')} rated, "
            f"{counted(design.n_dropped, 'conversation')} with an undefined feature)"
        )
    null: NullOf
    carrying = adjusted = None
    if chosen.parts:
        kept, process = fit_process(rated, chosen, targets, intercept, ratings, metric_identities)
        adjusted = process.adjusted
        null = partial(process.permuted, seed=seed)
    elif chosen.penalties:
        kept, engine = fit_ridge(rated, chosen, targets, intercept, ratings, metric_identities)
        null = partial(permuted_ridge, engine, seed=seed)
    else:
        kept, factors, carrying = fit_least_squares(
            rated, chosen, targets, intercept, seed, metric_identities
        )
        null = partial(permuted_lines, factors, seed=seed)
    kept = replace(kept, scale_range=_scale(ratings, targets), study=study, ratings=design.digest())
    target = rated if adjusted is None else replace(rated, y=adjusted)
    played = None
    if selfplay is not None:
        played = design_of(selfplay, names, extra=list(LENGTHS))
    found = assess(
        kept,
        design,
        played,
        seed=seed,
        null=null,
        told_apart=told_apart(human, targets, ratings),
        adjusted=adjusted,
        held=None if kept.means is None else kept.means.whole,
        baselines=baselines_of(target, groups, intercept, seed),
        baselines_selfplay=None
        if played is None
        else baselines_of(target, groups, intercept, seed, at=played),
        dimensions=(*targets, *others),
        groups=labels,
    )
    return replace(found, carrying=carrying)


def apply_fit(
    fit: KeptFit,
    *,
    human: pd.DataFrame | None = None,
    selfplay: pd.DataFrame | None = None,
    targets: Sequence[str] | None = None,
    seed: int = 0,
    ratings: Ratings | None = None,
    study: str = "",
) -> HybridResult:
    """Apply a kept fit to conversations it was not fitted on.

    Args:
        fit: a bot that it has seen is predicted by the fold without that bot.
        human: as of `fit_hybrid`; with the target dimensions if they are rated, then correlated.
        selfplay: as of `fit_hybrid`.
        targets: rating dimensions of `human` to compare with, if not those of the fit.
        ratings: as of `fit_hybrid`. Everything is compared with these, and with those of the fit nowhere.
        study: key of the study applied to. Where it is not known to be that of the fit, only the order of the
            predictions counts: bots have ranks, and no values, intervals or agreement of values, and a caution says so.
            Self-play alone, of no study, has the values of the fit's own.

    Raises:
        HybridError: if neither table is given, a feature is missing, or the ratings are on another scale.
    """
    if human is None and selfplay is None:
        raise HybridError("nothing to apply the fit to: give a study or a self-play run")
    wanted = fit.targets if targets is None else tuple(targets)
    scale = None if human is None else _scale(ratings, wanted)
    is_rated = human is not None and all(target in human.columns for target in wanted)
    unknown = []
    if is_rated and (scale is None or fit.scale_range is None):
        unknown.append(
            finding("scale_unknown", of_fit=fit.scale_range is None, of_ratings=scale is None)
        )
    if scale is not None and fit.scale_range is not None and scale != fit.scale_range:
        raise HybridError(
            f"the fit predicts {', '.join(fit.targets)} on a scale of {_ends(fit.scale_range)}, and "
            f"{', '.join(wanted)} is rated on {_ends(scale)}; fit to ratings on {_ends(scale)}"
        )
    apart = ToldApart()
    if human is None:
        design = None
    elif is_rated:
        design = design_of(human, fit.features, wanted)
        apart = told_apart(human, wanted, ratings)
    else:
        design = design_of(human, fit.features)
    played = None if selfplay is None else design_of(selfplay, fit.features)
    elsewhere = not fit.study or fit.study != study
    if human is None and not study:
        elsewhere = False
    held = adjusted = None
    if fit.means is not None and design is not None and is_rated and not elsewhere:
        held, adjusted = means_given(design.rows(np.isfinite(design.y)), wanted, ratings)
    found = assess(
        fit,
        design,
        played,
        seed=seed,
        null=None,
        told_apart=apart,
        adjusted=adjusted,
        held=held,
        own=design is not None and design.digest() == fit.ratings,
        elsewhere=elsewhere,
    )
    return replace(found, cautions=(*found.cautions, *unknown))


def _scale(ratings: Ratings | None, targets: Sequence[str]) -> tuple[float, float] | None:
    """Return the ends of the scale of the targets' mean; None where one is unknown or was read off the answers."""
    dimensions = () if ratings is None else ratings.dimensions
    known = {one.key: one for one in dimensions if not one.inferred}
    if any(target not in known for target in targets):
        return None
    ends = [(known[target].low, known[target].high) for target in targets]
    return float(np.mean([low for low, _ in ends])), float(np.mean([high for _, high in ends]))


def _ends(scale: tuple[float, float]) -> str:
    return f"{scale[0]:g} to {scale[1]:g}"


def _check(targets: tuple[str, ...], intercept: str, names: tuple[str, ...]) -> None:
    if not targets:
        raise HybridError("no target is chosen; name at least one rating dimension")
    if intercept not in INTERCEPTS:
        raise HybridError(f"intercept is {quote(intercept)}; it must be 'fold' or 'common'")
    for what, given in (("feature", names), ("target", targets)):
        twice = [name for i, name in enumerate(given) if name in given[:i]]
        if twice:
            raise HybridError(f"the {what} {quote(twice[0])} is named twice")
