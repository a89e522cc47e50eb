"""Least-filled first: every bot or item gets the same number of tasks."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.rules.base import register_rule


@register_rule
class Balanced:
    """Rule that gives what has the fewest completed and open tasks; ties are drawn by the study's seed."""

    name = "balanced"
    title = "Balanced"
    description = "Each person gets the bot that has had the fewest conversations so far."
    identity = Identity("balanced", "1")
    reads_needs = False

    def choose(
        self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None
    ) -> int:
        return rng.randrange(bisect_right(loads, loads[0]))
