"""Registry of statistics computed together with a study's flags; stored in `FlagState.found` by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webapp.studies.models import Study

Find = Callable[[Study], Any]
"""From a study to JSON values, in a constant number of queries."""
_finders: dict[str, Find] = {}


def found_beside(name: str, find: Find) -> None:
    """Register a statistic to compute with the flags; rename it if its value changes, to invalidate stored ones."""
    _finders[name] = find


def names_beside() -> list[str]:
    """Return the names of all that is found."""
    return sorted(_finders)


def find_beside(study: Study) -> dict[str, Any]:
    """Find all of it."""
    return {name: _finders[name](study) for name in names_beside()}
