"""Marker in the data folder of a restoration in progress.

A restoration replaces the database in one transaction and then the key and the lists of bots and metrics. If the
process is killed in between, the parts do not match. The marker survives this, and `migrate`, `serve`, `/healthz` and
the page *System* read it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from webapp.core.errors import Refused


@dataclass(frozen=True, slots=True)
class UnfinishedRestore:
    """A restoration that is running or was interrupted.

    Attributes:
        file: path of the archive.
        began_at: time in ISO format, UTC.
        kept_before: path of the backup of the previous state; empty until it is complete, or without a previous state.
    """

    file: str
    began_at: str
    kept_before: str = ""

    def describe(self) -> str:
        """Return a sentence on what was interrupted and how to finish it."""
        undo = f", or with {self.kept_before} to go back" if self.kept_before else ""
        return (
            f"restoring {self.file}, started at {self.began_at}, has not finished; run `{settings.CONFAB_PROGRAM} "
            f"restore` with that archive again{undo}"
        )


def read_restore_marker() -> UnfinishedRestore | None:
    """Return the restoration that has not finished, or None."""
    try:
        stored = json.loads(_marker_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:  # written by a process that was killed meanwhile
        return UnfinishedRestore("an archive", "an unknown time")
    return UnfinishedRestore(**stored)


def refuse_unfinished_restore() -> None:
    """Raise if a restoration has not finished.

    Raises:
        Refused: with the archive's path and what to do.
    """
    if marker := read_restore_marker():
        raise Refused("restoring", marker.describe())


class RestoreMarker:
    """The marker's file, from the start of a restoration to its end."""

    def __init__(self, file: Path) -> None:
        self._restore = UnfinishedRestore(str(file.resolve()), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")

    def write(self, *, kept_before: Path | None = None) -> None:
        """Store the marker on disk, with the backup of the previous state if any."""
        if kept_before is not None:
            self._restore = replace(self._restore, kept_before=str(kept_before))
        path = _marker_path()
        unfinished = path.with_name(path.name + ".part")
        with unfinished.open("w", encoding="utf-8") as handle:
            json.dump(asdict(self._restore), handle)
            handle.flush()
            os.fsync(handle.fileno())
        unfinished.replace(path)

    def clear(self) -> None:
        """Delete the marker once the state is consistent.

        Either the new state or the previous one.
        """
        _marker_path().unlink(missing_ok=True)


def _marker_path() -> Path:
    return Path(settings.DATA_DIR) / "restore-unfinished.json"
