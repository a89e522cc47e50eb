"""The hybrid metric: predict human ratings of bots that the fit has not seen.

M_H = λ_0 + Σ λ_i M_i by ordinary least squares, fitted without one bot at a time (Ghandeharioun et al.
2019; fact sheet section 3). Everything learned from ratings is learned without the bot predicted.

Two intercepts. `fold`, as the paper: each fold has its own, which is close to the mean rating of the other
bots and so carries the left-out bot's mean with a minus sign; features that say nothing then correlate
at nearly −1 with the human means. `common`: features are centred on all bots, all folds share one
intercept and a fold gives the slopes only; then chance correlates near 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots import Identity
from evaluation.hybrid.baselines import BASELINES, MIN_BOTS, baselines_of, with_indicators
from evaluation.hybrid.features import Design, HybridError, design_of
from evaluation.hybrid.leastsquares import Factors
from evaluation.hybrid.levels import (
    bootstrap_draws,
    bot_levels,
    coefficients_of,
    features_by_bot,
    interval_of,
    pairs_of,
    refit_null,
    unseen_interval,
)
from evaluation.hybrid.presets import Preset, preset_get
from evaluation.hybrid.results import (
    BotLevel,
    BotResult,
    Fold,
    HybridResult,
    Intercept,
    KeptFit,
)
from evaluation.stats.correlation import Correlation, correlate_all

if TYPE_CHECKING:
    import pandas as pd

FEW_BOTS = 5
N_DRAWS = 500
FAR = 3
"""Standard deviations from which on a bot's mean feature is called far from the fit's conversations."""

NullOf = Callable[[Mapping[str, np.ndarray]], dict[str, float | None]]


def fit_hybrid(
    human: pd.DataFrame,
    *,
    features: Sequence[str] | None = None,
    targets: Sequence[str] = ("quality",),
    preset: str = "paper",
    intercept: Intercept = "fold",
    selfplay: pd.DataFrame | None = None,
    seed: int = 0,
    dimensions: Sequence[str] = (),
    metric_identities: Mapping[str, Any] | None = None,
) -> HybridResult:
    """Fit leave-bot-out, predict, and compare with the human ratings.

    Args:
        human: one row per rated conversation (or one per rating: they are averaged): `conversation_id`,
            `bot`, optionally `participant`, the features and the rating dimensions. Columns `words_user`
            and `n_turns` serve as baselines; `group` (any label per bot, e.g. its training corpus) too.
        features: columns that predict; None: the preset's.
        targets: rating dimensions; several are averaged as they are.
        preset: "paper".
        intercept: "fold" or "common", see above.
        selfplay: `conversation_id`, `bot` and the features of self-play conversations. A bot without
            ratings is predicted by the fit on all rated bots, with a bootstrap interval.
        seed: of bootstrap and permutations.
        dimensions: further rating dimensions to correlate the bot scores with.
        metric_identities: identities of the metrics behind the columns, kept with the fit.

    Raises:
        HybridError: fewer than three bots with usable ratings, too few conversations, unknown preset or
            column.
    """
    chosen = preset_get(preset)
    names = tuple(chosen.features if features is None else features)
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    _check(targets, intercept, names)
    others = tuple(name for name in dimensions if name not in targets)
    human, groups = with_indicators(human)
    design = design_of(
        human, names, targets, dimensions=others, extra=[*BASELINES.values(), *groups]
    )
    rated = design.rows(np.isfinite(design.y))
    n_bots = len(set(rated.bots))
    if n_bots < MIN_BOTS:
        raise HybridError(
            f"{n_bots} bots have rated conversations with all features defined; leave-bot-out needs at "
            f"least {MIN_BOTS} ({len(design.rated)} bots are rated, {design.n_dropped} conversations have "
            "an undefined feature)"
        )
    kept, factors = _fit(rated, chosen, targets, intercept, seed, metric_identities)
    null = partial(refit_null, factors, common=intercept == "common", seed=seed)
    return _assess(
        kept,
        design,
        None if selfplay is None else design_of(selfplay, names),
        seed=seed,
        null=null,
        baselines=baselines_of(rated, groups, intercept, seed),
        dimensions=(*targets, *others) if len(targets) > 1 or others else (),
    )


def apply_fit(
    fit: KeptFit,
    *,
    human: pd.DataFrame | None = None,
    selfplay: pd.DataFrame | None = None,
    targets: Sequence[str] | None = None,
    seed: int = 0,
) -> HybridResult:
    """Apply a kept fit to conversations it was not fitted on.

    Args:
        fit: a bot that it has seen is predicted by the fold without that bot.
        human: as of `fit_hybrid`; with the target dimensions if they are rated, then correlated.
        selfplay: as of `fit_hybrid`.
        targets: rating dimensions of `human` to compare with, if not those of the fit.

    Raises:
        HybridError: if neither table is given or a feature is missing.
    """
    if human is None and selfplay is None:
        raise HybridError("nothing to apply the fit to: give a study or a self-play run")
    wanted = fit.targets if targets is None else tuple(targets)
    if human is None:
        design = None
    elif all(target in human.columns for target in wanted):
        design = design_of(human, fit.features, wanted)
    else:
        design = design_of(human, fit.features)
    played = None if selfplay is None else design_of(selfplay, fit.features)
    return _assess(fit, design, played, seed=seed, null=None, baselines={}, dimensions=())


def _check(targets: tuple[str, ...], intercept: str, names: tuple[str, ...]) -> None:
    if not targets:
        raise HybridError("no target is chosen; name at least one rating dimension")
    if intercept not in ("fold", "common"):
        raise HybridError(f"intercept is {intercept!r}; it must be 'fold' or 'common'")
    for what, given in (("feature", names), ("target", targets)):
        twice = [name for i, name in enumerate(given) if name in given[:i]]
        if twice:
            raise HybridError(f"the {what} {twice[0]!r} is named twice")


def _fit(
    rated: Design,
    preset: Preset,
    targets: tuple[str, ...],
    intercept: Intercept,
    seed: int,
    metric_identities: Mapping[str, Any] | None,
) -> tuple[KeptFit, Factors]:
    factors = Factors(rated.x, rated.y, rated.bots)
    folds = {bot: factors.line(factors.without(k)) for k, bot in enumerate(factors.bots)}
    identity = Identity(
        f"hybrid_{preset.name}",
        preset.version,
        {
            "features": list(rated.features),
            "targets": list(targets),
            "intercept": intercept,
            "metrics": dict(metric_identities or {}),
        },
    )
    kept = KeptFit(
        identity=identity,
        preset=preset.name,
        features=rated.features,
        targets=targets,
        intercept=intercept,
        centre=factors.centre,
        scale=factors.scale,
        target_mean=factors.target_mean,
        whole=factors.line(range(len(factors.bots))),
        folds=folds,
        draws=bootstrap_draws(factors, N_DRAWS, seed),
    )
    return kept, factors


def _assess(
    fit: KeptFit,
    design: Design | None,
    played: Design | None,
    *,
    seed: int,
    null: NullOf | None,
    baselines: dict[str, dict[str, BotLevel]],
    dimensions: Sequence[str],
) -> HybridResult:
    """Predict every bot and compare with its ratings."""
    bots = _bot_results(fit, design, played, seed)
    rated = None if design is None else design.rows(np.isfinite(design.y))
    if rated is None or not len(rated.y):
        why = "no conversation has a rating"
        conversation_level = dict.fromkeys(
            ("pearson", "spearman", "kendall"), Correlation(None, None, None, None, 0, reason=why)
        )
        predictions: dict[str, np.ndarray] = {}
    else:
        predicted = _predict(fit, rated)
        units = None
        if any(person is not None for person in rated.people):
            units = [f"alone {i}" if p is None else f"p {p}" for i, p in enumerate(rated.people)]
        conversation_level = correlate_all(predicted, rated.y, units=units, seed=seed)
        predictions = {"bot": rated.bots, "target": rated.y, "predicted": predicted}

    human = {b: r.human_mean for b, r in bots.items() if r.human_mean is not None}
    scores = {
        "predicted": {b: r.predicted for b, r in bots.items() if r.predicted is not None},
        "predicted_selfplay": {
            b: r.predicted_selfplay for b, r in bots.items() if r.predicted_selfplay is not None
        },
    }

    def level(source: str, of: Design | None) -> dict[str, BotLevel]:
        both = [bot for bot in scores[source] if bot in human]
        refit = None
        if null is not None and of is not None:
            at = {bot: mean for bot, mean in features_by_bot(of).items() if bot in both}
            refit = partial(null, at)
        return bot_levels(
            [scores[source][b] for b in both], [human[b] for b in both], seed=seed, null=refit
        )

    lines = list(fit.folds.values())
    return HybridResult(
        fit=fit,
        n_conversations=0 if rated is None else len(rated.y),
        n_bots=0 if rated is None else len(set(rated.bots)),
        coefficients=coefficients_of(fit.features, lines, fit.scale),
        bots=bots,
        conversation_level=conversation_level,
        bot_level=level("predicted", rated),
        bot_level_selfplay=None if played is None else level("predicted_selfplay", played),
        pairs=pairs_of(scores["predicted"], {} if design is None else design.rated),
        folds=tuple(
            Fold(
                bot,
                line.n,
                line.condition,
                tuple(name for name, used in zip(fit.features, line.used, strict=True) if not used),
            )
            for bot, line in fit.folds.items()
        ),
        baselines=baselines,
        dimensions=_dimensions(design, scores, dimensions, seed),
        n_dropped=0 if design is None else design.n_dropped,
        dropped={} if design is None else design.dropped,
        cautions=(*_cautions(fit, design, len(human)), *_extrapolations(fit, design, played)),
        predictions=predictions,
    )


def _predict(fit: KeptFit, design: Design) -> np.ndarray:
    predicted = np.full(len(design.bots), np.nan)
    for bot in dict.fromkeys(design.bots):
        mine = design.bots == bot
        predicted[mine] = fit.predict(design.x[mine], str(bot))
    return predicted


def _bot_results(
    fit: KeptFit, design: Design | None, played: Design | None, seed: int
) -> dict[str, BotResult]:
    seen: dict[str, None] = {}
    if design is not None:
        seen.update(dict.fromkeys([*design.rated, *(str(bot) for bot in design.bots)]))
    if played is not None:
        seen.update(dict.fromkeys(str(bot) for bot in played.bots))
    found = {}
    for bot in sorted(seen):
        ratings, people = (None, None) if design is None else design.rated.get(bot, (None, None))
        predicted, predicted_ends, n_human = _scored(fit, design, bot, seed)
        selfplay, selfplay_ends, n_selfplay = _scored(fit, played, bot, seed)
        reasons = []
        if ratings is None:
            reasons.append("no rating")
        if ratings is not None and not n_human:
            reasons.append("no conversation with people has all features defined")
        if played is not None and not n_selfplay:
            reasons.append("no self-play conversation has all features defined")
        found[bot] = BotResult(
            human_mean=None if ratings is None else float(ratings.mean()),
            predicted=predicted,
            predicted_selfplay=selfplay,
            n=0 if ratings is None else len(ratings),
            n_selfplay=n_selfplay,
            human_interval=None if ratings is None else interval_of(ratings, people, seed),
            predicted_interval=predicted_ends,
            selfplay_interval=selfplay_ends,
            reason="; ".join(reasons) or None,
        )
    return found


def _scored(
    fit: KeptFit, design: Design | None, bot: str, seed: int
) -> tuple[float | None, tuple[float, float] | None, int]:
    """A bot's mean prediction over its conversations, its 90 % interval, and their number."""
    if design is None or not (mine := design.bots == bot).any():
        return None, None, 0
    # The score stands beside the human mean of rated conversations, so it is made of the same ones.
    if np.isfinite(design.y[mine]).any():
        mine = mine & np.isfinite(design.y)
    x = design.x[mine]
    values = fit.predict(x, bot)
    if bot in fit.folds:
        ends = interval_of(values, design.people[mine], seed)
    else:
        ends = unseen_interval(x, fit.draws, seed)
    return float(values.mean()), ends, len(x)


