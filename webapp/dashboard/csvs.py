"""Tables as CSV: all digits, intervals as two columns, reasons beside what is missing."""

from __future__ import annotations

import csv
import io
import math

from evaluation.formats.spreadsheet import escaped
from webapp.dashboard.plots.figure import Cell, Table


def table_csv(table: Table) -> str:
    """Write the table as CSV, with a header and CRLF line ends.

    A column whose cells hold two numbers becomes two, "low" and "high". A column in which a reason stands
    gets one more, of reasons.
    """
    widths = [
        max((len(row[i].raw) for row in table.rows), default=0) for i in range(len(table.headers))
    ]
    reasons = [any(row[i].why for row in table.rows) for i in range(len(table.headers))]
    header: list[str] = []
    for i, found in enumerate(table.headers):
        if widths[i] < 2:
            header.append(found.text)
        else:
            header += [f"{found.text} {end}" for end in ("low", "high")]
        if reasons[i]:
            header.append(f"{found.text} reason")
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([escaped(cell) for cell in header])
    for row in table.rows:
        cells: list[object] = []
        for i, cell in enumerate(row):
            cells += _cells(cell, widths[i])
            if reasons[i]:
                cells.append(escaped(cell.why))
        writer.writerow(cells)
    return out.getvalue()


def _cells(cell: Cell, width: int) -> list[object]:
    if width == 0:
        return [escaped("" if cell.text == "–" else cell.text)]
    # A cell may lack what others of its column have: no numbers at all, or one in place of two.
    raw = [*cell.raw, None, None][: max(width, 1)]
    return [_digits(value) for value in raw]


def _digits(value: float | None) -> str:
    """Write a number with all its digits; counts stay whole."""
    if value is None or not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, int) else repr(float(value))
