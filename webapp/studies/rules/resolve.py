"""People go where the order of the bots is least settled."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.rules.balanced import Balanced
from webapp.studies.rules.base import register_rule

FLOOR = 0.2
"""The share of people that is drawn without regard to needs, so that no bot's ratings dry up."""


@register_rule
class Resolve:
    """Draw by how many more ratings each bot needs to be told apart from the others, by the stored state.

    The probability of each is known from the state, and what is drawn does not spoil the always-valid intervals.
    Without a state, or where all is settled, it balances.
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
