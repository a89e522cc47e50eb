"""Distribution of one number over conversations, which a reader sees before choosing a range of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet
from django.db.models.functions import Floor

from webapp.conversations.models import Conversation
from webapp.reading.asking import sorted_rows
from webapp.reading.fields import Number
from webapp.studies.models import Study

MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class Bar:
    """The conversations from `low` up to the next bar, the last bar's with its end."""

    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The bars of a number, side by side from the lowest value to the highest.

    Attributes:
        step: between two places of a slider; whole numbers and 1 where all values are whole.
        n: conversations that have a value.
    """

    low: float
    high: float
    step: float
    bars: tuple[Bar, ...]
    n: int


def spread_of(
    rows: QuerySet[Conversation], number: Number, study: Study | None = None
) -> Spread | None:
    """Count the conversations bar by bar, in two queries; None where none has a value.

    Whole numbers have a bar each while there are few of them; everything else is cut into bars of one width.

    Args:
        study: of all of the rows, in whose part of the index the values are found.
    """
    valued: Any = sorted_rows(rows, number, study).filter(Q(at__isnull=False)).order_by()
    ends = valued.aggregate(
        low=Min("at"), high=Max("at"), n=Count("pk"), whole=Count("pk", filter=Q(at=Floor("at")))
    )
    if not ends["n"]:
        return None
    low, high, width = float(ends["low"]), float(ends["high"]), 1.0
    is_whole = ends["whole"] == ends["n"]
    if is_whole:
        width = math.ceil((high - low + 1) / MOST_BARS)
        n_bars = math.floor((high - low) / width) + 1
    else:
        low, high, width = _round_ends(low, high)
        n_bars = max(round((high - low) / width), 1)
    # A value that prints as a bar's beginning belongs to this bar, whatever its last binary digits are.
    place: Any = Floor((F("at") - low) / width + 1e-9)
    found: dict[int, int] = {}
    for at, n in valued.values_list(place).annotate(n=Count("pk")):
        key = min(max(int(at), 0), n_bars - 1)
        found[key] = found.get(key, 0) + n
    bars = tuple(
        Bar(low + i * width, low + (i + 1) * width, found.get(i, 0)) for i in range(n_bars)
    )
    return Spread(low, high, 1.0 if is_whole else width / 5, bars, ends["n"])


def _round_ends(low: float, high: float) -> tuple[float, float, float]:
    """Return ends around the values that people would write, and the width of a bar between them."""
    if high == low:
        return low, high, 1.0
    rough = (high - low) / MOST_BARS
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
    return math.floor(low / width) * width, math.ceil(high / width) * width, width
