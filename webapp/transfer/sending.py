"""Answers that are files: sent in pieces while they are made, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Literal

from django.http import StreamingHttpResponse

from webapp.transfer.writers import CONTENT_TYPES, Format

_PIECE_BYTES = 256 * 1024


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file in pieces, and close it."""
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def sent(
    pieces: Iterator[bytes],
    key: str,
    what: str,
    file_format: Format | Literal["zip"],
    *,
    is_private: bool,
) -> StreamingHttpResponse:
    """Send pieces of a file under the name of what is in it."""
    kind = "application/zip" if file_format == "zip" else CONTENT_TYPES[file_format]
    response = StreamingHttpResponse(pieces, content_type=kind)
    name = f"{key}-{what}{'-private' if is_private else ''}"
    response["Content-Disposition"] = f'attachment; filename="{name}.{file_format}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
