"""The contract of an assignment rule, and its registry."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry


@dataclass(frozen=True, slots=True)
class Load:
    """How many tasks of a study one bot or item has: completed ones and open ones."""

    id: str
    n_completed: int
    n_open: int


class AssignmentRule(Protocol):
    """Decides which bot or item somebody is given next."""

    name: str
    title: str
    description: str

    @property
    def identity(self) -> Identity: ...

    def choose(self, loads: Sequence[Load], rng: random.Random) -> str:
        """Return the id to give, one of `loads` (never empty: available and new to this person)."""
        ...


rules: Registry[AssignmentRule] = Registry("assignment rule", "webapp.studies.rules")


def register_rule(cls: C) -> C:
    """Make one rule of the decorated class and list it."""
    rules.register(cls)
    return cls
