"""Fallback results for bots: intervals by the errors of other bots, and ranks in place of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluation.hybrid.results import BotResult
from evaluation.hybrid.values import intervals_by_errors


def with_errors(
    bots: Mapping[str, BotResult], predicted: Mapping[str, float]
) -> dict[str, BotResult]:
    """Return the bots with intervals by the errors of the others, for a fit that states none of its own.

    Args:
        predicted: by the fold's own intercept.
    """
    human = {bot: one.human_mean for bot, one in bots.items() if one.human_mean is not None}
    found = intervals_by_errors(predicted, human, {bot: one.n for bot, one in bots.items()})
    return {bot: replace(one, expected=found.get(bot)) for bot, one in bots.items()}


def ranked(bots: Mapping[str, BotResult]) -> dict[str, BotResult]:
    """Return the bots with their places by the predictions, and without the values predicted."""
    ranks = [
        _ranks({bot: value for bot, one in bots.items() if (value := read(one)) is not None})
        for read in (lambda one: one.predicted, lambda one: one.predicted_selfplay)
    ]
    return {
        bot: replace(
            one,
            predicted=None,
            predicted_selfplay=None,
            rank=ranks[0].get(bot),
            rank_selfplay=ranks[1].get(bot),
        )
        for bot, one in bots.items()
    }


def _ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Return places, 1 for the highest; equals share the better place."""
    return {
        bot: 1 + sum(other > value for other in values.values()) for bot, value in values.items()
    }
