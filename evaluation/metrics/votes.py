"""Votes of participants while they chatted: up, down or nothing, per bot turn (fact sheet section 1.6)."""

from __future__ import annotations

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared


@register_metric
class Votes(MetricDefaults):
    """Manual votes -B."""

    name = "votes"
    languages = ()
    title = "Votes"
    columns = per_turn(
        "vote_bot",
        "Vote, bot",
        unit="1",
        range=(-1, 1),
        direction="higher",
        description="The participant's vote on the bot's turn: 1 up, -1 down, 0 none. Undefined in "
        "self-play, where nobody votes.",
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        if layout.self_play:
            return Measured(
                {"vote_bot": layout.spread(layout.bot[:0], [])},
                reasons={"vote_bot": ("nobody votes in self-play",)},
            )
        votes = [turn.vote for talk in layout.conversations for turn in talk.turns]
        return Measured({"vote_bot": layout.spread(layout.bot, [votes[i] for i in layout.bot])})
