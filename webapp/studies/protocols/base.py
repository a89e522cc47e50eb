"""The contract of a study protocol, and its registry."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry


@dataclass(frozen=True, slots=True)
class BotLoad:
    """How many assignments of a study a bot has: completed ones and open ones."""

    bot_id: str
    n_completed: int
    n_open: int


class StudyProtocol(Protocol):
    """Decides which bot a person meets next."""

    name: str
    title: str
    description: str

    @property
    def identity(self) -> Identity: ...

    def choose(self, loads: Sequence[BotLoad], rng: random.Random) -> str:
        """The bot to give, among `loads` (never empty: available and not yet met by this person)."""
        ...


protocols: Registry[StudyProtocol] = Registry("study protocol", "webapp.studies.protocols")


def register_protocol(cls: C) -> C:
    """Class decorator: makes one protocol of the class and lists it."""
    protocols.register(cls)
    return cls
