"""The contract of a filter of replies, and its registry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry
from webapp.studies.values import StudyValues


@dataclass(frozen=True, slots=True)
class Asked:
    """Context of a reply that a filter checks.

    Attributes:
        values: of the study's version, with the settings of the filters.
        names: names of the bot that replied: its id, its title, its model.
    """

    values: StudyValues
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Match that a filter found in a reply.

    Attributes:
        reason: a sentence for staff.
        words: the words in the reply, unchanged; empty if the filter names none.
    """

    reason: str
    words: tuple[str, ...] = ()


class ReplyFilter(Protocol):
    """One filter. It is asked in a thread of its own, one reply at a time, and keeps nothing of a conversation."""

    name: str
    title: str
    description: str

    def identity(self, values: StudyValues) -> Identity:
        """Return the filter's identity with the study's settings; raise its version if its results could change."""
        ...

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Return the reason why these settings make it unusable, or None. Must be fast: load nothing."""
        ...

    def find(self, text: str, asked: Asked) -> Found | None:
        """Return the match in a reply, or None."""
        ...


class FilterDefaults:
    """Defaults for filters without settings: always available, and identified by their name."""

    name: str
    version = "1"

    def identity(self, values: StudyValues) -> Identity:
        """Return its name and version."""
        return Identity(self.name, self.version)

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Return None: nothing is missing."""
        return None


reply_filters: Registry[ReplyFilter] = Registry("filter of replies", "webapp.studies.reply_filters")


def register_filter(cls: C) -> C:
    """Decorate a class: make one filter of it and list it."""
    reply_filters.register(cls)
    return cls


def distinct(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words once each, in their order, whatever their capitals."""
    return tuple({word.casefold(): word for word in reversed(list(words))}.values())[::-1]
