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
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.hybrid.baselines import BASELINES, GROUP, MIN_BOTS, baselines_of, with_indicators
from evaluation.hybrid.cautions import cautions_of, extrapolations_of, unused
from evaluation.hybrid.features import Design, HybridError, design_of
from evaluation.hybrid.fitting import blocks_in, fit_least_squares, fit_ridge
from evaluation.hybrid.frame import (
    Frame,
    ceiling_of,
    influence_of,
    interval_over_conversations,
    within_groups_of,
)
from evaluation.hybrid.levels import (
    bot_levels,
    coefficients_of,
    features_by_bot,
    interval_of,
    jackknife_interval,
    pairs_of,
    refit_null,
    ridge_null,
    unseen_interval,
)
from evaluation.hybrid.presets import preset_get
from evaluation.hybrid.results import (
    INTERCEPTS,
    BotLevel,
    BotResult,
    Fold,
    HybridResult,
    Intercept,
    KeptFit,
)
from evaluation.hybrid.verdict import verdict_of
from evaluation.stats.correlation import METHODS, Correlation, Method, correlate_all

if TYPE_CHECKING:
    import pandas as pd

NullOf = Callable[..., dict[str, float | None]]
"""Mean features by bot and whether the intercept is `common` to the null's points by method."""


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
    ratings: pd.DataFrame | None = None,
) -> HybridResult:
    """Fit leave-bot-out, predict, and compare with the human ratings.

    Args:
        human: one row per rated conversation (or one per rating: they are averaged): `conversation_id`,
            `bot`, optionally `participant`, the features and the rating dimensions. Columns `words_user`
            and `n_turns` serve as baselines; `group` (any label per bot, e.g. its training corpus) too. For
            the preset `strong` also the columns of `evaluation.hybrid.embeddings.pooled_embeddings`.
        features: metric columns that predict; None: the preset's. Its embeddings stay beside them.
        targets: rating dimensions; several are averaged as they are.
        preset: "paper" or "strong".
        intercept: "fold" or "common", see above.
        selfplay: `conversation_id`, `bot` and the features of self-play conversations. A bot without
            ratings is predicted by the fit on all rated bots, with a bootstrap interval.
        seed: of bootstrap and permutations.
        dimensions: further rating dimensions to correlate the bot scores with.
        metric_identities: identities of the metrics behind the columns, kept with the fit.
        ratings: one row per rating, `conversation_id`, `rater` (None where unknown) and the dimensions: what
            `strong` takes rater effects and rating noise from. Without it every conversation counts alike.

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
    if chosen.penalties:
        kept, engine = fit_ridge(rated, chosen, targets, intercept, ratings, metric_identities)
        null = partial(ridge_null, engine, seed=seed)
    else:
        kept, factors = fit_least_squares(
            rated, chosen, targets, intercept, seed, metric_identities
        )
        null = partial(refit_null, factors, seed=seed)
    return _assess(
        kept,
        design,
        None if selfplay is None else design_of(selfplay, names),
        seed=seed,
        null=null,
        baselines={
            # The verdict argues from Pearson's r with the common intercept, whichever was asked for.
            kind: baselines_of(
                rated, groups, kind, seed, METHODS if kind == intercept else ["pearson"]
            )
            for kind in INTERCEPTS
            if kind in (intercept, "common")
        },
        dimensions=(*targets, *others) if len(targets) > 1 or others else (),
        groups=labels,
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
    return _assess(fit, design, played, seed=seed, null=None)


def _check(targets: tuple[str, ...], intercept: str, names: tuple[str, ...]) -> None:
    if not targets:
        raise HybridError("no target is chosen; name at least one rating dimension")
    if intercept not in INTERCEPTS:
        raise HybridError(f"intercept is {intercept!r}; it must be 'fold' or 'common'")
    for what, given in (("feature", names), ("target", targets)):
        twice = [name for i, name in enumerate(given) if name in given[:i]]
        if twice:
            raise HybridError(f"the {what} {twice[0]!r} is named twice")


def _assess(
    fit: KeptFit,
    design: Design | None,
    played: Design | None,
    *,
    seed: int,
    null: NullOf | None,
    baselines: Mapping[str, dict[str, dict[str, BotLevel]]] | None = None,
    dimensions: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
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

    def level(
        found: Mapping[str, float],
        of: Design | None,
        common: bool,
        methods: Sequence[Method] = METHODS,
    ) -> dict[str, BotLevel]:
        both = [bot for bot in found if bot in human]
        refit = None
        if null is not None and of is not None:
            at = {bot: mean for bot, mean in features_by_bot(of).items() if bot in both}
            refit = partial(null, at, common=common)
        return bot_levels(
            [found[b] for b in both],
            [human[b] for b in both],
            seed=seed,
            null=refit,
            methods=methods,
        )

    common = fit.intercept == "common"
    bot_level = level(scores["predicted"], rated, common)
    ratings_by_bot = {} if design is None else design.rated
    pairs = pairs_of(scores["predicted"], ratings_by_bot)
    intercepts = {fit.intercept: (bot_level["pearson"], pairs)}
    for kind in INTERCEPTS:
        if kind != fit.intercept:
            other = _bot_scores(replace(fit, intercept=kind), design)
            found = level(other, rated, kind == "common", ["pearson"])["pearson"]
            intercepts[kind] = (found, pairs_of(other, ratings_by_bot))
    both = [bot for bot in scores["predicted"] if bot in human]
    frame = Frame(
        intercepts={kind: intercepts[kind] for kind in INTERCEPTS},
        ceiling=ceiling_of({b: values for b, (values, _) in ratings_by_bot.items()}, seed),
        influence=influence_of(
            [scores["predicted"][b] for b in both], [human[b] for b in both], both
        ),
        over_conversations=interval_over_conversations(
            [
                (predictions["predicted"][mine], predictions["target"][mine])
                for bot in both
                if (mine := predictions["bot"] == bot).any()
            ],
            seed,
        ),
        within_group=within_groups_of(scores["predicted"], human, groups or {}),
    )
    lines = list(fit.folds.values())
    return HybridResult(
        fit=fit,
        n_conversations=0 if rated is None else len(rated.y),
        n_bots=0 if rated is None else len(set(rated.bots)),
        coefficients=coefficients_of(fit.features, lines, fit.scale),
        bots=bots,
        conversation_level=conversation_level,
        bot_level=bot_level,
        bot_level_selfplay=None
        if played is None
        else level(scores["predicted_selfplay"], played, common),
        pairs=pairs,
        folds=tuple(
            Fold(bot, line.n, line.condition, unused(fit, line), line.penalty, line.blocks)
            for bot, line in fit.folds.items()
        ),
        baselines=(baselines or {}).get(fit.intercept, {}),
        dimensions=_dimensions(design, scores, dimensions, seed),
        n_dropped=0 if design is None else design.n_dropped,
        dropped={} if design is None else design.dropped,
        cautions=(*cautions_of(fit, design, len(human)), *extrapolations_of(fit, design, played)),
        frame=frame,
        verdict=verdict_of(frame, (baselines or {}).get("common", {}), len(human)),
        predictions=predictions,
    )


def _bot_scores(fit: KeptFit, design: Design | None) -> dict[str, float]:
    """Mean prediction of each bot's conversations with people."""
    if design is None:
        return {}
    scores = {str(bot): _scored(fit, design, str(bot)) for bot in dict.fromkeys(design.bots)}
    return {bot: float(values.mean()) for bot, (_, values) in scores.items() if len(values)}


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
        predicted, predicted_ends, n_human = _score(fit, design, bot, seed)
        selfplay, selfplay_ends, n_selfplay = _score(fit, played, bot, seed)
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


def _scored(fit: KeptFit, design: Design | None, bot: str) -> tuple[np.ndarray, np.ndarray]:
    """Which conversations make a bot's score, (n,) mask, and their predictions."""
    if design is None:
        return np.zeros(0, dtype=bool), np.zeros(0)
    mine = design.bots == bot
    # The score stands beside the human mean of rated conversations, so it is made of the same ones.
    if np.isfinite(design.y[mine]).any():
        mine = mine & np.isfinite(design.y)
    return mine, fit.predict(design.x[mine], bot)


def _score(
    fit: KeptFit, design: Design | None, bot: str, seed: int
) -> tuple[float | None, tuple[float, float] | None, int]:
    """A bot's mean prediction over its conversations, its 90 % interval, and their number."""
    mine, values = _scored(fit, design, bot)
    if design is None or not len(values):
        return None, None, 0
    if bot in fit.folds:
        ends = interval_of(values, design.people[mine], seed)
    elif len(fit.draws):
        ends = unseen_interval(design.x[mine], fit.draws, seed)
    else:
        ends = jackknife_interval(design.x[mine], fit.whole, list(fit.folds.values()))
    return float(values.mean()), ends, len(values)


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
