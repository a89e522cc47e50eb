"""Removal of API keys from what an endpoint sends: some quote them back, in errors and in replies."""

from __future__ import annotations

import re
from collections.abc import Iterable

import regex

_INSTEAD = "[key]"
_LIKE_KEYS = re.compile(r"\b(?:sk-|Bearer )[\w*.-]{8,}")
_LEAST_CHARS = 8
"""A shorter key is a placeholder of a server without keys, such as `EMPTY`, and may be an honest word of a reply."""


def without_keys(message: str, keys: Iterable[str | None]) -> str:
    """Replace the keys in a message, and whatever looks like one."""
    for key in keys:
        message = message.replace(key, _INSTEAD) if key else message
    return _LIKE_KEYS.sub(_INSTEAD, message)


class KeyFilter:
    """Filter of a reply that comes in pieces: replaces the keys in it.

    What may be the beginning of a key is held back.
    """

    def __init__(self, keys: Iterable[str | None]) -> None:
        long = sorted({key for key in keys if key and len(key) >= _LEAST_CHARS}, key=len)
        self._pattern = regex.compile("|".join(map(regex.escape, reversed(long)))) if long else None
        self._held = ""

    def take(self, piece: str) -> str:
        """Add a piece; return what can be passed on now."""
        if self._pattern is None:
            return piece
        text = self._pattern.sub(_INSTEAD, self._held + piece)
        found = self._pattern.search(text, partial=True)
        end = found.start() if found else len(text)
        self._held = text[end:]
        return text[:end]

    def end(self) -> str:
        """Return the text that was held back and turned out to be no key."""
        held, self._held = self._held, ""
        return held
