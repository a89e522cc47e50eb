"""An assignment rule."""

from __future__ import annotations

import random

from chatbots import Identity
from webapp.studies.assignment.rules.base import AssignmentCase, AssignmentRule, register_rule


@register_rule
class FirstOfTheList(AssignmentRule):
    name = "first"
    title = "First"
    description = "Everybody gets the first bot of the study's list that they have not met."
    identity = Identity("first", "2")
    sets_order = True

    def choose_for(self, case: AssignmentCase, rng: random.Random) -> int:
        places = [case.bots.index(candidate.bot) for candidate in case.candidates]
        return places.index(min(places))
