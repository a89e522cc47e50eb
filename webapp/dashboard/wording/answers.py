"""Figure of the distribution of answers to a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evaluation.analysis.answers import DimensionAnswers
from evaluation.plots.lettering import plain
from evaluation.ratings import Dimension
from webapp.dashboard.plots.figure import Figure
from webapp.dashboard.plots.likert import Spread, spread_figure
from webapp.ratings.bots import BotInfo

Link = Callable[[str, str], str]
"""Address of the conversations with a bot that were given an answer, or of all where it is empty."""


def answers_figure(
    found: DimensionAnswers,
    dimension: Dimension,
    bots: Mapping[str, BotInfo],
    link: Link | None = None,
) -> Figure:
    """Return the share of each answer for every bot.

    Args:
        dimension: what the answers are about, with its title.
        link: takes a bot and an answer as it was given, which of a reversed question is not as it counts.
    """
    given = [
        plain(dimension.low + dimension.high - step if dimension.reversed else step)
        for step in found.steps
    ]
    spreads = [
        Spread(
            bots[bot.bot],
            list(bot.counts),
            bot.mean,
            link(bot.bot, "") if link else "",
            [link(bot.bot, answer) for answer in given] if link else [],
        )
        for bot in found.bots
    ]
    return spread_figure(spreads, dimension, found.steps)
