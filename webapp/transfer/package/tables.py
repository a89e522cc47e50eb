"""Tables of a data package, without private data, and the zip.

Participants have pseudonyms. The zip is generated while it is read, in constant memory; equal files give equal bytes.
"""

from __future__ import annotations

import csv
import hashlib
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import IO, Any, cast

from evaluation.data.formats.tables import escape_cell, unescape_cell
from evaluation.data.package import SUMS
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.studies.privacy import pseudonym
from webapp.transfer.exporters.base import ExportColumn, Exporter, ExportOptions, exporter_list, rows_of_table
from webapp.transfer.writers import PIECE_BYTES, Row, cell_of, stream

_NEVER = (1980, 1, 1, 0, 0, 0)
"""Time of every file, the earliest that a zip supports: packages do not depend on when they were made."""
_LARGE_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class File:
    """File in a zip: its path, size and content in pieces."""

    path: str
    n_bytes: int
    pieces: Iterable[bytes]

    @classmethod
    def from_text(cls, path: str, text: str) -> File:
        """Return a file of a text."""
        data = text.encode("utf-8")
        return cls(path, len(data), (data,))


@dataclass(frozen=True, slots=True)
class Packed:
    """SHA-256 digest and size of a packed file."""

    sha256: str
    n_bytes: int


@dataclass(slots=True)
class Ledger:
    """The packed files so far, by path."""

    files: dict[str, Packed] = field(default_factory=dict)

    def sums(self) -> str:
        """Return the digests in the format of `sha256sum --check`."""
        return "".join(f"{packed.sha256}  {path}\n" for path, packed in sorted(self.files.items()))


class _Pipe:
    """File object for a zip; it keeps the bytes until they are read."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.n_held = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self.n_held += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the reader of the bytes writes them."""

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        self.n_held = 0
        return data


def zip_pieces(files: Iterable[File], ledger: Ledger) -> Iterator[bytes]:
    """Yield a zip of the files in pieces.

    Its last file has the digests of all others.

    Args:
        ledger: records each packed file, so that later files can refer to it.
    """
    pipe = _Pipe()
    with zipfile.ZipFile(cast(IO[bytes], pipe), "w") as archive:
        for file in _with_sums(files, ledger):
            digest, n_bytes = hashlib.sha256(), 0
            large = file.n_bytes >= _LARGE_BYTES
            with archive.open(_entry(file.path), "w", force_zip64=large) as entry:
                for piece in file.pieces:
                    digest.update(piece)
                    n_bytes += len(piece)
                    entry.write(piece)
                    if pipe.n_held >= PIECE_BYTES:
                        yield pipe.take()
            ledger.files[file.path] = Packed(digest.hexdigest(), n_bytes)
    yield pipe.take()


def _with_sums(files: Iterable[File], ledger: Ledger) -> Iterator[File]:
    yield from files
    yield File.from_text(SUMS, ledger.sums())


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _NEVER)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # as on Unix, on any system
    entry.external_attr = 0o644 << 16
    return entry


_ORDER = ("ratings", "checks", "turns", "turn_metrics", "undefined", "metrics")
_LAST = ("items", "conversations", "participants", "bots", "consent_texts")
"""Tables written last: referring rows come before the rows they refer to, so that rows added meanwhile are complete."""
_NESTED = {"conversations": ("turns", "ratings")}
"""Columns that repeat the content of other tables in the package."""
KEYS = {
    "participants": ("participant",),
    "conversations": ("conversation",),
    "turns": ("conversation", "turn"),
    "ratings": ("rating",),
    "items": ("item",),
    "bots": ("bot_version",),
    "consent_texts": ("consent_version",),
}
"""Columns that identify the rows of a table."""
_TOLD_EVERY = 200
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True, slots=True)
class PackagedTable:
    """Table in a package.

    Attributes:
        name: name of its file.
        places: indices of its columns among those of the exporter.
    """

    name: str
    exporter: Exporter
    columns: tuple[ExportColumn, ...]
    places: tuple[int, ...]

    @property
    def description(self) -> str:
        """Description of the table in this package."""
        if self.name in _NESTED:
            return f"One row per {self.name.removesuffix('s')}."
        return self.exporter.description

    @property
    def path(self) -> str:
        """Path of the table in the zip."""
        return f"data/{self.name}.csv"

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Row]:
        """Yield the rows, with pseudonyms."""
        people = [i for i, column in enumerate(self.columns) if column.is_person]
        for row in rows_of_table(self.exporter, study, replace(options, is_package=True)):
            cells = [row[place] for place in self.places]
            for place in people:
                if cells[place]:
                    cells[place] = pseudonym(study, cells[place])
            yield cells


