"""The contract of an assignment rule, and its registry."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry


class AssignmentRule(Protocol):
    """Decides which bot or item somebody is given next."""

    name: str
    title: str
    description: str

    @property
    def identity(self) -> Identity: ...

    def choose(self, loads: Sequence[int], rng: random.Random) -> int:
        """Return which one to give, as its place in `loads`.

        Args:
            loads: how many tasks each has had, completed or under way, fewest first; never empty, and only
                of what is available and new to this person.
        """
        ...


rules: Registry[AssignmentRule] = Registry("assignment rule", "webapp.studies.rules")


def register_rule(cls: C) -> C:
    """Make one rule of the decorated class and list it."""
    rules.register(cls)
    return cls
