"""Trivial predictors that a hybrid metric must beat to be credible.

With two corpora or two families of bots, almost everything correlates (fact sheet section 3, caution), and so does
message length. Each baseline is fitted leave-bot-out like the metric, on the same conversations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evaluation.hybrid.bot_level import BotLevel, Intercept
from evaluation.hybrid.features import Design, HybridError, log_lengths
from evaluation.hybrid.least_squares import Factors
from evaluation.hybrid.levels import bot_levels, permuted_lines

if TYPE_CHECKING:
    import pandas as pd

MIN_BOTS = 3
BASELINES = {
    "words_per_human_turn": "words_user",
    "log_words_per_human_turn": "log_words_user",
    "number_of_turns": "n_turns",
    "log_number_of_turns": "log_n_turns",
}
"""Trivial predictors by name, with their columns: one of `LENGTHS` if the table has it, or its logarithm."""
GROUP = "group"


def with_indicators(human: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Add indicator columns of `group`; return table and column names.

    The first label is the reference.
    """
    if GROUP not in human.columns:
        return human, []
    labels = human[GROUP].astype(str)
    columns = {f"{GROUP}={label}": (labels == label).to_numpy(dtype=float) for label in sorted(set(labels))[1:]}
    return human.assign(**columns), list(columns)


def baselines_of(
    rated: Design, groups: Sequence[str], intercept: Intercept, seed: int, selfplay: Design | None = None
) -> dict[str, dict[str, BotLevel]]:
    """Predict each bot from the others, by one trivial column at a time.

    Args:
        selfplay: self-play conversations to predict from, instead of the conversations used for fitting. A bot's group
            is the same in both.
    """
    rated = _with_logs(rated)
    selfplay = None if selfplay is None else _with_logs(selfplay)
    levels = {"mean_of_the_other_bots": _baseline(rated, (), intercept, seed, selfplay)}
    for name, column in BASELINES.items():
        if column in rated.extra and (selfplay is None or column in selfplay.extra):
            levels[name] = _baseline(rated, (column,), intercept, seed, selfplay)
    if groups:
        levels[GROUP] = _baseline(rated, groups, intercept, seed, selfplay)
    return levels


def _with_logs(design: Design) -> Design:
    return replace(design, extra={**design.extra, **log_lengths(design.extra)})


def _baseline(
    rated: Design, columns: Sequence[str], intercept: Intercept, seed: int, selfplay: Design | None
) -> dict[str, BotLevel]:
    x = np.stack([rated.extra[name] for name in columns], axis=1) if columns else None
    if x is None:
        x = np.zeros((len(rated.y), 0))
    keep = np.isfinite(x).all(axis=1)
    x, y, bots = x[keep], rated.y[keep], rated.bots[keep]
    if len(set(bots)) < MIN_BOTS:
        return bot_levels([], [], seed=seed)
    factors = Factors(x, y, bots)
    common = intercept == "common"
    means = {bot: x[bots == bot].mean(axis=0) for bot in factors.bots}
    if selfplay is not None:
        means = _selfplay_means(selfplay, columns, means)
    predicted, human = [], []
    for k, bot in enumerate(factors.bots):
        if bot not in means:
            continue
        human.append(factors.bot_means[k])
        try:
            line = factors.line(factors.leave_out(k))
        except HybridError:
            return bot_levels([], [], seed=seed)
        if common:
            predicted.append(factors.target_mean + (means[bot] - factors.centre) @ line.slopes)
        else:
            predicted.append(line.intercept + means[bot] @ line.slopes)
    null = partial(permuted_lines, factors, means, common=common, seed=seed)
    return bot_levels(predicted, human, seed=seed, null=null)


def _selfplay_means(selfplay: Design, columns: Sequence[str], means: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return self-play means of the columns, for bots in both tables.

    If `selfplay` lacks a column, the bots keep the means they already have.
    """
    bots = [bot for bot in means if (selfplay.bots == bot).any()]
    if not columns or any(column not in selfplay.extra for column in columns):
        return {bot: means[bot] for bot in bots}
    selfplay_means = {}
    for bot in bots:
        x = np.stack([selfplay.extra[name][selfplay.bots == bot] for name in columns], axis=1)
        x = x[np.isfinite(x).all(axis=1)]
        if len(x):
            selfplay_means[bot] = x.mean(axis=0)
    return selfplay_means
