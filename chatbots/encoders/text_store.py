"""Store of encoded texts between runs: one row of numbers per encoder and text.

A study is measured and fitted many times, and most of the time goes into encoding the same texts again. The
rows lie in one SQLite file: readers and a writer of several threads and processes of one host do not hold each
other up (WAL), and a process that is killed leaves whole rows or none. A store is a matter of speed only: where
it cannot be read or written, the texts are encoded again.

Texts are known by their digest. A row may still tell what its text was about, so `forget` removes the rows of
texts that somebody wants erased.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

log = logging.getLogger(__name__)

LIMIT_BYTES = 4 * 1024**3
"""Some 2.6 million rows of MiniLM's."""
KEPT_SHARE = 0.9
"""Of the limit, once it is passed: what has not been read for longest goes."""
_WAIT_S = 20.0
_DAY_S = 24 * 60 * 60
_MOST_AT_ONCE = 500
"""Texts named in one query; SQLite takes some thousands of values at most."""

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
    """Rows of float32 numbers by encoder and text. Opens its file for each call, so any thread may use it.

    Args:
        path: of the file; it and its folder are made when the first rows are kept.
        limit_bytes: how large the rows may grow together. Where they pass it, those that have not been read
            for the most days are removed until nine tenths are left.
    """

    def __init__(self, path: Path | str, *, limit_bytes: int = LIMIT_BYTES) -> None:
        if limit_bytes < 1:
            raise ValueError(f"limit_bytes is {limit_bytes}; it must be 1 or more")
        self.path = Path(path)
        self.limit_bytes = limit_bytes

    def get(self, encoder: str, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the rows that are kept of these texts, each (D,) float32; others are left out.

        Args:
            encoder: the key of its identity.
        """
        by_digest = {_digest(text): text for text in texts}
        if not by_digest or not self.path.exists():
            return {}
        try:
            with self._opened() as database:
                found = _read(database, encoder, list(by_digest))
        except (OSError, sqlite3.Error) as error:
            self._bear(error)
            return {}
        return {by_digest[digest]: row for digest, row in found.items()}

    def put(self, encoder: str, rows: Mapping[str, np.ndarray]) -> None:
        """Keep the row of each text, (D,); a text that has one already keeps it."""
        if not rows:
            return
        today = _today()
        kept = [
            (encoder, _digest(text), today, np.asarray(row, dtype="<f4").tobytes())
            for text, row in rows.items()
        ]
        try:
            with self._opened() as database:
                with database:
                    database.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?)", kept)
                self._shrink(database)
        except (OSError, sqlite3.Error) as error:
            self._bear(error)

    def known(self, texts: Iterable[str]) -> set[str]:
        """Return those of the texts of which any encoder's row is kept.

        Raises:
            OSError, sqlite3.Error: the file cannot be read.
        """
        by_digest = {_digest(text): text for text in texts}
        if not by_digest or not self.path.exists():
            return set()
        found: set[str] = set()
        with self._opened() as database:
            for part in _parts(list(by_digest)):
                marks = ",".join("?" * len(part))
                query = f"SELECT DISTINCT text FROM rows WHERE text IN ({marks})"  # noqa: S608
                found.update(by_digest[digest] for (digest,) in database.execute(query, part))
        return found

    def forget(self, texts: Iterable[str]) -> int:
        """Remove what every encoder made of these texts. Returns the number of rows removed.

        Raises:
            OSError, sqlite3.Error: they may still be there.
        """
        digests = list({_digest(text) for text in texts})
        if not digests or not self.path.exists():
            return 0
        with self._opened() as database:
            with database:
                n_removed = database.executemany(
                    "DELETE FROM rows WHERE text = ?", [(digest,) for digest in digests]
                ).rowcount
            # What was removed must not stay readable in the journal.
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n_removed

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Only for this user: SQLite gives its journals the same permissions.
        self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            # Safe when a process is killed; a power cut may cost the newest rows.
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA secure_delete = ON")
            database.executescript(_TABLES)
            yield database

    def _shrink(self, database: sqlite3.Connection) -> None:
        size = _used_bytes(database)
        if size <= self.limit_bytes:
            return
        (n_rows,) = database.execute("SELECT count(*) FROM rows").fetchone()
        n_kept = int(n_rows * KEPT_SHARE * self.limit_bytes / size)
        with database:
            database.execute(
                "DELETE FROM rows WHERE rowid IN (SELECT rowid FROM rows ORDER BY day, rowid LIMIT ?)",
                (n_rows - n_kept,),
            )

    def _bear(self, error: Exception) -> None:
        """Log what went wrong; a file that is no database any more makes room for a new one."""
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        )
        if not damaged:  # full, read-only, held by another for too long
            log.warning("%s cannot be used now (%s); texts are encoded again", self.path, error)
            return
        log.warning("%s is damaged (%s) and is begun anew", self.path, error)
        for path in (self.path, *(Path(f"{self.path}-{end}") for end in ("wal", "shm"))):
            path.unlink(missing_ok=True)


def _read(
    database: sqlite3.Connection, encoder: str, digests: list[bytes]
) -> dict[bytes, np.ndarray]:
    """Return the stored rows of these texts by digest and note that they were read today."""
    today = _today()
    found: dict[bytes, np.ndarray] = {}
    stale: list[bytes] = []
    for part in _parts(digests):
        marks = ",".join("?" * len(part))
        query = f"SELECT text, day, numbers FROM rows WHERE encoder = ? AND text IN ({marks})"  # noqa: S608
        for digest, day, numbers in database.execute(query, (encoder, *part)):
            found[digest] = np.frombuffer(numbers, dtype="<f4")
            if day != today:
                stale.append(digest)
    if stale:
        with database:
            database.executemany(
                "UPDATE rows SET day = ? WHERE encoder = ? AND text = ?",
                [(today, encoder, digest) for digest in stale],
            )
    return found


def _parts(digests: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(digests), _MOST_AT_ONCE):
        yield digests[start : start + _MOST_AT_ONCE]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _today() -> int:
    return int(time.time() // _DAY_S)


def _used_bytes(database: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use, without the pages that wait to be used again."""
    (size,), (n_pages,), (n_free,) = (
        database.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_size", "page_count", "freelist_count")
    )
    return int(size * (n_pages - n_free))
