"""Counts in words: "1 rating", "1,240 ratings".

Sentences insert these as a part, so that every count on every page has its singular.
"""

from __future__ import annotations

from django.utils.translation import ngettext


def bots(n: int) -> str:
    """Return `1 bot`, `2 bots`."""
    return ngettext("%(n)s bot", "%(n)s bots", n) % {"n": f"{n:,}"}


def conversations(n: int) -> str:
    """Return `1 conversation`, `2 conversations`."""
    return ngettext("%(n)s conversation", "%(n)s conversations", n) % {"n": f"{n:,}"}


def dimensions(n: int) -> str:
    """Return `1 dimension`, `2 dimensions`."""
    return ngettext("%(n)s dimension", "%(n)s dimensions", n) % {"n": f"{n:,}"}


def items(n: int) -> str:
    """Return `1 item`, `2 items`."""
    return ngettext("%(n)s item", "%(n)s items", n) % {"n": f"{n:,}"}


def pairs(n: int) -> str:
    """Return `1 pair`, `2 pairs`."""
    return ngettext("%(n)s pair", "%(n)s pairs", n) % {"n": f"{n:,}"}


def people(n: int) -> str:
    """Return `1 person`, `2 people`."""
    return ngettext("%(n)s person", "%(n)s people", n) % {"n": f"{n:,}"}


def raters(n: int) -> str:
    """Return `1 rater`, `2 raters`."""
    return ngettext("%(n)s rater", "%(n)s raters", n) % {"n": f"{n:,}"}


def ratings(n: int) -> str:
    """Return `1 rating`, `2 ratings`."""
    return ngettext("%(n)s rating", "%(n)s ratings", n) % {"n": f"{n:,}"}


def replies(n: int) -> str:
    """Return `1 reply`, `2 replies`."""
    return ngettext("%(n)s reply", "%(n)s replies", n) % {"n": f"{n:,}"}
