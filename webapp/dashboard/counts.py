"""Counts in words: "1 rating", "1,240 ratings".

Sentences insert these as a part, so that every count on every page has its singular.
"""

from __future__ import annotations

from webapp.core.speaking import plural


def bots(n: int) -> str:
    """Return `1 bot`, `2 bots`."""
    return plural(n, "%(n)s bot", "%(n)s bots") % {"n": f"{n:,}"}


def conversations(n: int) -> str:
    """Return `1 conversation`, `2 conversations`."""
    return plural(n, "%(n)s conversation", "%(n)s conversations") % {"n": f"{n:,}"}


def dimensions(n: int) -> str:
    """Return `1 dimension`, `2 dimensions`."""
    return plural(n, "%(n)s dimension", "%(n)s dimensions") % {"n": f"{n:,}"}


def items(n: int) -> str:
    """Return `1 item`, `2 items`."""
    return plural(n, "%(n)s item", "%(n)s items") % {"n": f"{n:,}"}


def pairs(n: int) -> str:
    """Return `1 pair`, `2 pairs`."""
    return plural(n, "%(n)s pair", "%(n)s pairs") % {"n": f"{n:,}"}


def people(n: int) -> str:
    """Return `1 person`, `2 people`."""
    return plural(n, "%(n)s person", "%(n)s people") % {"n": f"{n:,}"}


def raters(n: int) -> str:
    """Return `1 rater`, `2 raters`."""
    return plural(n, "%(n)s rater", "%(n)s raters") % {"n": f"{n:,}"}


def ratings(n: int) -> str:
    """Return `1 rating`, `2 ratings`."""
    return plural(n, "%(n)s rating", "%(n)s ratings") % {"n": f"{n:,}"}


def replies(n: int) -> str:
    """Return `1 reply`, `2 replies`."""
    return plural(n, "%(n)s reply", "%(n)s replies") % {"n": f"{n:,}"}
