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
    """What a filter is told beside the reply.

    Attributes:
        values: of the study's version, with the settings of the filters.
        names: what the bot that replied is called: its id, its title, its model.
    """

    values: StudyValues
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a filter found in a reply.

    Attributes:
        reason: in a sentence for staff.
        words: of the reply, as they stand there; empty where the filter names none.
    """

    reason: str
    words: tuple[str, ...] = ()


class ReplyFilter(Protocol):
    """One filter. It is asked in a thread of its own, one reply at a time, and keeps nothing of a conversation."""

    name: str
    title: str
    description: str

    def identity(self, values: StudyValues) -> Identity:
        """Return who it is with the study's settings; raise its version whenever it could find something else."""
        ...

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Say why it cannot be used with these settings, or return None. Cheap: loads nothing."""
        ...

    def find(self, text: str, asked: Asked) -> Found | None:
        """Return what is found in a reply; None where nothing is."""
        ...


class FilterDefaults:
    """What filters share that have no settings: they are always available, and their name says who they are."""

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
