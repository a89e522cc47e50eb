"""How the answers to a question spread, as a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evaluation.analysis.answers import DimensionAnswers
from evaluation.ratings import Dimension
from webapp.dashboard.plots.figure import Figure
from webapp.dashboard.plots.likert import Spread, spread_figure
from webapp.ratings.bots import BotInfo


def answers_figure(
    found: DimensionAnswers,
    dimension: Dimension,
    bots: Mapping[str, BotInfo],
    link: Callable[[str], str] = lambda bot: "",
) -> Figure:
    """Return the share of each answer for every bot.

    Args:
        dimension: what the answers are about, with its title.
        link: address of a bot's conversations.
    """
    spreads = [
        Spread(bots[bot.bot], list(bot.counts), bot.mean, link(bot.bot)) for bot in found.bots
    ]
    return spread_figure(spreads, dimension, found.steps)
