"""The contract of an assignment rule, and its registry."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry


class AssignmentRule(Protocol):
    """Choice of a participant's next bot or item. A rule that is a subclass reads no needs unless it sets this.

    Attributes:
        reads_needs: True if it uses the number of further ratings that bots need. A job then computes it from new
            ratings and stores it (`OrderState`); a draw only reads that.
    """

    name: str
    title: str
    description: str
    reads_needs: bool = False

    @property
    def identity(self) -> Identity: ...

    def choose(self, loads: Sequence[int], rng: random.Random, needs: Sequence[float] | None = None) -> int:
        """Return the index in `loads` of the one to give.

        Args:
            loads: number of tasks of each candidate, completed or open, fewest first; never empty. Candidates are
                available and new to this participant.
            needs: number of further ratings that each needs, in the same order; None if unknown.
        """
        ...


rules: Registry[AssignmentRule] = Registry("assignment rule", "webapp.studies.assignment.rules")


def register_rule(cls: C) -> C:
    """Make one rule of the decorated class and list it."""
    rules.register(cls)
    return cls
