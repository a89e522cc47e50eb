"""Literal search for phrases: it ignores case and spacing, and matches whole words if words have blanks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Thai to Myanmar, Khmer, and from the CJK radicals on: written without blanks between words.
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff]")


def literal(phrase: str) -> str:
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
    return "|".join(map(literal, told))
