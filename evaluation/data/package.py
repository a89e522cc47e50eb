"""Data package as a zip, with safe opening, tables and digests.

`webapp/transfer/package` writes such zips. Files from outside may be damaged or malicious: paths that lead out of the
zip, duplicate names and excessive sizes are rejected before anything is read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from chatbots.compressed_files import damage_as_error, is_zip
from chatbots.text import error_text, quote
from evaluation.data.formats.tables import unescape_cell
from evaluation.data.formats.text_files import is_xlsx

SUMS = "SHA256SUMS"
DATA_ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".xlsx", ".parquet", ".jsonl.gz", ".csv.gz")
"""Endings of files that can be imported from a zip."""
ATTENTION_CHECK = "none: attention check"
"""Direction of columns with answers to an attention check, which are not ratings."""
DESCRIPTOR = "datapackage.json"
LEFT_OUT = "confab:left_out"
"""Descriptor key of the tables omitted because the requesting user lacked a permission."""
MOST_FILES = 10_000
MOST_BYTES = 50 * 10**9
"""Maximum unpacked size of all files together."""
DOUBTED_BYTES = 10**9
MOST_TIMES_SMALLER = 250
"""Maximum compression ratio of files that unpack to more than `DOUBTED_BYTES`; study tables have 10 to 30."""
MOST_TEXT_BYTES = 50 * 10**6
"""Maximum size of a file that is read as a whole, such as the codebook."""
_LONGEST_CELL = 10_000_000
_PIECE_BYTES = 1024 * 1024


class PackageError(ValueError):
    """Error for a file that is not a data package, or is damaged."""


@dataclass(frozen=True, slots=True)
class PackageIntegrity:
    """Integrity of a package: its files compared with their digests.

    Attributes:
        n_files: number of files with digests.
        changed: files with different content.
        missing: files that no longer exist.
        extra: files without a digest.
    """

    n_files: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """True if every file has its original content."""
        return not (self.changed or self.missing or self.extra)


def left_out_of(descriptor: Any) -> tuple[str, ...]:
    """Return the names of the tables omitted from a package."""
    tables = descriptor.get(LEFT_OUT, []) if isinstance(descriptor, dict) else []
    return tuple(str(table["table"]) for table in tables)


@contextmanager
def package_open(path: Path) -> Iterator[Package]:
    """Open a data package.

    Raises:
        FileNotFoundError: if the file does not exist.
        PackageError: if it is not a zip, or one that must not be unpacked.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if not is_zip(path):
        raise PackageError(f"{path.name} is not a zip file, or is damaged")
    with damage_as_error(path.name, PackageError):
        archive = zipfile.ZipFile(path)
    with archive:
        _look(archive, path.name, path.stat().st_size)
        yield Package(path.name, archive)


@contextmanager
def data_file_of(path: Path) -> Iterator[Path | None]:
    """Extract the data file of a zip to a temporary folder; None if the zip is a data package.

    Raises:
        PackageError: as `package_open`, `Package.data_file` and `Package.extract`.
    """
    with package_open(path) as package, tempfile.TemporaryDirectory(prefix="confab-") as folder:
        yield None if package.is_of_study else package.extract(package.data_file(), Path(folder))


def _look(archive: zipfile.ZipFile, name: str, n_zipped: int) -> None:
    """Reject zip entries that must not be unpacked."""
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise PackageError(f"{name} contains {len(entries)} files; the maximum is {MOST_FILES}")
    seen: set[str] = set()
    for entry in entries:
        path = PurePosixPath(entry.filename)
        is_plain = not (path.is_absolute() or ".." in path.parts or "\\" in entry.filename)
        if not is_plain or ":" in entry.filename:
            raise PackageError(f"{name} contains {quote(entry.filename)}, a path that leads out of it")
        if entry.filename in seen:
            raise PackageError(f"{name} contains {quote(entry.filename)} twice")
        if entry.flag_bits & 1:
            raise PackageError(f"{name} is encrypted: {quote(entry.filename)} cannot be read")
        seen.add(entry.filename)
    n_bytes = sum(entry.file_size for entry in entries)
    if n_bytes > MOST_BYTES:
        raise PackageError(f"{name} would unpack to {n_bytes:,} bytes; the maximum is {MOST_BYTES:,}")
    if n_bytes > max(DOUBTED_BYTES, n_zipped * MOST_TIMES_SMALLER):
        raise PackageError(
            f"{name} has {n_zipped:,} bytes and would unpack to {n_bytes:,}, which is implausible for study data"
        )


