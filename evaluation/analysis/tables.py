"""Results as plain text and plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from evaluation.reasons import Reason


def text_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], foot: str = ""
) -> str:
    """Return a table between lines, its title above it, as statsmodels prints them.

    The first column stands at the left, and every other one that holds no digit.
    """
    columns = list(zip(headers, *rows, strict=True)) if rows else [(header,) for header in headers]
    widths = [max(len(cell) for cell in column) for column in columns]
    left = [
        i == 0 or not any(c.isdigit() for cell in column[1:] for c in cell)
        for i, column in enumerate(columns)
    ]

    def line(cells: Sequence[str]) -> str:
        shown = [
            cell.ljust(width) if at_left else cell.rjust(width)
            for cell, width, at_left in zip(cells, widths, left, strict=True)
        ]
        return "  ".join(shown).rstrip()

    lines = [line(headers), *map(line, rows)]
    width = max(len(title), *map(len, lines))
    parts = [title, "=" * width, lines[0], "-" * width, *lines[1:], "=" * width]
    return "\n".join([*parts, foot] if foot else parts)


def number_or_reason(reason: str | None) -> dict[str, Any]:
    """Return `{"reason": …}` to stand next to a number that is undefined, or nothing."""
    if reason is None:
        return {}
    return {"reason": reason.to_json() if isinstance(reason, Reason) else {"code": str(reason)}}


def plain(value: Any) -> Any:
    """Return a result as plain JSON values.

    Dataclasses become objects, tuples and arrays lists, numbers that are not finite null, and reasons objects with
    a code. Where there is no reason, none is named.
    """
    if isinstance(value, Reason):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            name: plain(part)
            for name, part in found.items()
            if part is not None or not name.endswith("reason")
        }
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Set):
        return [plain(part) for part in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
