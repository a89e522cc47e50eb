"""The contract of an assignment rule, and its registry."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry


class AssignmentRule(Protocol):
    """Decides which bot or item somebody is given next. A rule that is a subclass reads no needs unless it says so.

    Attributes:
        reads_needs: whether it wants to know which bots need more ratings. A job then looks at the ratings as they
            come and stores it (`OrderState`); a draw only reads that.
    """

    name: str
    title: str
    description: str
    reads_needs: bool = False

    @property
    def identity(self) -> Identity: ...

    def choose(
        self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None
    ) -> int:
        """Return which one to give, as its place in `loads`.

        Args:
            loads: how many tasks each has had, completed or under way, fewest first; never empty, and only
                of what is available and new to this person.
            needs: how many more ratings each needs, in the same order; None where that is not known.
        """
        ...


rules: Registry[AssignmentRule] = Registry("assignment rule", "webapp.studies.rules")


def register_rule(cls: C) -> C:
    """Make one rule of the decorated class and list it."""
    rules.register(cls)
    return cls
