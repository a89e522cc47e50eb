"""Writers of CSV, JSON Lines and Parquet, to files and streamed responses.

Memory is constant. A file appears whole or not at all: it is written next to its final path and then renamed.
"""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, cast, get_args

from django.http import StreamingHttpResponse

from evaluation.data.formats.tables import escape_cell
from webapp.transfer.exporters.base import ColumnType, ExportColumn

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
CONTENT_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
ROWS_PER_CHUNK = 500
ROWS_PER_GROUP = 5_000

Row = Sequence[Any]


def write_file(
    path: Path, file_format: Format, columns: Sequence[ExportColumn], rows: Iterable[Row], *, raw: bool = False
) -> int:
    """Write a table to a file, replacing it.

    Returns the number of rows.

    Args:
        raw: do not escape CSV cells, even those that a spreadsheet would run as formulas.

    Raises:
        OSError: if it cannot be written; nothing is left behind then.
    """
    counted_rows = _Counted(rows)
    with whole_file(path) as file:
        if file_format == "parquet":
            _write_parquet(file, columns, counted_rows)
        else:
            for chunk in stream(file_format, columns, counted_rows, raw=raw):
                file.write(chunk)
    return counted_rows.n


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` on success.

    Raises:
        OSError: if it cannot be written; then nothing is left behind.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent}; create it first, or choose another folder for {path.name}"
        )
    handle, name = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def stream(
    file_format: Format, columns: Sequence[ExportColumn], rows: Iterable[Row], *, raw: bool = False
) -> Iterator[bytes]:
    """Yield the table as pieces of bytes, for a streaming response.

    Parquet goes through a temporary file.
    """
    if file_format == "csv":
        return _csv(columns, rows, raw=raw)
    if file_format == "jsonl":
        return _jsonl(columns, rows)
    return _parquet(columns, rows)


class _Counted:
    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = rows
        self.n = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            self.n += 1
            yield row


class _Lines:
    """Buffer for `csv.writer`, emptied by the reader."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, text: str) -> None:
        self.parts.append(text)

    def take(self) -> bytes:
        data = "".join(self.parts).encode("utf-8")
        self.parts.clear()
        return data


def _csv(columns: Sequence[ExportColumn], rows: Iterable[Row], *, raw: bool) -> Iterator[bytes]:
    lines = _Lines()
    writer = csv.writer(lines)  # Python's defaults: CRLF, quotes where needed
    keep: Callable[[str], str] = (lambda text: text) if raw else escape_cell
    writer.writerow([keep(column.name) for column in columns])
    for i, row in enumerate(rows, start=1):
        cells = zip(row, columns, strict=True)
        writer.writerow([cell_of(value, keep, column.type) for value, column in cells])
        if i % ROWS_PER_CHUNK == 0:
            yield lines.take()
    yield lines.take()


def cell_of(value: Any, keep: Callable[[str], str], kind: ColumnType = "text") -> Any:
    """Return a value as a CSV cell.

    Texts go through `keep`; in a JSON column they become JSON.
    """
    if value is None:
        return ""
    if isinstance(value, str) and kind != "json":
        return keep(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else ""
    if isinstance(value, datetime):
        return _time(value)
    return keep(_json(value))


def _jsonl(columns: Sequence[ExportColumn], rows: Iterable[Row]) -> Iterator[bytes]:
    names = [column.name for column in columns]
    lines: list[str] = []
    for row in rows:
        lines.append(_json(dict(zip(names, map(_plain, row), strict=True))))
        if len(lines) == ROWS_PER_CHUNK:
            yield ("\n".join(lines) + "\n").encode("utf-8")
            lines.clear()
    if lines:
        yield ("\n".join(lines) + "\n").encode("utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()


def _parquet(columns: Sequence[ExportColumn], rows: Iterable[Row]) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        _write_parquet(cast(IO[bytes], file), columns, rows)
        file.seek(0)
        while chunk := file.read(256 * 1024):
            yield chunk


def _write_parquet(file: IO[bytes], columns: Sequence[ExportColumn], rows: Iterable[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "text": pa.string(),
        "json": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema(
        [pa.field(column.name, types[column.type], metadata={"description": column.description}) for column in columns]
    )
    iterator = iter(rows)
    with pq.ParquetWriter(file, schema) as writer:
        while batch := list(islice(iterator, ROWS_PER_GROUP)):
            arrays = [
                pa.array([_typed(row[i], column.type) for row in batch], types[column.type])
                for i, column in enumerate(columns)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "json":
        return _json(value)
    if kind == "number":
        return float(value) if math.isfinite(value) else None
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


PIECE_BYTES = 256 * 1024


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file in pieces, and close it."""
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def sent(
    pieces: Iterator[bytes], key: str, content_name: str, file_format: Format | Literal["zip"], *, is_private: bool
) -> StreamingHttpResponse:
    """Respond with a file's pieces under the name of its content."""
    kind = "application/zip" if file_format == "zip" else CONTENT_TYPES[file_format]
    response = StreamingHttpResponse(pieces, content_type=kind)
    name = f"{key}-{content_name}{'-private' if is_private else ''}"
    response["Content-Disposition"] = f'attachment; filename="{name}.{file_format}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
