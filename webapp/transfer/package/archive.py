"""A zip that is made while it is read: the same files are always the same bytes, and memory does not grow with them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, cast

from evaluation.package import SUMS

_NEVER = (1980, 1, 1, 0, 0, 0)
"""The time of every file, the earliest that a zip can hold: when a package was made is no part of it."""
_PIECE_BYTES = 256 * 1024
_LARGE_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class File:
    """A file of a zip: its path in it, how many bytes it has, and these in pieces."""

    path: str
    n_bytes: int
    pieces: Iterable[bytes]

    @classmethod
    def of(cls, path: str, text: str) -> File:
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
    """The files that have been packed so far, by their paths."""

    files: dict[str, Packed] = field(default_factory=dict)

    def sums(self) -> str:
        """Return the lines that `sha256sum --check` reads."""
        return "".join(f"{one.sha256}  {path}\n" for path, one in sorted(self.files.items()))


class _Pipe:
    """File object that a zip is written to: keeps the bytes until they are taken."""

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
    """Yield a zip of the files in pieces; its last file has the digests of all others.

    Args:
        ledger: gets each file once it is packed, so that what `files` yields later can tell of it.
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
                    if pipe.n_held >= _PIECE_BYTES:
                        yield pipe.take()
            ledger.files[file.path] = Packed(digest.hexdigest(), n_bytes)
    yield pipe.take()


def _with_sums(files: Iterable[File], ledger: Ledger) -> Iterator[File]:
    yield from files
    yield File.of(SUMS, ledger.sums())


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _NEVER)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # as if on Unix, wherever it is made
    entry.external_attr = 0o644 << 16
    return entry
