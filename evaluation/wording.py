"""Counts in the sentences that results carry."""

from __future__ import annotations


def counted(n: int, thing: str) -> str:
    """Return `1 bot`, `2 bots`; `thing` is a noun whose plural ends in s."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"
