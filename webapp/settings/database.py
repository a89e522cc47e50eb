"""PostgreSQL by `DATABASE_URL`; otherwise SQLite in the data folder, safe for several processes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from webapp.settings.env import DATA_DIR, env, folder_made, owner_only

SQLITE_OPTIONS: dict[str, Any] = {
    # Immediate: a transaction that will write takes its place in the queue at once,
    # instead of failing when it finds the snapshot outdated.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    # What is deleted is overwritten, or the file would hold the words of people who were erased.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON;",
}


def databases() -> dict[str, dict[str, Any]]:
    """Return the `DATABASES` setting."""
    if default := env.database("DATABASE_URL", default={}):
        # Pages are done by a few lasting threads (`core/crew.py`), each of which keeps its connection.
        if default["ENGINE"] == "django.db.backends.sqlite3":  # as `move` makes one
            _private(Path(default["NAME"]))
            return {"default": {**default, "OPTIONS": SQLITE_OPTIONS}}
        default["CONN_MAX_AGE"] = 60
        default["CONN_HEALTH_CHECKS"] = True
        return {"default": default}
    folder_made(DATA_DIR, "CONFAB_DATA_DIR")
    file = DATA_DIR / "confab.sqlite3"
    _private(file)
    return {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": file,
            "OPTIONS": SQLITE_OPTIONS,
        }
    }


def _private(file: Path) -> None:
    """Make the database's file for its owner alone; SQLite gives its additional files the same mode."""
    with contextlib.suppress(OSError):  # what is wrong with the folder, SQLite says when it is used
        if not file.exists():
            file.touch(mode=0o600)
    owner_only(
        file, *(file.with_name(file.name + ending) for ending in ("-wal", "-shm", "-journal"))
    )
