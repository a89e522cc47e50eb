"""Encoder caches that persist between runs: computed arrays and encoded texts.

Arrays (word vectors, encoded corpora) are stored in one folder, set once per process (`cache_folder_set`).

`TextStore` keeps one row of numbers per encoder and text, because a study is measured and fitted many times and most
of the time would go into encoding the same texts again. The rows are in one SQLite file: readers and a writer in
several threads and processes of a host do not block each other (WAL), and a killed process leaves no partial rows.
Texts are identified by digest. A row may still reveal the subject of its text, so `forget` removes the rows of texts
that must be erased for a participant.

Both affect speed only: a folder or file that cannot be read or written never changes a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock, Timeout

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.identity import Identity, canonical_json

if TYPE_CHECKING:
    import numpy as np  # imported only where arrays are read: every command sets the folder, but few read arrays

log = logging.getLogger(__name__)

# Longer than any computation takes; without a limit a hanging process would block others forever.
LOCK_WAIT_S = 300.0

_folder: Path | None = None


def cache_folder_set(path: Path | str | None) -> None:
    """Set the folder of computed arrays; None restores the default."""
    global _folder
    _folder = None if path is None else Path(path)


def cache_folder() -> Path:
    """Return the cache folder, by default `~/.cache/confab`."""
    return _folder if _folder is not None else Path.home() / ".cache" / "confab"


def arrays_cached(identity: Identity, make: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the arrays of `make`, from the cache if stored there.

    If several processes need them at once, one computes them and the others wait. Readers never see a partial
    file.

    Args:
        identity: everything that affects the arrays; equal identities share a file.
        make: computes arrays by name; object arrays are not allowed.
    """
    digest = hashlib.sha256(canonical_json(identity.as_dict()).encode()).hexdigest()[:24]
    path = cache_folder() / identity.name / f"{digest}.npz"
    stored = _read_arrays(path)
    if stored is not None:
        return stored
    with build_lock(path):
        stored = _read_arrays(path)  # another process may have computed them in the meantime
        if stored is not None:
            return stored
        arrays = dict(make())
        try:
            _store_arrays(path, arrays)
        except OSError as error:
            log.warning("cannot write to the cache folder %s (%s); the next start recomputes the arrays", path, error)
        return arrays


def _read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        return None
    except DAMAGE_ERRORS as error:
        log.warning("the cached file %s is unreadable and is rebuilt: %s", path, error)
        return None


@contextlib.contextmanager
def build_lock(path: Path) -> Iterator[None]:
    """Lock a file or folder against other processes while it is made.

    Without a lock after `LOCK_WAIT_S`, or if lock files cannot be written, the caller goes on unlocked.
    """
    lock = FileLock(f"{path}.lock", timeout=LOCK_WAIT_S)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, Timeout) as error:
        log.info("no longer waiting for another process to create %s: %s", path, error)
    try:
        yield
    finally:
        lock.release()


def _store_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


TEXT_STORE_LIMIT_BYTES = 4 * 1024**3
"""Enough for about 2.6 million MiniLM rows."""
KEPT_FRACTION = 0.9
"""Share of the limit to which the store shrinks when full; the least recently read rows are removed."""
_DATABASE_WAIT_S = 20.0
_DAY_S = 24 * 60 * 60
_MOST_AT_ONCE = 500
"""Number of texts per query; SQLite accepts only a few thousand values."""

_TABLES = """
CREATE TABLE IF NOT EXISTS rows (
    encoder TEXT NOT NULL,     -- key of its identity
    text BLOB NOT NULL,        -- digest
    day INTEGER NOT NULL,      -- when it was last read, in days since 1970
    numbers BLOB NOT NULL,     -- float32
    PRIMARY KEY (encoder, text)
);
CREATE INDEX IF NOT EXISTS rows_by_text ON rows (text);
CREATE INDEX IF NOT EXISTS rows_by_day ON rows (day);
"""


