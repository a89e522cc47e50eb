"""Bounds of a query's comparison, range or value, for numbers and times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import Q
from django.db.models.lookups import (
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)
from django.utils.translation import gettext as _

from webapp.reading.computed import Computed
from webapp.reading.syntax import Term, Unreadable

_LOOKUPS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_COMPARES: dict[str, Any] = {
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
    "lt": LessThan,
    "lte": LessThanOrEqual,
}


def is_within(number: Computed, bounds: Mapping[str, Any]) -> Q:
    """Return the condition that a number is defined and lies within the bounds; its negation holds elsewhere."""
    condition, value = number.defined, number.value()
    for sign, bound in bounds.items():
        condition &= Q(_COMPARES[sign](value, bound))
    return condition


def bounds_of(term: Term) -> dict[str, float]:
    """Return the lookups of a comparison, a range or a value with the numbers they compare with."""
    example = f"{term.field}:2..4"
    if term.sign != ":":
        return {_LOOKUPS[term.sign]: _float(term.value, term, f"{term.field}{term.sign}3")}
    low, dots, high = term.value.partition("..")
    if not dots:
        exact = _float(low, term, example)
        # Means are sums of fractions: what prints alike is the same.
        return {"gte": exact - 1e-9, "lte": exact + 1e-9}
    found = {}
    if low not in ("", "*"):
        found["gte"] = _float(low, term, example)
    if high not in ("", "*"):
        found["lte"] = _float(high, term, example)
    if not found:
        raise Unreadable(_("“{term}” has neither end.").format(term=term), example)
    if len(found) == 2 and found["gte"] > found["lte"]:
        raise Unreadable(
            _("“{term}” ends before it begins.").format(term=term), f"{term.field}:{high}..{low}"
        )
    return found


def _float(text: str, term: Term, example: str) -> float:
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise Unreadable(
            _("“{term}”: “{text}” is no number.").format(term=term, text=text), example
        )
    return value


def days_of(term: Term) -> dict[str, datetime]:
    """Return the lookups of a comparison, a range or a day with the times they compare with; days are UTC's.

    Raises:
        Unreadable: no day is named, or the range has no end or ends before it begins.
    """
    example = f"{term.field}:2026-01-01..2026-02-01"
    if term.sign != ":":
        day = _day(term.value, term, f"{term.field}{term.sign}2026-01-01")
        is_after = term.sign in (">", "<=")  # both speak of the end of the day
        return {"gte" if ">" in term.sign else "lt": _midnight(day, is_after)}
    low, dots, high = term.value.partition("..")
    if not dots:
        high = low
    found = {}
    if low not in ("", "*"):
        found["gte"] = _midnight(_day(low, term, example), False)
    if high not in ("", "*"):
        found["lt"] = _midnight(_day(high, term, example), True)
    if not found:
        raise Unreadable(_("“{term}” has neither end.").format(term=term), example)
    if len(found) == 2 and found["gte"] >= found["lt"]:
        raise Unreadable(
            _("“{term}” ends before it begins.").format(term=term), f"{term.field}:{high}..{low}"
        )
    return found


def _day(text: str, term: Term, example: str) -> date:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        day = date.max
    if day == date.max:
        raise Unreadable(_("“{term}”: “{text}” is no day.").format(term=term, text=text), example)
    return day


def _midnight(day: date, is_after: bool) -> datetime:
    """Return when a day begins, or when it is over."""
    return datetime.combine(day + timedelta(days=int(is_after)), time(), UTC)
