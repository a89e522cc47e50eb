"""Everything with the same probability, as in the 2019 server's random studies."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.rules.base import register_rule


@register_rule
class Uniform:
    """Draw uniformly at random by the study's seed."""

    name = "uniform"
    title = "Random"
    description = "Each person gets a bot at random; numbers per bot will differ."
    identity = Identity("uniform", "1")
    reads_needs = False

    def choose(
        self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None
    ) -> int:
        return rng.randrange(len(loads))
