"""Rows of CSV, Parquet and flat JSON tables.

CSV can have any delimiter; records of JSON must contain single values.

Lines before the header (`sep=;`, comments, a title) are skipped, and columns without a name get one. A malformed row is
reported with its text, so that the reader can identify the affected conversation.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from chatbots.text import quote
from evaluation.data.formats.base import Note, Skipped
from evaluation.data.formats.tables import name_of, unescape_cell
from evaluation.data.formats.text_files import (
    MAX_LINE_BYTES,
    byte_lines,
    encoding_note,
    head_of,
    is_xlsx,
    plain_rows,
    shape_of,
)

_HEAD_ROWS = 50


class BrokenRow(Skipped):
    """Malformed row, with a wrong number of cells or unclosed quotes."""

    __slots__ = ("text",)
    text: str

    def __init__(self, line: int, reason: str, text: str) -> None:
        super().__init__(line, reason)
        object.__setattr__(self, "text", text)


CsvRows = Iterator["tuple[int, dict[str, str]] | Skipped"]
"""Rows of a table: line number and cells by header."""


def _read_names(cells: Sequence[str]) -> list[str]:
    """Return a header's names, with column numbers for blank ones."""
    names = [
        unescape_cell(cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()) for cell in cells
    ]
    return [name or f"column {number}" for number, name in enumerate(names, 1)]


def head_of_rows(head: str) -> tuple[list[str], list[list[str]]]:
    """Parse header and first rows from a CSV's first lines."""
    shape = shape_of(head)
    lines = head.splitlines(keepends=True)[shape.n_before : _HEAD_ROWS + shape.n_before]
    rows = [row for row in csv.reader(lines, delimiter=shape.delimiter) if any(row)]
    if not rows:
        return [], []
    header = _read_names(rows[0])
    if len(rows) > 2 and _is_qualtrics(rows[2]):
        del rows[1:3]
    return header, [list(map(unescape_cell, row)) for row in rows[1:] if len(row) == len(header)]


def _is_qualtrics(cells: Sequence[str]) -> bool:
    """Return True for the third header row of a Qualtrics export."""
    return any(cell.lstrip().startswith('{"ImportId"') for cell in cells)


def head_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read the header and first rows of a table.

    Raises:
        ValueError: if two columns have the same name, or there is no header.
    """
    if table := plain_rows(path):
        columns, rows = table
        _check_unique(columns, path.name)
        first = [row for row in islice(rows, _HEAD_ROWS) if not isinstance(row, Skipped)]
        return columns, [[_cell_text(row.get(column)) for column in columns] for row in first]
    header, cells = head_of_rows(head_of(path))
    if not header or all(name == f"column {number}" for number, name in enumerate(header, 1)):
        raise ValueError(f"{path.name} has no header: its first line must name the columns")
    _check_unique(header, path.name)
    return header, cells


def _check_unique(columns: Sequence[str], file_name: str) -> None:
    twice = next((name for i, name in enumerate(columns) if name in columns[:i]), None)
    if twice is not None:
        raise ValueError(f"{file_name} has two columns {quote(twice)}; column names must be unique")


def _cell_text(cell: object) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else name_of(cell)


def csv_rows(path: Path) -> CsvRows:
    """Yield (line, cells by header) for each row, `Skipped` for malformed ones."""
    if table := plain_rows(path):
        columns, rows = table
        for number, row in enumerate(rows, 1):
            yield row if isinstance(row, Skipped) else (number, {name: _cell_text(row.get(name)) for name in columns})
        return
    yield from _text_rows(path)


def _text_rows(path: Path) -> CsvRows:
    csv.field_size_limit(MAX_LINE_BYTES)
    damage: list[Skipped] = []
    shape = shape_of(head_of(path))
    lines = _Lines(islice(_lines(path, damage), shape.n_before, None))
    reader = csv.reader(lines, delimiter=shape.delimiter)
    header: list[str] = []
    first_row: tuple[int, dict[str, str]] | None = None
    n_rows = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            yield BrokenRow(reader.line_num + shape.n_before, f"not CSV: {error}", lines.take())
            continue
        text, line = lines.take(), reader.line_num + shape.n_before
        if not any(cells):
            continue
        if not header:
            header = _read_names(cells)
            continue
        if len(cells) == 1 < len(header) and text.startswith("#"):
            continue
        n_rows += 1
        if len(cells) > len(header) and not any(cells[len(header) :]):
            cells = cells[: len(header)]
        problem = _row_problem(cells, header, text, shape.delimiter, is_last=lines.is_over)
        item = (
            BrokenRow(line, problem, text)
            if problem
            else (line, dict(zip(header, map(unescape_cell, cells), strict=True)))
        )
        if n_rows == 1 and not isinstance(item, Skipped):
            first_row = item
            continue
        if n_rows == 2 and _is_qualtrics(cells):
            for further in (line - 1, line):
                yield Skipped(further, "an additional header row, as in Qualtrics exports")
            first_row = None
            continue
        if first_row is not None:
            yield first_row
            first_row = None
        yield item
    if first_row is not None:
        yield first_row
    yield from damage


def _row_problem(cells: Sequence[str], header: Sequence[str], text: str, delimiter: str, *, is_last: bool) -> str:
    """Describe the problem with a row; empty if there is none."""
    if is_last and text.count('"') % 2 and "\n" in text.rstrip("\r\n"):
        return "a quotation mark is not closed, so the rest of the file is a single row"
    if len(cells) != len(header):
        return f"the row has {len(cells)} cells; the header has {len(header)}"
    lines = text.splitlines()[1:]
    if len(header) > 2 and any(len(next(csv.reader([line], delimiter=delimiter), [])) == len(header) for line in lines):
        return "a quotation mark is not closed, so the following rows are inside a cell"
    return ""


class _Lines:
    """Line source for a CSV reader that buffers the current row."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._taken: list[str] = []
        self.is_over = False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._taken.append(line)
            yield line
        self.is_over = True

    def take(self) -> str:
        """Return and clear the buffered text of the row."""
        text = "".join(self._taken)
        self._taken.clear()
        return text


def cells_within(text: str, place: int, n_cells: int, delimiter: str) -> set[str]:
    """Return candidate cells of a broken row for a column.

    In each line, cells are counted from both ends.
    """
    candidates = set()
    for line in text.splitlines():
        try:
            cells = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            cells = line.split(delimiter)
        for index in (place, len(cells) - n_cells + place):
            if 0 <= index < len(cells):
                candidates.add(unescape_cell(cells[index]).strip().strip('"'))
    return candidates - {""}


def table_notes(path: Path) -> list[Note]:
    """Return notes on guesses about the whole table."""
    if plain_rows(path):
        return []
    if is_xlsx(path):
        return [Note("Only the first sheet of the workbook is read")]
    return [Note(text) for text in chain(filter(None, [encoding_note(path)]), shape_of(head_of(path)).notes)]


def _lines(path: Path, damage: list[Skipped]) -> Iterator[str]:
    """Yield lines for the CSV reader.

    Invalid UTF-8 is decoded to surrogates, which `text_problem` detects later.
    """
    for item in byte_lines(path):
        if isinstance(item, Skipped):
            damage.append(item)
        else:
            yield item[1].decode("utf-8", errors="surrogateescape")


def has_columns(head: str, needed: set[str]) -> bool:
    """Return True if the table has these columns."""
    return needed <= set(head_of_rows(head)[0])
