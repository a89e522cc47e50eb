"""Recognition of a file's format by its first lines."""

from __future__ import annotations

from pathlib import Path

from chatbots.storable import quote
from evaluation.formats.base import FileFormat, formats
from evaluation.formats.lines import head_of, is_gzip


def format_for(path: Path) -> FileFormat:
    """Return the format that recognises the file's beginning.

    Raises:
        OSError: if it cannot be opened.
        ValueError: if no format recognises it.
    """
    head = head_of(path)
    if not head:
        empty = (
            "is a damaged gzip, of which nothing can be read" if path.stat().st_size else "is empty"
        )
        raise ValueError(f"{path.name} {empty}")
    for file_format in formats:
        if file_format.recognises(head):
            return file_format
    if path.name.lower().endswith(".gz") and not is_gzip(path):
        raise ValueError(f"{path.name} is a damaged gzip, of which nothing can be read")
    known = "; ".join(f"{entry.name}: {entry.title}" for entry in formats)
    raise ValueError(f"{path.name} is in no format known here, it begins {quote(head)} ({known})")
