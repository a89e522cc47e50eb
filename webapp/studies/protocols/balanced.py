"""Least-filled first: every bot gets the same number of conversations."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.protocols.base import BotLoad, register_protocol


@register_protocol
class Balanced:
    """The bot with the fewest completed and open assignments; ties are drawn by the study's seed."""

    name = "balanced"
    title = "Balanced"
    description = "Each person gets the bot that has had the fewest conversations so far."
    identity = Identity("balanced", "1")

    def choose(self, loads: Sequence[BotLoad], rng: random.Random) -> str:
        fewest = min(load.n_completed + load.n_open for load in loads)
        return rng.choice(
            [load.bot_id for load in loads if load.n_completed + load.n_open == fewest]
        )
