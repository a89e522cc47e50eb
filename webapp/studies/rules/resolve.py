"""People go where the order of the bots is least settled."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.rules.balanced import Balanced
from webapp.studies.rules.base import register_rule

FLOOR = 0.2
"""Fraction of draws that ignore the needs, so that every bot keeps getting ratings."""


@register_rule
class Resolve:
    """Draw by the number of ratings each bot still needs to differ significantly from others, by the stored state.

    Each bot's probability follows from the state, and the draws keep the anytime-valid intervals valid. Without a
    state, or if no bot needs ratings, it balances.
    """

    name = "resolve"
    title = "Where the order is least settled"
    description = (
        "Each person more likely gets a bot that ratings cannot yet tell from another; one person in five gets any. "
        "It needs a worker, which looks at the ratings as they come. Items are balanced."
    )
    identity = Identity("resolve", "1", {"floor": FLOOR})
    reads_needs = True

    def choose(
        self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None
    ) -> int:
        if needs is None or not any(needs):
            return Balanced().choose(loads, rng)
        if rng.random() < FLOOR:
            return rng.randrange(len(loads))
        return rng.choices(range(len(loads)), weights=needs)[0]
