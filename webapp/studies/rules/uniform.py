"""Everything with the same probability, as in the 2019 server's random studies."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.rules.base import Load, register_rule


@register_rule
class Uniform:
    """Draw uniformly at random by the study's seed."""

    name = "uniform"
    title = "Random"
    description = "Each person gets a bot at random; numbers per bot will differ."
    identity = Identity("uniform", "1")

    def choose(self, loads: Sequence[Load], rng: random.Random) -> str:
        return rng.choice([load.id for load in loads])