def _dimensions(
    design: Design | None,
    scores: Mapping[str, Mapping[str, float]],
    names: Sequence[str],
    seed: int,
) -> dict[str, dict[str, dict[str, Correlation]]]:
    """Bot scores against the bots' means of each rating dimension (step 4 of the paper)."""
    if design is None:
        return {}
    found: dict[str, dict[str, dict[str, Correlation]]] = {}
    for name in names:
        values = design.ratings[name]
        means = {
            str(bot): float(values[mine].mean())
            for bot in dict.fromkeys(design.bots)
            if (mine := (design.bots == bot) & np.isfinite(values)).any()
        }
        found[name] = {}
        for source, predicted in scores.items():
            both = [bot for bot in predicted if bot in means]
            if both:
                found[name][source] = correlate_all(
                    [predicted[b] for b in both], [means[b] for b in both], seed=seed
                )
    return found


def _cautions(fit: KeptFit, design: Design | None, n_rated: int) -> tuple[str, ...]:
    """What a reader must know before believing the numbers, in plain words."""
    found = []
    if n_rated < FEW_BOTS:
        found.append(f"{n_rated} bots are rated: too few for a correlation over bots to mean much.")
    if fit.intercept == "fold":
        found.append(
            "Each fold has its own intercept, which carries the left-out bot's mean with a minus sign: "
            "features that say nothing correlate at nearly −1. Compare with the common intercept."
        )
    dropped = sorted({f for line in fit.folds.values() for f in _unused(fit.features, line.used)})
    if dropped:
        found.append(f"Constant in at least one fold and dropped there: {', '.join(dropped)}.")
    worst = max((line.condition or 0.0 for line in fit.folds.values()), default=0.0)
    if worst > 30:
        found.append(
            f"Features are nearly collinear (condition number up to {worst:.0f}): single weights mean "
            "little."
        )
    if design is not None and design.n_dropped:
        found.append(
            f"{design.n_dropped} conversations have an undefined feature and are left out of the fit."
        )
    return tuple(found)


def _extrapolations(fit: KeptFit, *designs: Design | None) -> list[str]:
    """Bots whose conversations lie far from all the fit has seen: a line says little out there.

    A bot that repeats its partner, for one, has similarities no real conversation has, and a high score.
    """
    far: dict[str, dict[str, None]] = {}
    for design in designs:
        if design is None:
            continue
        for bot, mean in features_by_bot(design).items():
            distance = np.abs(mean - fit.centre) > FAR * np.where(fit.scale > 0, fit.scale, np.inf)
            names = [name for name, is_far in zip(fit.features, distance, strict=True) if is_far]
            if names:
                far.setdefault(bot, {}).update(dict.fromkeys(names))
    return [
        f"The prediction of {bot} is an extrapolation: its mean {', '.join(names)} is more than {FAR} standard "
        "deviations from the conversations of the fit."
        for bot, names in sorted(far.items())
    ]


def _unused(features: Sequence[str], used: np.ndarray) -> list[str]:
    return [name for name, taken in zip(features, used, strict=True) if not taken]