class Package:
    """An open data package."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        self.name = name
        self._archive = archive

    @property
    def paths(self) -> list[str]:
        """Its files, in order."""
        return [entry.filename for entry in self._archive.infolist() if not entry.is_dir()]

    def text(self, path: str) -> str:
        """Return the whole text of a file.

        Raises:
            PackageError: if it does not exist, is too large, is damaged, or is not text.
        """
        if path not in self._archive.namelist():
            raise PackageError(f"{self.name} contains no {path}")
        n_bytes = self._archive.getinfo(path).file_size
        if n_bytes > MOST_TEXT_BYTES:
            raise PackageError(f"{path} has {n_bytes:,} bytes; the maximum is {MOST_TEXT_BYTES:,}")
        with self._damage_named(path):
            data = self._archive.read(path)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise PackageError(f"{path} is not UTF-8 text") from None

    def json(self, path: str) -> Any:
        """Return the content of a JSON file.

        Raises:
            PackageError: as in `text`, or if the file is not JSON.
        """
        try:
            return json.loads(self.text(path))
        except PackageError:
            raise
        except (ValueError, RecursionError) as error:
            raise PackageError(f"{path} is not JSON: {error_text(error)}") from None

    def tables(self) -> list[str]:
        """Return the names of its tables in alphabetical order."""
        parts = [PurePosixPath(path) for path in self.paths]
        return sorted(p.stem for p in parts if p.parent == PurePosixPath("data") and p.suffix == ".csv")

    def rows(self, table: str) -> Iterator[dict[str, str]]:
        """Yield a table's rows, without the escapes for spreadsheets.

        Raises:
            PackageError: if there is no such table, or one of its rows has too few or too many cells.
        """
        path = f"data/{table}.csv"
        if path not in self._archive.namelist():
            raise PackageError(f"{self.name} contains no {path}")
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
        with self._damage_named(path), self._archive.open(path) as file:
            try:
                reader = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
                header = next(reader, [])
                for cells in reader:
                    if len(cells) != len(header):
                        raise PackageError(
                            f"{path}, line {reader.line_num}: {len(cells)} cells for {len(header)} columns"
                        )
                    yield dict(zip(header, map(unescape_cell, cells), strict=True))
            except UnicodeDecodeError:
                raise PackageError(f"{path} is not UTF-8 text") from None
            except csv.Error as error:
                raise PackageError(f"{path} is damaged: {error}") from None

    def _damage_named(self, path: str) -> AbstractContextManager[None]:
        return damage_as_error(f"{self.name}, file {path},", PackageError)

    def unpack(self, folder: Path) -> None:
        """Extract all files into a folder.

        Raises:
            PackageError: if one of them is damaged.
        """
        with damage_as_error(self.name, PackageError):
            self._archive.extractall(folder)

    @property
    def is_of_study(self) -> bool:
        """True for a data package, also an incomplete one; False for a zip of other files."""
        return not {DESCRIPTOR, SUMS, "versions.json"}.isdisjoint(self.paths)

    @property
    def has_tables(self) -> bool:
        """True for a zip of Confab's tables, which belong together."""
        return any(PurePosixPath(path).name.startswith(("messages", "ratings", "items")) for path in self.paths)

    def _data_files(self) -> list[str]:
        return [
            path
            for path in self.paths
            if path.lower().endswith(DATA_ENDINGS)
            and not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(path).parts)
        ]

    def data_file(self) -> str:
        """Return the path of the zip's only data file, or of `conversations` with other files next to it.

        The exports of ChatGPT and Claude contain such a file.

        Raises:
            PackageError: if there is none, or several.
        """
        paths = self._data_files()
        if not paths:
            names = ", ".join(self.paths[:5]) + ", …" * (len(self.paths) > 5) or "nothing"
            raise PackageError(
                f"{self.name} contains neither a data package nor a file ending in {', '.join(DATA_ENDINGS)}; it "
                f"contains {names}"
            )
        conversations = [path for path in paths if PurePosixPath(path).name.lower().startswith("conversations.")]
        if len(paths) > 1 and len(conversations) != 1:
            names = ", ".join(paths[:5]) + ", …" * (len(paths) > 5)
            raise PackageError(f"{self.name} contains {len(paths)} data files: {names}; unpack it and import one")
        return (conversations or paths)[0]

    def extract(self, path: str, folder: Path) -> Path:
        """Extract one file into a folder, under its own name; return its path.

        Raises:
            PackageError: if it is damaged, larger than the zip's directory says, or itself a zip.
        """
        target, n_left = folder / PurePosixPath(path).name, self._archive.getinfo(path).file_size
        with self._damage_named(path), self._archive.open(path) as source, target.open("wb") as file:
            while piece := source.read(_PIECE_BYTES):
                n_left -= len(piece)
                if n_left < 0:
                    raise PackageError(f"{self.name}: {quote(path)} is larger than the zip says")
                file.write(piece)
        if is_zip(target) and not is_xlsx(target):
            raise PackageError(f"{self.name}: {quote(path)} is a zip; unpack {self.name} and import the zip in it")
        return target

    def check(self) -> PackageIntegrity:
        """Compare every file with its digest.

        Raises:
            PackageError: if the package has no digests, or invalid lines among them.
        """
        known = self._sums()
        paths = set(self.paths) - {SUMS}
        changed = [path for path in sorted(paths & known.keys()) if self._digest(path) != known[path]]
        return PackageIntegrity(
            len(known), tuple(changed), tuple(sorted(known.keys() - paths)), tuple(sorted(paths - known.keys()))
        )

    def _sums(self) -> dict[str, str]:
        digests: dict[str, str] = {}
        for number, line in enumerate(self.text(SUMS).splitlines(), start=1):
            digest, _, path = line.partition("  ")
            if len(digest) != 64 or not path:
                raise PackageError(f"{SUMS}, line {number} is not a digest with a path: {quote(line)}")
            digests[path] = digest.lower()
        return digests

    def _digest(self, path: str) -> str:
        """Return a file's digest; empty if damaged, which matches none."""
        digest = hashlib.sha256()
        try:
            with self._damage_named(path), self._archive.open(path) as file:
                while piece := file.read(_PIECE_BYTES):
                    digest.update(piece)
        except PackageError:
            return ""
        return digest.hexdigest()
