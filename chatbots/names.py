"""Nearest valid names for a mistyped name."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import process


def nearest_names(
    name: str, names: Iterable[str], limit: int = 3, *, least: float = 50
) -> list[str]:
    """Return the names most like `name`, best first; those that differ in case alone before all others.

    Args:
        least: how like it they must be, from 0 to 100.
    """
    names = list(names)
    same = [each for each in names if each.lower() == name.lower()]
    found = process.extract(name, names, limit=limit, score_cutoff=least)
    return same or [match for match, _, _ in found]


def did_you_mean(name: str, names: Iterable[str], limit: int = 1) -> str:
    """Return "did you mean …?" with the nearest names, or nothing where none is near."""
    near = nearest_names(name, names, limit)
    return f"did you mean {' or '.join(near)}?" if near else ""
