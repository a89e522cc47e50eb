"""Every bot with the same probability, as in the 2019 server's random studies."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.protocols.base import BotLoad, register_protocol


@register_protocol
class Uniform:
    """A bot drawn uniformly at random by the study's seed."""

    name = "uniform"
    title = "Random"
    description = "Each person gets a bot at random; numbers per bot will differ."
    identity = Identity("uniform", "1")

    def choose(self, loads: Sequence[BotLoad], rng: random.Random) -> str:
        return rng.choice([load.bot_id for load in loads])
