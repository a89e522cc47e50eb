"""Pacing of a study: start and speed of replies are drawn from the same distributions for all chatbots."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist

from pydantic import Field

from chatbots.identity import derive_seed
from chatbots.outside import Number, Values

LONGEST_S = 45.0
"""No word is held back until later than this after its message: whatever is left of a reply is shown then."""


class Pacing(Values):
    """Settings for the pace at which replies appear."""

    paces_alike: bool = Field(
        default=False,
        title="Pace all chatbots alike",
        description="Replies begin after the time below and go on at the speed below, whichever chatbot writes. One "
        "that is slower by itself stays slower; its own times are kept and exported.",
    )
    first_words_s: Number = Field(
        default=2.0,
        ge=0.1,
        le=20,
        title="Seconds until the first words",
        description="The median: half of the replies begin sooner.",
    )
    first_words_spread: Number = Field(
        default=1.4,
        ge=1,
        le=3,
        title="Spread of that time",
        description="A factor: two replies in three begin between the median divided by it and the median times it. "
        "1: always the same time.",
    )
    words_per_s: Number = Field(
        default=6.0,
        ge=0.5,
        le=100,
        title="Words a second",
        description="Once a reply has begun.",
    )

    def draw(self, seed: int, turn: int) -> Pace:
        """Return the pace of one reply: the same for the same seed and turn, whichever bot gives it.

        The time to the first words is log-normal: its logarithm has the median's as its mean, and the spread's as its
        standard deviation.
        """
        share = random.Random(derive_seed(seed, "pace", turn)).uniform(0.001, 0.999)
        first_s = math.exp(
            math.log(self.first_words_s)
            + math.log(self.first_words_spread) * NormalDist().inv_cdf(share)
        )
        return Pace(first_s, self.words_per_s)


@dataclass(frozen=True, slots=True)
class Pace:
    """When the words of one reply are shown, in seconds after the message that it answers.

    Attributes:
        first_s: when its first word is.
        words_per_s: how many follow in a second.
    """

    first_s: float
    words_per_s: float
