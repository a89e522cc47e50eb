"""Interface of reply filters, their registry, and literal search for phrases.

The search ignores case and spacing, and matches whole words if words have blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from chatbots import Identity
from chatbots.registry import C, Registry
from webapp.studies.settings import StudyValues


@dataclass(frozen=True, slots=True)
class FilterInput:
    """Context of a reply that a filter checks.

    Attributes:
        values: of the study's version, with the settings of the filters.
        names: names of the bot that replied: its id, its title, its model.
    """

    values: StudyValues
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilterMatch:
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

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
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


# Thai to Myanmar, Khmer, and from the CJK radicals on: written without blanks between words.
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff]")


def phrase_pattern(phrase: str) -> str:
    """Return a pattern that finds the phrase as whole words."""
    inner = r"\s+".join(re.escape(word) for word in phrase.split())
    return f"{_edge(phrase[0], '(?<![^', ')')}{inner}{_edge(phrase[-1], '(?![^', ')')}"


def _edge(letter: str, before: str, after: str) -> str:
    r"""Return the pattern next to the phrase's first or last letter: no letter, where words have blanks."""
    if not letter.isalnum() or _WITHOUT_BLANKS.match(letter):
        return ""
    return rf"{before}\W_]{after}"


@lru_cache(maxsize=64)
def any_of(phrases: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern that finds any of the phrases, the longest first; None without one."""
    patterns = alternatives(phrases)
    return re.compile(patterns, re.IGNORECASE) if patterns else None


def alternatives(phrases: Iterable[str]) -> str:
    """Return the phrases' patterns as alternatives, the longest first."""
    told = sorted({one.strip() for one in phrases if one.strip()}, key=lambda one: (-len(one), one))
    return "|".join(map(phrase_pattern, told))
