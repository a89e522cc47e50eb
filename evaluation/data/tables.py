"""Metric columns; results as text tables and plain values.

`Column`s make up the data dictionary of exports and pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from math import inf
from typing import Any, Literal

import numpy as np

from evaluation.findings import Reason

Level = Literal["turn", "conversation"]
Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a metric's table.

    Args:
        name: lower case with underscores, such as `sentiment_user`; unique among all metrics within its level. If a
            name exists at both levels, the conversation's value is the mean over its defined turns.
        level: one value per turn (stored with that turn) or per conversation.
        title: readable name, e.g. "Sentiment, participant".
        unit: such as "words" or "cosine"; "1" for a pure number.
        range: smallest and largest possible value; None if unbounded.
        direction: usually better direction.
        description: one or two sentences, including the formula's source.
    """

    name: str
    level: Level
    title: str
    unit: str
    range: tuple[float | None, float | None]
    direction: Direction
    description: str


def ends_of(range: tuple[float | None, float | None]) -> tuple[float, float] | None:
    """Return the limits, infinite on an open side; None if both are open."""
    low, high = range
    if low is None and high is None:
        return None
    return -inf if low is None else low, inf if high is None else high


def per_turn(
    name: str,
    title: str,
    *,
    unit: str,
    range: tuple[float | None, float | None],
    direction: Direction,
    description: str,
) -> tuple[Column, Column]:
    """Return a turn-level column and its mean per conversation, under one name."""
    mean = f"Mean over the turns with a value. {description}"
    return (
        Column(name, "turn", title, unit, range, direction, description),
        Column(name, "conversation", f"{title}, mean", unit, range, direction, mean),
    )


def text_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], foot: str = "") -> str:
    """Return a text table with rules and a title, in the style of statsmodels.

    The first column and columns without digits are left-aligned.
    """
    columns = list(zip(headers, *rows, strict=True)) if rows else [(header,) for header in headers]
    widths = [max(len(cell) for cell in column) for column in columns]
    is_left = [i == 0 or not any(c.isdigit() for cell in column[1:] for c in cell) for i, column in enumerate(columns)]

    def line(cells: Sequence[str]) -> str:
        padded_cells = [
            cell.ljust(width) if at_left else cell.rjust(width)
            for cell, width, at_left in zip(cells, widths, is_left, strict=True)
        ]
        return "  ".join(padded_cells).rstrip()

    lines = [line(headers), *map(line, rows)]
    width = max(len(title), *map(len, lines))
    parts = [title, "=" * width, lines[0], "-" * width, *lines[1:], "=" * width]
    return "\n".join([*parts, foot] if foot else parts)


def number_or_reason(reason: str | None) -> dict[str, Any]:
    """Return `{"reason": …}` to accompany an undefined number, or an empty dict."""
    if reason is None:
        return {}
    return {"reason": reason.to_json() if isinstance(reason, Reason) else {"code": str(reason)}}


def to_plain(value: Any) -> Any:
    """Return a result as plain JSON values.

    Dataclasses become objects, tuples and arrays lists, non-finite numbers null, and reasons objects with a code.
    Missing reasons are omitted.
    """
    if isinstance(value, Reason):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        field_values = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            name: to_plain(part)
            for name, part in field_values.items()
            if part is not None or not name.endswith("reason")
        }
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, Set):
        return [to_plain(part) for part in sorted(value)]
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class SummarisedResult:
    """Base of result dataclasses with `repr=False`, which notebooks show by their summary."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        document: dict[str, Any] = to_plain(self)
        return document

    def summary(self) -> str:
        """Return the result as text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.summary()
