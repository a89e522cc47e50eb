"""Disk usage: disk, database and the folders of the data folder."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that the data folder is on, in bytes."""

    folder: Path
    free: int
    total: int


def disk() -> Disk:
    """Return the usage of the data folder's disk, as this process sees it."""
    folder = Path(settings.DATA_DIR)
    found = shutil.disk_usage(folder)
    return Disk(folder, found.free, found.total)


def database_bytes() -> int:
    """Return the size of the database, as it says itself; of SQLite without its journal."""
    size = "SELECT pg_database_size(current_database())"
    if connection.vendor == "sqlite":
        size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    with connection.cursor() as cursor:
        cursor.execute(size)
        return int(cursor.fetchone()[0])


def folder_bytes(
    names: tuple[str, ...] = ("cache", "backups", "exports", "imports"),
) -> dict[str, int]:
    """Return the bytes of the data folder's folders that grow by themselves; missing folders: 0."""
    return {name: _size(Path(settings.DATA_DIR) / name) for name in names}


def _size(folder: Path) -> int:
    total = 0
    for where, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total
