"""Lines of text files in any encoding, and detection of their format.

Byte-order marks, UTF-16, Windows-1252 and lone carriage returns are converted to UTF-8 with line feeds. JSON arrays and
multi-line objects are converted to one object per line. Unreadable content is reported, not raised as an error.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from chatbots.compressed_files import DAMAGE_ERRORS, is_zip
from chatbots.text import error_text, quote
from evaluation.data.formats.base import FileFormat, Skipped, formats

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

    from evaluation.data.formats.mapping import FileMapping

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_COLUMNS = 2_000
MAX_EXPANSION, MAX_EXPANDED_BYTES = 200, 4 * 1024**3
"""Largest size of an unpacked file: relative to its compressed size, and in bytes."""
_BATCH_BYTES = 64 * 1024 * 1024
_WORKBOOK = "xl/workbook.xml"
MAX_WHOLE_CHARS = 256 * 1024 * 1024
"""Maximum length of JSON that does not have one object per line, because it is read whole."""
_HEAD_BYTES = 65536
_GZIP_MAGIC = b"\x1f\x8b"
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LOOKED_AT = 50
"""Number of rows used to recognise a table."""
_BLANK = re.compile(r"[\s,]*")
_GOES_ON = re.compile(r"[{\[,:]\s*\Z")
"""Characters at the end of a JSON line that continues on the next line."""
_DELIMITERS = (",", ";", "\t", "|")
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_QUOTED_HIGH = re.compile(rb'"[^\n]*[\x80-\xff][^\n]*"')
_NOT_IN_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_MOST_SHORT = 0.7
"""Share of runs of one or two high bytes above which a text counts as Western-encoded."""


class _AsUtf8(io.RawIOBase):
    """Text stream encoded as UTF-8 bytes."""

    def __init__(self, texts: io.TextIOWrapper) -> None:
        self._texts = texts
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = self._texts.read(8192).encode("utf-8", "surrogateescape")
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        self._texts.close()
        super().close()


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file as UTF-8 bytes with line feeds.

    Gzip files are decompressed, whatever their name.
    """
    with _unpacked(path) as handle:
        head = _beginning(handle, _HEAD_BYTES)
    encoding = _utf_16_of(head)
    # No line feed so far, so lines end with carriage returns.
    lone_cr = b"\r" in head[:-1] and b"\n" not in head
    if encoding is not None:
        lone_cr = b"\r" in head and b"\n" not in head
    elif is_cp1252(path):
        encoding = "cp1252"
    elif not lone_cr:
        return _unpacked(path)
    texts = io.TextIOWrapper(
        _unpacked(path),
        encoding=encoding or "utf-8",
        errors="replace" if encoding else "surrogateescape",
        newline=None if lone_cr else "",
    )
    return io.BufferedReader(_AsUtf8(texts))


def is_cp1252(path: Path) -> bool:
    """Return True for text that is probably Windows-1252 instead of UTF-8.

    Excel writes this encoding in Western Europe.

    Its bytes above 127 are isolated or in pairs among ASCII; other scripts have longer runs.
    """
    stat = path.stat()
    return _is_cp1252(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=16)
def _is_cp1252(path: Path, _n_bytes: int, _changed_at: int) -> bool:
    n_utf8 = n_other = n_short = 0
    with _unpacked(path) as handle, contextlib.suppress(*_BROKEN):
        head = _beginning(handle, _HEAD_BYTES)
    if _utf_16_of(head):
        return False
    is_json = head.lstrip()[:1] in (b"{", b"[")
    with _unpacked(path) as handle, contextlib.suppress(*_BROKEN):
        while line := handle.readline(MAX_LINE_BYTES):
            for run in () if line.isascii() else _HIGH_BYTES.findall(line):
                try:
                    run.decode("utf-8")
                except UnicodeDecodeError:
                    if _NOT_IN_CP1252.search(run) or (is_json and not _QUOTED_HIGH.search(line)):
                        return False
                    n_other += 1
                    n_short += len(run) <= 2
                else:
                    n_utf8 += 1
    return n_other > n_utf8 and n_short > _MOST_SHORT * n_other


def encoding_note(path: Path) -> str:
    """Return a note on a guessed encoding, or an empty text."""
    if is_parquet(path) or not is_cp1252(path):
        return ""
    return "The text is not in UTF-8; it was read as Windows-1252 (cp1252)"


