"""Removal of database copies left by killed backups and restores."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings

LEFTOVERS_KEPT = timedelta(days=1)
"""Age at which unfinished copies of the database must belong to a killed process."""


def backups_sweep(folder: Path | None = None) -> int:
    """Remove database copies left by killed processes; return the number.

    Args:
        folder: folder of a backup outside the data folder; only folders with Confab's own names are removed there.
    """
    leftovers: list[Path] = [*folder.glob("confab-backup-*/")] if folder is not None else []
    leftovers += [*backups_folder().glob("confab-backup-*/"), *backups_folder().glob("*.zip.part")]
    leftovers += Path(settings.DATA_DIR).glob("confab-restore-*/")
    n_removed = 0
    for leftover in set(leftovers):
        with suppress(FileNotFoundError):  # another process was faster
            if leftover.stat().st_mtime < time.time() - LEFTOVERS_KEPT.total_seconds():
                if leftover.is_dir():
                    shutil.rmtree(leftover)
                else:
                    leftover.unlink()
                n_removed += 1
    return n_removed


def backups_folder() -> Path:
    """Return the folder of backups in the data folder.

    It is created if missing.
    """
    folder = Path(settings.DATA_DIR) / "backups"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