def packaged_tables(
    study: Study, options: ExportOptions, rights: Collection[Right] = tuple(Right)
) -> list[PackagedTable]:
    """Return the tables of a study's package in writing order.

    Args:
        rights: rights of the reader; tables that need other rights are left out.
    """
    tables = [
        _packaged(exporter, study, options) for exporter in _packaged_exporters() if _right_of(exporter) in rights
    ]
    order = {name: i for i, name in enumerate(_ORDER)}
    order |= {name: 100 + i for i, name in enumerate(_LAST)}
    return sorted(tables, key=lambda table: (order.get(table.name, 50), table.name))


def package_rights(options: ExportOptions) -> set[Right]:
    """Return the rights for a whole package, including private data if requested."""
    tables = {_right_of(exporter) for exporter in _packaged_exporters()}
    return tables | ({Right.PRIVATE} if options.include_private else set())


def tables_left_out(rights: Collection[Right]) -> dict[str, Right]:
    """Return the tables missing for a user, with the rights they need."""
    return {
        exporter.packaged: _right_of(exporter)  # type: ignore[attr-defined]
        for exporter in _packaged_exporters()
        if _right_of(exporter) not in rights
    }


def _packaged_exporters() -> list[Exporter]:
    return [exporter for exporter in exporter_list() if hasattr(exporter, "packaged")]


def _right_of(exporter: Exporter) -> Right:
    return getattr(exporter, "right", Right.READ)


def _packaged(exporter: Exporter, study: Study, options: ExportOptions) -> PackagedTable:
    name = exporter.packaged  # type: ignore[attr-defined]
    placed_columns = [
        (place, column)
        for place, column in enumerate(exporter.columns(study, replace(options, is_package=True)))
        if column.name not in _NESTED.get(name, ()) and (options.include_private or not column.is_private)
    ]
    return PackagedTable(
        name, exporter, tuple(column for _, column in placed_columns), tuple(place for place, _ in placed_columns)
    )


@dataclass(slots=True)
class WrittenTable:
    """A table whose rows have been read.

    Attributes:
        widths: bytes of the longest cell in the SPSS file, by column.
        escaped: True if a text was escaped for spreadsheets, by column.
    """

    table: PackagedTable
    n_rows: int
    widths: list[int]
    escaped: list[bool]


def table_files(
    table: PackagedTable,
    study: Study,
    options: ExportOptions,
    *,
    report_rows: Callable[[int], None] = lambda n_rows: None,
) -> tuple[WrittenTable, list[File]]:
    """Write a table to a CSV file and a second one for SPSS.

    Cells of the SPSS file contain no line breaks.

    Args:
        report_rows: called regularly with the number of rows read so far.
    """
    csv_file, for_spss = (cast(IO[bytes], tempfile.TemporaryFile()) for _ in range(2))  # noqa: SIM115
    written = WrittenTable(table, 0, [0] * len(table.columns), [False] * len(table.columns))
    rows = _seen(table.rows(study, options), written, for_spss, report_rows)
    for piece in stream("csv", table.columns, rows):
        csv_file.write(piece)
    return written, [_file(table.path, csv_file), _file(f"spss/{table.name}.csv", for_spss)]


def _seen(
    rows: Iterable[Row], written: WrittenTable, copy: IO[bytes], report_rows: Callable[[int], None]
) -> Iterator[Row]:
    """Yield the rows, and also write each to the copy."""
    text = TextIOWrapper(copy, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow([column.name for column in written.table.columns])
    for row in rows:
        cells = [_for_spss(value, column) for value, column in zip(row, written.table.columns, strict=True)]
        for place, cell in enumerate(cells):
            written.widths[place] = max(written.widths[place], len(cell.encode("utf-8")))
            written.escaped[place] |= unescape_cell(cell) is not cell
        writer.writerow(cells)
        written.n_rows += 1
        if written.n_rows % _TOLD_EVERY == 0:
            report_rows(written.n_rows)
        yield row
    text.detach()


def _for_spss(value: Any, column: ExportColumn) -> str:
    """Return a cell as `load.sps` reads it.

    It is on one line, with truth values as 0 or 1 and times as SPSS writes them.
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime):
        time = value.astimezone(UTC)
        return f"{time.day:02}-{_MONTHS[time.month - 1]}-{time:%Y %H:%M:%S}.{time.microsecond // 1000:03}"
    return str(cell_of(value, _on_one_line, column.type))


def _on_one_line(text: str) -> str:
    return escape_cell(" ".join(text.replace("\t", " ").splitlines()))


def _file(path: str, file: IO[bytes]) -> File:
    n_bytes = file.tell()
    file.seek(0)
    return File(path, n_bytes, _pieces(file))


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def names_of(columns: Sequence[ExportColumn]) -> list[str]:
    """Return the names of columns."""
    return [column.name for column in columns]