class TextStore:
    """Store of float32 rows by encoder and text, usable from any thread.

    Args:
        path: the file; it and its folder are created with the first rows.
        limit_bytes: maximum total size. If it is exceeded, the least recently read rows are removed until the store is
            at nine tenths of the limit.
    """

    def __init__(self, path: Path | str, *, limit_bytes: int = TEXT_STORE_LIMIT_BYTES) -> None:
        if limit_bytes < 1:
            raise ValueError(f"limit_bytes is {limit_bytes}; it must be 1 or more")
        self.path = Path(path)
        self.limit_bytes = limit_bytes

    def get(self, encoder: str, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the stored rows of these texts, each (D,) float32; missing ones are omitted.

        Args:
            encoder: key of the encoder's identity.
        """
        by_digest = {_digest(text): text for text in texts}
        if not by_digest or not self.path.exists():
            return {}
        try:
            with self._opened() as database:
                stored_rows = _read_rows(database, encoder, list(by_digest))
        except (OSError, sqlite3.Error) as error:
            self._bear(error)
            return {}
        return {by_digest[digest]: row for digest, row in stored_rows.items()}

    def put(self, encoder: str, rows: Mapping[str, np.ndarray]) -> None:
        """Store the row of each text, (D,); existing rows are not replaced."""
        if not rows:
            return
        today = _today()
        records = [
            (encoder, _digest(text), today, np.asarray(row, dtype="<f4").tobytes()) for text, row in rows.items()
        ]
        try:
            with self._opened() as database:
                with database:
                    database.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?)", records)
                self._shrink(database)
        except (OSError, sqlite3.Error) as error:
            self._bear(error)

    def known(self, texts: Iterable[str]) -> set[str]:
        """Return the texts that have a stored row of any encoder.

        Raises:
            OSError, sqlite3.Error: the file cannot be read.
        """
        by_digest = {_digest(text): text for text in texts}
        if not by_digest or not self.path.exists():
            return set()
        known_texts: set[str] = set()
        with self._opened() as database:
            for part in _parts(list(by_digest)):
                marks = ",".join("?" * len(part))
                query = f"SELECT DISTINCT text FROM rows WHERE text IN ({marks})"  # noqa: S608
                known_texts.update(by_digest[digest] for (digest,) in database.execute(query, part))
        return known_texts

    def forget(self, texts: Iterable[str]) -> int:
        """Remove the rows of these texts for all encoders; returns their number.

        Raises:
            OSError, sqlite3.Error: they may still be there.
        """
        return self._remove({_digest(text) for text in texts})

    def _remove(self, digests: set[bytes]) -> int:
        if not digests or not self.path.exists():
            return 0
        with self._opened() as database:
            with database:
                n_removed = database.executemany(
                    "DELETE FROM rows WHERE text = ?", [(digest,) for digest in digests]
                ).rowcount
            # Removed rows must not remain readable in the journal.
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n_removed

    def keep_only(self, texts: Iterable[str]) -> int:
        """Remove the rows of all other texts; returns the number of rows.

        Raises:
            OSError, sqlite3.Error: they may still be there.
        """
        if not self.path.exists():
            return 0
        digests_to_keep = {_digest(text) for text in texts}
        with self._opened() as database:
            digests = {digest for (digest,) in database.execute("SELECT DISTINCT text FROM rows")} - digests_to_keep
        return self._remove(digests)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by this user only; SQLite gives its journals the same permissions.
        self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=_DATABASE_WAIT_S)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            # Safe if a process is killed; a power failure may lose the newest rows.
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA secure_delete = ON")
            database.executescript(_TABLES)
            yield database

    def _shrink(self, database: sqlite3.Connection) -> None:
        size = _used_bytes(database)
        if size <= self.limit_bytes:
            return
        (n_rows,) = database.execute("SELECT count(*) FROM rows").fetchone()
        n_kept = int(n_rows * KEPT_FRACTION * self.limit_bytes / size)
        with database:
            database.execute(
                "DELETE FROM rows WHERE rowid IN (SELECT rowid FROM rows ORDER BY day, rowid LIMIT ?)",
                (n_rows - n_kept,),
            )

    def _bear(self, error: Exception) -> None:
        """Log the error.

        A damaged database file is replaced by a new one.
        """
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        if not damaged:  # disk full, read-only, or locked for too long
            log.warning("%s cannot be used now (%s); texts are encoded again", self.path, error)
            return
        log.warning("%s is damaged (%s) and is rebuilt", self.path, error)
        for path in (self.path, *(Path(f"{self.path}-{end}") for end in ("wal", "shm"))):
            path.unlink(missing_ok=True)


def _read_rows(database: sqlite3.Connection, encoder: str, digests: list[bytes]) -> dict[bytes, np.ndarray]:
    """Return the stored rows by digest and mark them as read today."""
    today = _today()
    rows: dict[bytes, np.ndarray] = {}
    stale: list[bytes] = []
    for part in _parts(digests):
        marks = ",".join("?" * len(part))
        query = f"SELECT text, day, numbers FROM rows WHERE encoder = ? AND text IN ({marks})"  # noqa: S608
        for digest, day, numbers in database.execute(query, (encoder, *part)):
            rows[digest] = np.frombuffer(numbers, dtype="<f4")
            if day != today:
                stale.append(digest)
    if stale:
        with database:
            database.executemany(
                "UPDATE rows SET day = ? WHERE encoder = ? AND text = ?", [(today, encoder, digest) for digest in stale]
            )
    return rows


def _parts(digests: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(digests), _MOST_AT_ONCE):
        yield digests[start : start + _MOST_AT_ONCE]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _today() -> int:
    return int(time.time() // _DAY_S)


def _used_bytes(database: sqlite3.Connection) -> int:
    """Return the bytes in use in the file, without free pages."""
    (size,), (n_pages,), (n_free,) = (
        database.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "page_count", "freelist_count")
    )
    return int(size * (n_pages - n_free))