def is_parquet(path: Path) -> bool:
    """Return True if a file starts with Parquet's signature."""
    with path.open("rb") as handle:
        return handle.read(4) == b"PAR1"


@lru_cache(maxsize=64)
def _is_xlsx(path: Path, _n_bytes: int, _changed_at: int) -> bool:
    if not is_zip(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return _WORKBOOK in archive.namelist()
    except DAMAGE_ERRORS:
        return False


def is_xlsx(path: Path) -> bool:
    """Return True for an Excel workbook (.xlsx), whatever its name."""
    stat = path.stat()
    return _is_xlsx(path, stat.st_size, stat.st_mtime_ns)


class _ByteStream(io.RawIOBase):
    """Stream of the bytes of an iterator."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = next(self._pieces, b"")
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


def _xlsx_lines(path: Path) -> Iterator[bytes]:
    """Yield the first sheet of a workbook as lines of CSV, in constant memory.

    Raises:
        ValueError: if the workbook is damaged, expands too much, or has too many columns.
    """
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(entry.file_size for entry in archive.infolist())
        if n_bytes > MAX_EXPANDED_BYTES or n_bytes > max(MAX_EXPANSION * path.stat().st_size, MAX_LINE_BYTES):
            raise ValueError(f"{path.name} expands to {n_bytes:,} bytes, which is too much for its size")
        with path.open("rb") as file:  # not the path, whose ending openpyxl would check
            workbook = load_workbook(file, read_only=True, data_only=True)
            width = 0
            for row in workbook.worksheets[0].iter_rows(values_only=True):
                cells = ["" if cell is None else _xlsx_cell(cell) for cell in row]
                n_filled = max((n for n, cell in enumerate(cells, 1) if cell), default=0)
                check_column_count(n_filled, path.name)
                width = max(width, n_filled)
                # A row ends at its last cell with a value; a table's rows are all as wide as its header.
                cells = [*cells[:n_filled], *[""] * (width - n_filled)] if n_filled else []
                text = io.StringIO()
                csv.writer(text, lineterminator="\n").writerow(cells)
                yield text.getvalue().encode("utf-8", "surrogatepass")
    except (KeyError, TypeError, AttributeError, SyntaxError, *DAMAGE_ERRORS) as error:
        if isinstance(error, ValueError) and path.name in str(error):
            raise
        raise ValueError(f"{path.name} is not an Excel workbook, or is damaged") from error


def _xlsx_cell(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)


def check_column_count(n_columns: int, file_name: str, *, is_cut: bool = False) -> None:
    """Check that a table has at most `MAX_COLUMNS` columns.

    Args:
        is_cut: True if only the first columns were counted.

    Raises:
        ValueError: if it has more.
    """
    if n_columns > MAX_COLUMNS:
        number = f"more than {n_columns:,}" if is_cut else f"{n_columns:,}"
        raise ValueError(f"{file_name} has {number} columns; at most {MAX_COLUMNS:,} are allowed")


def _unpacked(path: Path) -> IO[bytes]:
    if is_xlsx(path):
        return io.BufferedReader(_ByteStream(_xlsx_lines(path)))
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def is_gzip(path: Path) -> bool:
    """Return True if a file starts with gzip's signature."""
    with path.open("rb") as handle:
        return handle.read(2) == _GZIP_MAGIC


def _beginning(handle: IO[bytes], n_bytes: int) -> bytes:
    data = b""
    with contextlib.suppress(*_BROKEN):
        # Read in pieces, because the data before a gzip's truncation are valid.
        while len(data) < n_bytes and (piece := handle.read(1024)):
            data += piece
    return data


def _utf_16_of(head: bytes) -> str | None:
    """Return the UTF-16 variant, with or without byte-order mark, or None."""
    if head.startswith(_UTF_16):
        return "utf-16"
    pairs = head[: len(head) // 2 * 2]
    if len(pairs) >= 8:
        for encoding, zeros, character_bytes in (
            ("utf-16-le", pairs[1::2], pairs[::2]),
            ("utf-16-be", pairs[::2], pairs[1::2]),
        ):
            if zeros.count(0) > 0.5 * len(zeros) and not character_bytes.count(0):
                return encoding
    return None


def head_of(path: Path, n_bytes: int = _HEAD_BYTES) -> str:
    """Return the readable start of a file without byte-order mark."""
    with open_bytes(path) as handle:
        data = _beginning(handle, n_bytes)
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


@dataclass(frozen=True, slots=True)
class TableShape:
    """Delimiter of a CSV, and the lines before its header."""

    delimiter: str
    n_before: int = 0
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def shape_of(head: str) -> TableShape:
    """Infer a table's shape from its first lines."""
    lines = head.splitlines()[:_LOOKED_AT]
    separator = _SEPARATOR_LINE.fullmatch(lines[0]) if lines else None
    n_before = 1 if separator else 0
    filled_lines = [line for line in lines[n_before:] if line.strip()]
    plain = [line for line in filled_lines if not line.startswith("#")] or filled_lines
    delimiter = separator[1] if separator else _best_delimiter(plain)
    counts = [_count_cells(line, delimiter) for line in plain]
    n_cells = next((n for n in counts if n > 1), 1)
    titles = []
    while n_before < len(lines):
        line = lines[n_before]
        n = _count_cells(line, delimiter)
        if (line.strip() and (n > 1 if not line.startswith("#") else n == n_cells)) or n_cells == 1:
            break
        if line.strip():
            titles.append(line.strip())
        n_before += 1
    notes = []
    if delimiter not in ",\t":
        notes.append(f"Cells are separated by {delimiter}")
    if titles:
        title_text = quote(titles[0], 60)
        notes.append(f"{len(titles)} line{'s' * (len(titles) > 1)} above the header skipped: {title_text}")
    return TableShape(delimiter, n_before, tuple(notes))


def _count_cells(line: str, delimiter: str) -> int:
    """Count the cells of a line up to the last non-blank one."""
    cells = next(csv.reader([line], delimiter=delimiter), [])
    return max((n for n, cell in enumerate(cells, 1) if cell.strip()), default=0)


def _best_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that gives many cells, consistently across lines."""

    def score(delimiter: str) -> float:
        try:
            counts = Counter(len(row) for row in csv.reader(lines[:20], delimiter=delimiter))
        except csv.Error:
            return 0.0
        return max(((n - 1) * (0.1 + times / counts.total()) for n, times in counts.items()), default=0.0)

    return max(_DELIMITERS, key=score)


def byte_lines(path: Path) -> Iterator[tuple[int, bytes] | Skipped]:
    """Yield (number from 1, line with its end).

    A damaged file ends with a `Skipped`.
    """
    number = n_bytes = 0
    most_bytes = _most_expanded(path)
    with open_bytes(path) as handle:
        while True:
            number += 1
            if n_bytes > most_bytes:
                yield Skipped(number, f"the file expands to more than {most_bytes:,} bytes; the rest is not read")
                return
            try:
                line = handle.readline(MAX_LINE_BYTES + 1)
                if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                    while line and not line.endswith(b"\n"):
                        line = handle.readline(MAX_LINE_BYTES)
                    yield Skipped(number, f"the line is longer than {MAX_LINE_BYTES} bytes")
                    continue
            except _BROKEN as error:
                yield Skipped(number, f"the compressed file is damaged from here on: {error}")
                return
            if not line:
                return
            n_bytes += len(line)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def text_lines(path: Path) -> Iterator[tuple[int, str] | Skipped]:
    """Yield (number from 1, text without line end) for non-blank lines.

    A line that is not in UTF-8 is `Skipped`.

    In a JSON array or with multi-line objects, each object is one text with the number of its first line; in an array
    on a single line, with the object's number.
    """
    if _goes_over_lines(head_of(path)):
        yield from _objects(path)
        return
    for item in byte_lines(path):
        if isinstance(item, Skipped):
            yield item
            continue
        number, line = item
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            bad_byte = error.object[error.start]
            yield Skipped(
                number, f"byte {error.start + 1} is 0x{bad_byte:02x}, which is not UTF-8; save the file as UTF-8"
            )
            continue
        if text.strip():
            yield number, text


def is_array(path: Path) -> bool:
    """Return True if a file is a single JSON array."""
    head = head_of(path)
    return head.lstrip()[:1] == "[" and _goes_over_lines(head)


def _goes_over_lines(head: str) -> bool:
    """Return True if a file's JSON values span several lines."""
    first, _, rest = head.lstrip().partition("\n")
    if first[:1] not in ("[", "{"):
        return False
    if not rest.strip():  # one line: an array of objects, or one object
        return bool(re.match(r"\[\s*\{", first))
    if first[0] == "{":  # the line after a damaged one is a complete object
        return bool(_GOES_ON.search(first)) and not (rest.lstrip().startswith("{") and not first.rstrip().endswith("["))
    if _GOES_ON.search(first):
        return True
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return False  # a list, followed by others on the next lines


def _objects(path: Path) -> Iterator[tuple[int, str] | Skipped]:
    """Yield (line, text) of each value in an array or sequence."""
    with open_bytes(path) as handle:
        data = _beginning(handle, MAX_WHOLE_CHARS + 1)
    text = data.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    if len(text) > MAX_WHOLE_CHARS:
        yield Skipped(
            1,
            f"JSON without one object per line can have up to {MAX_WHOLE_CHARS:,} characters; write one object per "
            "line, for example with: jq -c '.[]' FILE",
        )
        return
    decoder = json.JSONDecoder()
    position = len(text) - len(text.lstrip())
    in_array = text[position : position + 1] == "["
    position += in_array
    line, counted_to, n_values = 1, 0, 0
    while True:
        position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        line, counted_to = line + text.count("\n", counted_to, position), position
        if position == len(text) or (in_array and text[position] == "]"):
            break
        try:
            _value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            wrong = line + text.count("\n", position, error.pos)
            problem = error.msg.removesuffix(" at")
            yield Skipped(wrong, f"not JSON: {problem}; the rest is not read")
            return
        except (ValueError, RecursionError) as error:
            yield Skipped(line, f"not JSON: {error_text(error)}; the rest is not read")
            return
        n_values += 1
        yield (max(line, n_values) if in_array else line), text[position:end]
        position = end
    if in_array and position == len(text):
        yield Skipped(line, "the JSON array is truncated: its ] is missing")


PlainRows = Iterator[Mapping[str, Any] | Skipped]
"""Rows of a Parquet or JSON table, cells by column."""


def plain_rows(path: Path) -> tuple[list[str], PlainRows] | None:
    """Return columns and rows of a Parquet or flat JSON table, or None.

    Raises:
        ValueError: if a Parquet file is damaged.
    """
    if is_parquet(path):
        import pyarrow.parquet as parquet

        try:
            file = parquet.ParquetFile(path)
        except DAMAGE_ERRORS as error:
            raise ValueError(f"{path.name} is not a Parquet file, or is damaged") from error
        check_column_count(len(file.schema_arrow.names), path.name)
        return list(file.schema_arrow.names), _parquet_rows(file, path)
    if head_of(path, 64).lstrip()[:1] not in ("{", "["):
        return None
    first = [row for row in islice(_json_rows(path), _LOOKED_AT) if not isinstance(row, Skipped)]
    if not first or not all(map(_is_table_row, first)):
        return None
    columns: dict[str, None] = {}
    for row in _json_rows(path):
        if not isinstance(row, Skipped):
            columns |= dict.fromkeys(row)
            check_column_count(len(columns), path.name)
    return list(columns), _json_rows(path)


def _parquet_rows(file: ParquetFile, path: Path) -> PlainRows:
    """Yield the rows of a Parquet file; one that expands too much ends with a `Skipped`.

    Raises:
        ValueError: if a page is damaged; opening the file only checks the footer.
    """
    n_rows, n_bytes, most_bytes = 0, 0, _most_expanded(path)
    groups = [file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups)]
    # Every row can repeat the largest value of its group, which is stored once.
    batch_rows = min(max(_BATCH_BYTES // max(groups, default=1), 1), 1000)
    try:
        for batch in file.iter_batches(batch_rows):
            yield from batch.to_pylist()
            n_rows, n_bytes = n_rows + len(batch), n_bytes + batch.nbytes
            if n_bytes > most_bytes:
                yield Skipped(n_rows, f"the file expands to more than {most_bytes:,} bytes; the rest is not read")
                return
    except DAMAGE_ERRORS as error:
        raise ValueError(f"{path.name} is a damaged Parquet file") from error


def _most_expanded(path: Path) -> int:
    """Return the number of bytes up to which a compressed file is read."""
    return max(MAX_EXPANSION * path.stat().st_size, 64 * MAX_LINE_BYTES)


def _is_table_row(row: Mapping[str, Any]) -> bool:
    """Return True if a record is a table row.

    Its cells are single values, or it names its conversation like exported messages.
    """
    is_nested = any(isinstance(cell, dict | list) for cell in row.values())
    return not is_nested or ("turns" not in row and isinstance(row.get("conversation"), str | int))


def json_values(path: Path) -> Iterator[tuple[int, Any] | Skipped]:
    """Yield (line, value) of each record of a JSON or Parquet file.

    Raises:
        ValueError: if a Parquet file is damaged.
    """
    if is_parquet(path):
        table = plain_rows(path)
        for number, row in enumerate(table[1] if table else (), 1):
            yield row if isinstance(row, Skipped) else (number, row)
        return
    for item in text_lines(path):
        if isinstance(item, Skipped):
            yield item
            continue
        number, text = item
        try:
            yield number, json.loads(text)
        except json.JSONDecodeError as error:
            problem = error.msg.removesuffix(" at")  # suffix of some of the parser's messages
            yield Skipped(number, f"not JSON: {problem} at character {error.pos + 1}")
        except RecursionError:
            yield Skipped(number, "not a conversation: nested too deeply")
        except ValueError as error:  # an integer with thousands of digits
            yield Skipped(number, f"not JSON: {error_text(error)}")


def _json_rows(path: Path) -> PlainRows:
    for item in json_values(path):
        if isinstance(item, Skipped):
            yield item
        else:
            yield item[1] if isinstance(item[1], dict) else Skipped(item[0], "it must be an object {…}")


def _table_head(path: Path) -> str | None:
    """Return a Parquet or JSON table's first rows as CSV, or None."""
    table = plain_rows(path)
    if table is None:
        return None
    columns, rows = table
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(
        [row.get(column) for column in columns] for row in islice(rows, _LOOKED_AT) if not isinstance(row, Skipped)
    )
    return text.getvalue()


def _first_rows(path: Path) -> list[Any]:
    """Return the first records of a Parquet or JSON file; empty for other files."""
    if is_parquet(path):
        table = plain_rows(path)
        rows: Iterator[Any] = iter(()) if table is None else table[1]
    elif head_of(path, 64).lstrip()[:1] in ("{", "["):
        rows = (item[1] for item in json_values(path) if not isinstance(item, Skipped))
    else:
        return []
    return list(islice(rows, _LOOKED_AT))


def _mapped(file_format: FileFormat, mapping: FileMapping | None) -> FileFormat:
    """Return the format with the researcher's mapping, if it takes one."""
    take = getattr(file_format, "mapped", None)
    return file_format if mapping is None or take is None else take(mapping)


def format_for(path: Path, mapping: FileMapping | None = None) -> FileFormat:
    """Return the format that recognises the start of the file.

    Args:
        mapping: the researcher's decisions; None: all guessed.

    Raises:
        OSError: if it cannot be opened.
        ValueError: if no format recognises it.
    """
    head = "" if is_parquet(path) else head_of(path)
    first_line, line_end, _ = head.partition("\n")
    if first_line[:1] not in ("{", "["):
        n_columns = max(first_line.count(delimiter) for delimiter in _DELIMITERS) + 1
        check_column_count(n_columns, path.name, is_cut=not line_end)
    if not head and not is_parquet(path):
        empty = "is a damaged gzip file without readable data" if path.stat().st_size else "is empty"
        raise ValueError(f"{path.name} {empty}")
    if rows := _first_rows(path):
        for file_format in formats:
            sees_rows = getattr(file_format, "recognises_rows", None)
            if sees_rows is not None and sees_rows(rows):
                return _mapped(file_format, mapping)
    reasons = []
    for beginning in filter(None, (_table_head(path), head)):
        for file_format in formats:
            if file_format.recognises(beginning):
                return _mapped(file_format, mapping)
            if explain := getattr(file_format, "why_not", None):
                reasons.append(explain(beginning))
    if path.name.lower().endswith(".gz") and not is_gzip(path):
        raise ValueError(f"{path.name} is a damaged gzip file without readable data")
    if reason := next(filter(None, reasons), ""):
        raise ValueError(f"{path.name} is in an unknown format: {reason}")
    nearest = formats.get("jsonl" if head.lstrip()[:1] in ("{", "[") else "csv").title
    raise ValueError(
        f"{path.name} is in an unknown format; it begins {quote(head)}. The nearest format is {nearest}. Convert the "
        "file to a table with a header, whose columns you assign on the page Import"
    )
