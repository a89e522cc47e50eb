"""Lines of text files of unknown make, and recognition of their format.

Byte-order marks, UTF-16 and lines that end with a lone carriage return are read as UTF-8 with line feeds. A JSON
array and objects printed over several lines come as one object a line. What cannot be read is reported, not raised.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from chatbots.text import error_text, quote
from evaluation.formats.base import FileFormat, Skipped, formats

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_WHOLE_CHARS = 256 * 1024 * 1024
"""Of JSON that is not one object a line, which must be read whole."""
_HEAD_BYTES = 65536
_GZIP_MAGIC = b"\x1f\x8b"
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLANK = re.compile(r"[\s,]*")
_GOES_ON = re.compile(r"[{\[,:]\s*\Z")
"""At the end of a line of JSON that another line continues."""
_DELIMITERS = (",", ";", "\t")


class _AsUtf8(io.RawIOBase):
    """A text stream as bytes in UTF-8."""

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
    """Open the file's bytes as UTF-8 with line feeds, unpacked if it is a gzip whatever its name."""
    with _unpacked(path) as handle:
        head = _beginning(handle, _HEAD_BYTES)
    encoding = _utf_16_of(head)
    # Its first line would have ended by now, were it no CR that ends lines.
    lone_cr = b"\r" in head[:-1] and b"\n" not in head
    if encoding is not None:
        lone_cr = b"\r" in head and b"\n" not in head
    elif not lone_cr:
        return _unpacked(path)
    texts = io.TextIOWrapper(
        _unpacked(path),
        encoding=encoding or "utf-8",
        errors="replace" if encoding else "surrogateescape",
        newline=None if lone_cr else "",
    )
    return io.BufferedReader(_AsUtf8(texts))


def _unpacked(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def is_gzip(path: Path) -> bool:
    """Check whether a file begins as a gzip does."""
    with path.open("rb") as handle:
        return handle.read(2) == _GZIP_MAGIC


def _beginning(handle: IO[bytes], n_bytes: int) -> bytes:
    data = b""
    with contextlib.suppress(*_BROKEN):
        # Piece by piece, for what comes before the place where a gzip breaks off is good.
        while len(data) < n_bytes and (piece := handle.read(1024)):
            data += piece
    return data


def _utf_16_of(head: bytes) -> str | None:
    """Return the encoding of UTF-16, with a byte-order mark or without, else None."""
    if head.startswith(_UTF_16):
        return "utf-16"
    pairs = head[: len(head) // 2 * 2]
    if len(pairs) >= 8:
        for encoding, zeros, others in (("utf-16-le", pairs[1::2], pairs[::2]), ("utf-16-be", pairs[::2], pairs[1::2])):
            if zeros.count(0) > 0.5 * len(zeros) and not others.count(0):
                return encoding
    return None


def head_of(path: Path, n_bytes: int = _HEAD_BYTES) -> str:
    """Return the beginning of the file without a byte-order mark, as far as it can be read."""
    with open_bytes(path) as handle:
        data = _beginning(handle, n_bytes)
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def delimiter_of(head: str) -> str:
    """Return the delimiter of a table's columns (comma, semicolon or tab), by its first line."""
    first = head.splitlines()[:1]
    n_cells = {one: len(next(csv.reader(first, delimiter=one), [])) for one in _DELIMITERS}
    return max(_DELIMITERS, key=lambda one: n_cells[one])


def byte_lines(path: Path) -> Iterator[tuple[int, bytes] | Skipped]:
    """Yield (number from 1, line with its end) for every line; a broken file ends with a `Skipped`."""
    number = 0
    with open_bytes(path) as handle:
        while True:
            number += 1
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
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def text_lines(path: Path) -> Iterator[tuple[int, str] | Skipped]:
    """Yield (number from 1, text without its end), blank lines left out; a line not in UTF-8 is `Skipped`.

    Of a JSON array, or objects over several lines, each object comes as one text, with the line that it begins in.
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
            found = error.object[error.start]
            yield Skipped(
                number, f"byte {error.start + 1} is 0x{found:02x}, which is not UTF-8; save the file as UTF-8"
            )
            continue
        if text.strip():
            yield number, text


def _goes_over_lines(head: str) -> bool:
    """Return True if a file's JSON is not one value a line."""
    first, _, rest = head.lstrip().partition("\n")
    if first[:1] not in ("[", "{"):
        return False
    if not rest.strip():  # one line: an array of objects, or one object
        return bool(re.match(r"\[\s*\{", first))
    if first[0] == "{":  # after a damaged line comes an object of its own
        return bool(_GOES_ON.search(first)) and not (rest.lstrip().startswith("{") and not first.rstrip().endswith("["))
    if _GOES_ON.search(first):
        return True
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return False  # a list, and others in the lines that follow


def _objects(path: Path) -> Iterator[tuple[int, str] | Skipped]:
    """Yield (line, text) of each value of an array, or of values one after another."""
    with open_bytes(path) as handle:
        data = _beginning(handle, MAX_WHOLE_CHARS + 1)
    text = data.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    if len(text) > MAX_WHOLE_CHARS:
        yield Skipped(
            1,
            f"JSON that is not one object per line is read up to {MAX_WHOLE_CHARS:,} characters; "
            "write one object per line, such as by: jq -c '.[]' FILE",
        )
        return
    decoder = json.JSONDecoder()
    at = len(text) - len(text.lstrip())
    is_array = text[at : at + 1] == "["
    at += is_array
    line, counted = 1, 0
    while True:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
        line, counted = line + text.count("\n", counted, at), at
        if at == len(text) or (is_array and text[at] == "]"):
            break
        try:
            _value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            wrong = line + text.count("\n", at, error.pos)
            what = error.msg.removesuffix(" at")
            yield Skipped(wrong, f"not JSON: {what}; nothing behind it is read")
            return
        except (ValueError, RecursionError) as error:
            yield Skipped(line, f"not JSON: {error_text(error)}; nothing behind it is read")
            return
        yield line, text[at:end]
        at = end
    if is_array and at == len(text):
        yield Skipped(line, "the JSON array breaks off: its ] is missing")


def format_for(path: Path) -> FileFormat:
    """Return the format that recognises the file's beginning.

    Raises:
        OSError: if it cannot be opened.
        ValueError: if no format recognises it.
    """
    head = head_of(path)
    if not head:
        empty = "is a damaged gzip, of which nothing can be read" if path.stat().st_size else "is empty"
        raise ValueError(f"{path.name} {empty}")
    for file_format in formats:
        if file_format.recognises(head):
            return file_format
    if path.name.lower().endswith(".gz") and not is_gzip(path):
        raise ValueError(f"{path.name} is a damaged gzip, of which nothing can be read")
    known = "; ".join(f"{entry.name}: {entry.title}" for entry in formats)
    raise ValueError(f"{path.name} is in no format known here, it begins {quote(head)} ({known})")
