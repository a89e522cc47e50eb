"""Least-filled first: every bot or item gets the same number of tasks."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.rules.base import Load, register_rule


@register_rule
class Balanced:
    """Give what has the fewest completed and open tasks; ties are drawn by the study's seed."""

    name = "balanced"
    title = "Balanced"
    description = "Each person gets the bot that has had the fewest conversations so far."
    identity = Identity("balanced", "1")

    def choose(self, loads: Sequence[Load], rng: random.Random) -> str:
        fewest = min(load.n_completed + load.n_open for load in loads)
        return rng.choice([load.id for load in loads if load.n_completed + load.n_open == fewest])
