"""Length of the conversation: a trivial measure that every other one should beat.

Conversation length is a quantity of the released code (fact sheet section 1.6), here plain counts.
"""

from __future__ import annotations

import numpy as np

from evaluation.columns import Column
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared


@register_metric
class Length(MetricDefaults):
    """Turns and exchanges of a conversation."""

    name = "length"
    languages = ()
    title = "Length of the conversation"
    columns = (
        Column(
            "n_turns",
            "conversation",
            "Turns",
            "turns",
            (0, None),
            "neither",
            "Turns of the conversation, of both speakers.",
        ),
        Column(
            "n_exchanges",
            "conversation",
            "Exchanges",
            "exchanges",
            (0, None),
            "neither",
            "Pairs of a message and the bot's reply; a run of several turns of one speaker counts once. "
            "In self-play: pairs of consecutive utterances.",
        ),
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        n = len(layout.conversations)
        replies = layout.conversation_of[layout.exchanges[:, 1]]
        return Measured(
            turns={},
            conversations={
                "n_turns": np.bincount(layout.conversation_of, minlength=n).astype(float),
                "n_exchanges": np.bincount(replies, minlength=n).astype(float),
            },
        )
