"""Lines of a text file or a gzip of one, by number, whatever stands in them.

Bytes that are not UTF-8, lines beyond all measure and a gzip that breaks off are told, not raised.
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evaluation.formats.base import Skipped

MAX_LINE_BYTES = 16 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)


def open_bytes(path: Path) -> IO[bytes]:
    """Open the file's bytes, unpacked if it is a gzip whatever its name."""
    handle = path.open("rb")
    magic = handle.read(2)
    handle.seek(0)
    if magic != _GZIP_MAGIC:
        return handle
    handle.close()
    return gzip.open(path, "rb")  # type: ignore[return-value]


def head_of(path: Path, n_bytes: int = 65536) -> str:
    """Return the beginning of the file without a byte-order mark, as far as it can be read."""
    data = b""
    with open_bytes(path) as handle, contextlib.suppress(*_BROKEN):
        # Piece by piece, for what comes before the place where a gzip breaks off is good.
        while len(data) < n_bytes and (piece := handle.read(1024)):
            data += piece
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


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
    """Yield (number from 1, text without its end), blank lines left out; a line not in UTF-8 is `Skipped`."""
    for item in byte_lines(path):
        if isinstance(item, Skipped):
            yield item
            continue
        number, line = item
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            found = error.object[error.start]
            yield Skipped(number, f"byte {error.start + 1} is 0x{found:02x}, which is not UTF-8")
            continue
        if text.strip():
            yield number, text
