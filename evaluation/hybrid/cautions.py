"""Cautions for readers of a fit, and fallback results for bots.

Fallbacks are intervals based on the errors of other bots, and ranks instead of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evaluation.findings import Finding, finding
from evaluation.hybrid.calibration import intervals_by_errors
from evaluation.hybrid.features import METRICS, Design, block_of
from evaluation.hybrid.least_squares import LinearPredictor
from evaluation.hybrid.levels import features_by_bot
from evaluation.hybrid.results import BotResult, KeptFit
from evaluation.hybrid.verdict import FEW_BOTS

FAR = 3
"""Standard deviations above which a bot's mean feature is far from the conversations of the fit."""
COLLINEAR = 30
"""Condition number above which single weights are unreliable (Belsley, Kuh and Welsch 1980)."""


def cautions_of(fit: KeptFit, design: Design | None, n_rated: int) -> tuple[Finding, ...]:
    """Return the cautions that apply to this fit.

    `few_bots`; `fold_intercept`: each fold's own intercept includes the left-out bot's mean with a minus sign, so
    uninformative features correlate at nearly −1; `constant_features`: dropped in at least one fold; `collinear`;
    `partly_rated`: conversations counted as unrated because a target dimension is missing; `undefined_features`:
    skipped conversations.

    Args:
        n_rated: number of rated bots.
    """
    cautions = []
    if n_rated < FEW_BOTS:
        cautions.append(finding("few_bots", n_bots=n_rated))
    if fit.intercept == "fold":
        cautions.append(finding("fold_intercept"))
    single_features = [name for name in fit.shown_features if name in fit.features]
    dropped = [name for name in single_features if any(name in unused(fit, fold) for fold in fit.folds.values())]
    if dropped:
        cautions.append(finding("constant_features", features=dropped))
    worst = max((line.condition or 0.0 for line in fit.folds.values()), default=0.0)
    if worst > COLLINEAR:
        # JSON has no infinity, so None if one feature is a sum of others.
        cautions.append(finding("collinear", condition=worst if np.isfinite(worst) else None))
    if design is not None and design.n_partly_rated:
        cautions.append(finding("partly_rated", n_conversations=design.n_partly_rated))
    if design is not None and design.n_dropped:
        cautions.append(finding("undefined_features", n_conversations=design.n_dropped))
    return tuple(cautions)


def beyond_scale_of(fit: KeptFit, bots: Mapping[str, BotResult]) -> list[Finding]:
    """Find bots with predictions outside the rating scale.

    A linear model can exceed it.
    """
    if fit.scale_range is None:
        return []
    low, high = fit.scale_range
    beyond = [
        bot
        for bot, result in bots.items()
        if any(
            value is not None and not low <= value <= high for value in (result.predicted, result.predicted_selfplay)
        )
    ]
    return [finding("beyond_scale", bots=beyond, low=low, high=high)] if beyond else []


def extrapolations_of(fit: KeptFit, *designs: Design | None) -> list[Finding]:
    """Find bots whose conversations are far from those of the fit.

    A linear model is unreliable there.

    For example, a bot that repeats its partner has higher similarities than any real conversation, and a high score.
    """
    far: dict[str, dict[str, None]] = {}
    for design in designs:
        if design is None:
            continue
        for bot, mean in features_by_bot(design).items():
            distance = np.abs(mean - fit.centre) > FAR * np.where(fit.scale > 0, fit.scale, np.inf)
            names = [
                name for name, is_far in zip(fit.features, distance, strict=True) if is_far and block_of(name) is None
            ]
            if names:
                far.setdefault(bot, {}).update(dict.fromkeys(names))
    return [
        finding("extrapolation", bot=bot, features=list(names), deviations=FAR) for bot, names in sorted(far.items())
    ]


def shifts_of(shifts: Mapping[str, Mapping[str, float]]) -> list[Finding]:
    """Find feature blocks in which self-play is unusually far from human chats.

    That is, further than any rated bot from the others.

    The process then extrapolates, and its intervals widen.
    """
    return [
        finding("selfplay_shift", block=name, **shift)
        for name, shift in shifts.items()
        if shift["shift"] > shift["widest"]
    ]


def unused(fit: KeptFit, line: LinearPredictor) -> tuple[str, ...]:
    """Return the individual features that this fold dropped as constant."""
    return tuple(
        name
        for name, used in zip(fit.features, line.used, strict=True)
        if not used and block_of(name) is None and (METRICS in line.blocks or line.penalty is None)
    )


def with_errors(bots: Mapping[str, BotResult], predicted: Mapping[str, float]) -> dict[str, BotResult]:
    """Return the bots with intervals based on the others' errors.

    For fits without intervals.

    Args:
        predicted: with each fold's own intercept.
    """
    human = {bot: result.human_mean for bot, result in bots.items() if result.human_mean is not None}
    intervals = intervals_by_errors(predicted, human, {bot: result.n for bot, result in bots.items()})
    return {bot: replace(result, expected=intervals.get(bot)) for bot, result in bots.items()}


def ranked(bots: Mapping[str, BotResult]) -> dict[str, BotResult]:
    """Return the bots with ranks instead of predicted values."""
    ranks = [
        _ranks({bot: value for bot, result in bots.items() if (value := read(result)) is not None})
        for read in (lambda result: result.predicted, lambda result: result.predicted_selfplay)
    ]
    return {
        bot: replace(
            result, predicted=None, predicted_selfplay=None, rank=ranks[0].get(bot), rank_selfplay=ranks[1].get(bot)
        )
        for bot, result in bots.items()
    }


def _ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Return ranks, 1 for the highest; equal values share the better rank."""
    return {bot: 1 + sum(rival > value for rival in values.values()) for bot, value in values.items()}
