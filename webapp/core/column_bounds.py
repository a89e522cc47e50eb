"""Bounds of database columns, checked on imported rows before storing.

PostgreSQL rejects a value beyond its column with an error that names neither row nor column, and SQLite stores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.models import Field, JSONField, Model

from chatbots.text import are_sanitised, quote

_RANGES = BaseDatabaseOperations.integer_field_ranges
_FIRST, _LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))


def check_rows(rows: Iterable[Model]) -> None:
    """Check that every value of new rows fits its column.

    Raises:
        ValueError: a value does not fit; the message names the column and the value.
    """
    for row in rows:
        for field in row._meta.concrete_fields:
            problem = find_problem(field, getattr(row, field.attname))
            if problem:
                raise ValueError(f"{field.name} is {quote(getattr(row, field.attname))}; {problem}")


def find_problem(field: Field[Any, Any], value: Any) -> str:
    """Describe why a value does not fit a column.

    Empty if it can be stored.
    """
    if isinstance(value, str):
        if not are_sanitised(value):
            return "it contains the character U+0000 or half a surrogate pair"
        max_length = field.max_length
        return (
            f"it has {len(value)} characters; the maximum is {max_length}"
            if max_length and len(value) > max_length
            else ""
        )
    if isinstance(value, datetime):
        # Leave out a day at each end: another time zone may have it in a year that dates do not support.
        day = timedelta(days=1)
        return "" if _FIRST + day <= _in_utc(value) <= _LAST - day else "the year must be from 1 to 9999"
    if isinstance(field, JSONField):
        return "" if _is_json(value) and are_sanitised(value) else "it contains a text or number that cannot be stored"
    if isinstance(value, float) and not math.isfinite(value):
        return "it must be a finite number"
    low, high = _RANGES.get(field.get_internal_type(), (-math.inf, math.inf))
    if isinstance(value, int) and not low <= value <= high:
        return f"it must be a whole number from {low} to {high}"
    return ""


def _in_utc(moment: datetime) -> datetime:
    """Return a time in UTC.

    If UTC would need a year that does not exist, the last time.
    """
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _LAST


def _is_json(value: Any) -> bool:
    """Return True if all numbers in nested values are finite."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return not isinstance(value, float) or math.isfinite(value)
