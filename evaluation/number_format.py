"""Numbers and counts as text: minus signs, decimals, a dash for none."""

from __future__ import annotations

import math
from collections.abc import Sequence

MINUS = "−"
NONE = "–"


def figure(value: float | None, digits: int = 2) -> str:
    """Print a number, `4.60`."""
    if value is None or not math.isfinite(value):
        return NONE
    printed = f"{value:.{digits}f}"
    if float(printed) == 0:
        printed = printed.lstrip("-")
    return printed.replace("-", MINUS)


def share(value: float | None, digits: int = 2) -> str:
    """Print what cannot pass 1 in magnitude, a correlation or a probability, as `.84` or `−.59`."""
    printed = figure(value, digits)
    if printed.lstrip(MINUS).startswith("0."):
        return printed.replace("0.", ".", 1)
    return printed


def span(low: float | None, high: float | None, digits: int = 2, *, shares: bool = False) -> str:
    """Print an interval, `[4.60, 5.12]`."""
    printed = share if shares else figure
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    return f"[{printed(low, digits)}, {printed(high, digits)}]"


def digits_for(low: float, high: float) -> int:
    """Return the number of decimals for a scale: two up to a range of 20, otherwise one."""
    return 1 if high - low > 20 else 2


def probability(p: float | None) -> str:
    """Print a p-value, `p = .031` or `p < .001`."""
    if p is None or not math.isfinite(p):
        return "p –"
    if p < 0.001:
        return "p < .001"
    return f"p = {share(p, 3)}"


def p_value(p: float | None) -> str:
    """Print a p-value for a column that says so, `.031` or `< .001`."""
    return probability(p).removeprefix("p ").removeprefix("= ")


def percent(value: float | None, digits: int = 0) -> str:
    """Print a share of one as `90 %`."""
    printed = figure(None if value is None else 100 * value, digits)
    return printed if printed == NONE else f"{printed} %"


def columns_printed(rows: Sequence[Sequence[str]], n_left: int) -> list[str]:
    """Return rows as lines of aligned columns, the first `n_left` at the left, the others at the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if k < n_left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def counted(n: int, thing: str) -> str:
    """Return `1 bot`, `2 bots`; `thing` is a noun whose plural ends in s."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"
