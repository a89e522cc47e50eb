"""Log file that several processes write to, and that begins again when it is full."""

from __future__ import annotations

import os
from functools import partial
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from typing import cast

from filelock import FileLock


class SharedRotatingFile(RotatingFileHandler):
    """A rotating log file of the web process, workers and bot hosts together, readable by its owner alone.

    Python's own handler would go on writing to the old file where another process has begun a new one.
    """

    def __init__(self, filename: str, maxBytes: int, backupCount: int) -> None:
        super().__init__(
            filename, maxBytes=maxBytes, backupCount=backupCount, encoding="utf-8", delay=True
        )
        self._lock_made()

    def _lock_made(self) -> None:
        self._among_processes, self._pid = FileLock(f"{self.baseFilename}.lock"), os.getpid()

    def emit(self, record: LogRecord) -> None:
        if self._pid != os.getpid():  # a worker's child, which must not use its parent's lock
            self._lock_made()
        with self._among_processes:
            if self.stream is not None and not self._has_name(self.stream):
                self.stream.close()
                self.stream = self._open()
            super().emit(record)

    def _has_name(self, stream: TextIOWrapper) -> bool:
        """Return True if the open file is still the one that has the name."""
        try:
            return os.path.samestat(os.fstat(stream.fileno()), os.stat(self.baseFilename))
        except FileNotFoundError:
            return False

    def _open(self) -> TextIOWrapper:
        opener = partial(os.open, mode=0o600)
        return cast(
            TextIOWrapper, open(self.baseFilename, self.mode, encoding="utf-8", opener=opener)
        )
