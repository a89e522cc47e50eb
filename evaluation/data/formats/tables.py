"""Tables as CSV, JSON Lines or Parquet, and cells safe for spreadsheets.

Cells that a spreadsheet would execute as formulas are escaped. A text that begins, after any apostrophes, with one of =
+ - @, their full-width forms, a tab or a line break gets an additional leading apostrophe; reading removes one. The
round trip therefore preserves every text. Numbers are not escaped.

Names stay texts: `007`, `1.10` and `None` are valid bot names. A cell is missing if it is blank or a common word for a
missing value.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.text import error_text, quote
from evaluation.data.formats.base import Skipped
from evaluation.data.formats.text_files import MAX_LINE_BYTES, head_of, open_bytes, shape_of, text_lines

if TYPE_CHECKING:
    import pandas as pd

_RISKY = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")


def escape_cell(text: str) -> str:
    """Escape a text so that no spreadsheet interprets it as a formula."""
    return f"'{text}" if _RISKY.match(text) else text


def unescape_cell(cell: str) -> str:
    """Reverse `escape_cell`."""
    return cell[1:] if cell.startswith("'") and _RISKY.match(cell) else cell


TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".jsonl.gz", ".json")
_MISSING = re.compile(r"\s*(-?nan|na|n/a|#n/a( n/a)?|#na|#nv|null|none|<na>)?\s*", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,(\d|\d\d|\d{4,})\s*")


@dataclass(frozen=True, slots=True)
class FileTable:
    """Rows of a table.

    Attributes:
        name: name of the file, for messages.
        columns: columns in order.
        rows: cells by column; all cells of a CSV are texts.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each row with its number, from 1."""
        return enumerate(self.rows, start=1)

    def locate_cell(self, row: int, column: str) -> str:
        """Describe a cell's location for messages."""
        return f"{self.name}, row {row}, column {column}"

    def require(self, columns: Sequence[str]) -> None:
        """Check that the table has these columns.

        Raises:
            ValueError: if columns are missing; the message lists missing and available ones.
        """
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise ValueError(
                f"{self.name} has no column {', '.join(map(repr, missing))}; it has {', '.join(self.columns) or 'none'}"
            )

    def number(self, row: int, column: str) -> float | None:
        """Return a cell's number, or None if it is missing.

        Raises:
            ValueError: if it is not one; the message names file, row, column and value.
        """
        cell = self.rows[row - 1].get(column)
        if is_missing(cell):
            return None
        number = _number(cell)
        if number is None:
            raise ValueError(f"{self.locate_cell(row, column)} is {quote(cell)}; it must be a number such as 3.5")
        return number

    def numbers(self, column: str) -> np.ndarray:
        """Return a column of numbers (n,), NaN for missing cells.

        Raises:
            ValueError: as in `number`.
        """
        numbers = [self.number(row, column) for row, _cells in self.numbered()]
        return np.array(numbers, dtype=float)  # None becomes NaN

    def whole_number(self, row: int, column: str) -> int:
        """Return a cell's whole number; 3.0 counts as 3.

        Raises:
            ValueError: if it is not one; the message names file, row, column and value.
        """
        number = self.number(row, column)
        if number is None or not number.is_integer():
            cell = self.rows[row - 1].get(column)
            raise ValueError(f"{self.locate_cell(row, column)} is {quote(cell)}; it must be a whole number")
        return int(number)

    def holds_numbers(self, column: str) -> bool:
        """Return True if most cells are numbers, so other cells are mistakes."""
        cells = [row.get(column) for row in self.rows]
        filled_cells = [cell for cell in cells if not is_missing(cell)]
        n_numbers = sum(_number(cell) is not None for cell in filled_cells)
        return bool(filled_cells) and 2 * n_numbers > len(filled_cells)


def is_missing(cell: Any) -> bool:
    """Return True if a cell is None, NaN, blank or a missing-value word."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return _MISSING.fullmatch(cell) is not None
    try:
        return bool(cell != cell)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # an array
        return False


def name_of(cell: Any) -> str:
    """Return a name in its original spelling.

    Removes the .0 of whole numbers that pandas converted to floats.
    """
    if isinstance(cell, str):
        return cell
    if is_missing(cell):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):
        return None
    if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def header_of(path: Path) -> list[str]:
    """Return the columns of a CSV from its header."""
    shape = shape_of(head := head_of(path))
    first = next(csv.reader(head.splitlines()[shape.n_before :], delimiter=shape.delimiter), [])
    return [unescape_cell(cell.strip()) for cell in first]


def table_of(frame: pd.DataFrame, name: str = "the table") -> FileTable:
    """Convert a pandas table."""
    return FileTable(name, tuple(map(str, frame.columns)), tuple(frame.to_dict("records")))  # type: ignore[arg-type]


def table_read(path: Path) -> FileTable:
    """Read a table.

    Raises:
        ValueError: if the file is not a table or is damaged; the message names file and line.
    """
    if path.suffix.lower() == ".parquet":
        import pandas as pd

        try:
            frame = pd.read_parquet(path)
        except FileNotFoundError:
            raise
        except DAMAGE_ERRORS as error:
            raise ValueError(f"{path.name} is not a Parquet file, or is damaged") from error
        return table_of(frame, path.name)
    if ".json" in path.name.lower():
        return _of_json(path)
    return _of_csv(path)


def _of_json(path: Path) -> FileTable:
    rows: list[dict[str, Any]] = []
    for item in text_lines(path):
        if isinstance(item, Skipped):
            raise ValueError(f"{path.name}, line {item.line}: {item.reason}")
        number, text = item
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path.name}, line {number}: not JSON: {error_text(error)}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path.name}, line {number}: it must be an object {{…}}")
        rows.append(row)
    columns = dict.fromkeys(column for row in rows for column in row)
    return FileTable(path.name, tuple(columns), tuple(rows))


def _of_csv(path: Path) -> FileTable:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    header: list[str] = []
    rows: list[dict[str, Any]] = []
    shape = shape_of(head_of(path))
    with open_bytes(path) as file:
        lines = islice(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), shape.n_before, None)
        reader = csv.reader(lines, delimiter=shape.delimiter)
        try:
            for cells in reader:
                if not any(cells):
                    continue
                if not header:
                    header = [unescape_cell(cell.strip()) for cell in cells]
                elif len(cells) != len(header):
                    raise ValueError(
                        f"{path.name}, row {len(rows) + 1} has {len(cells)} cells; the header has {len(header)}"
                    )
                else:
                    rows.append(dict(zip(header, map(unescape_cell, cells), strict=True)))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path.name} is not in UTF-8: byte 0x{error.object[error.start]:02x} near row "
                f"{len(rows) + 1}; save the file as UTF-8"
            ) from None
        except csv.Error as error:
            raise ValueError(f"{path.name}, row {len(rows) + 1}: not CSV: {error}") from None
    twice = next((name for i, name in enumerate(header) if name and name in header[:i]), None)
    if twice is not None:
        raise ValueError(f"{path.name} has two columns {quote(twice)}")
    return FileTable(path.name, tuple(header), tuple(rows))
