"""An assignment rule."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chatbots import Identity
from webapp.studies.assignment.rules.base import AssignmentRule, register_rule


@register_rule
class FirstOfTheList(AssignmentRule):
    name = "first"
    title = "First"
    description = "Everybody gets the first bot."
    identity = Identity("first", "1")

    def choose(self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None) -> int:
        return 0
