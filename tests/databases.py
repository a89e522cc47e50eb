"""Databases for tests: migrated once for all workers of pytest, then copied for every server and every worker."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.db import connection
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]


def own_database(env: dict[str, str], *, migrated: bool = False) -> Iterator[None]:
    """Give a server a database of its own, on the PostgreSQL server if one is named.

    Args:
        migrated: have the tables in it.
    """
    if not env.get("DATABASE_URL"):
        if migrated:
            shutil.copy(migrated_file(), Path(env["CONFAB_DATA_DIR"]) / "confab.sqlite3")
        yield
        return
    base = _server_of(env["DATABASE_URL"])
    name = f"confab_test_{uuid.uuid4().hex[:12]}"
    template = f" TEMPLATE {migrated_template(base)}" if migrated else ""
    _postgres(base, f"CREATE DATABASE {name}{template}")
    try:
        env["DATABASE_URL"] = f"{base}/{name}"
        yield
    finally:
        _postgres(base, f"DROP DATABASE {name} WITH (FORCE)")


@functools.cache
def migrated_file() -> Path:
    """Return the path of an SQLite database with all tables, this run's copy of one that is kept between runs.

    Migrating takes longer than most files of tests. A database is kept for the migrations and the
    requirements that it was made by, and the first process that finds none makes it, whatever runs beside it.
    """
    mine = _shared_folder() / "confab.sqlite3"
    kept = ROOT / ".pytest_cache" / "migrated" / f"{_source_digest()}.sqlite3"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.parent / "lock"):
        if not kept.exists():
            for earlier in kept.parent.glob("*.sqlite3"):
                earlier.unlink()
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                _migrate({"DATABASE_URL": "", "CONFAB_DATA_DIR": folder})
                os.replace(Path(folder) / "confab.sqlite3", kept)
        if not mine.exists():
            shutil.copy(kept, mine)
    return mine


MIGRATING = {"migrations", "settings", "models", "models.py", "apps.py", "rights.py", "triggers.py", "index"}
"""Folders and files of `webapp` that decide what `migrate` makes; what runs after it is connected in `apps.py`."""


def _source_digest() -> str:
    """Return a number of all that decides what `migrate` puts into an empty database."""
    read = hashlib.sha256()
    webapp = [path for path in sorted((ROOT / "webapp").rglob("*.py")) if MIGRATING & set(path.parts)]
    for path in [ROOT / "requirements.txt", *webapp]:
        read.update(f"{path.relative_to(ROOT)} {path.stat().st_size} ".encode())
        read.update(path.read_bytes())
    return read.hexdigest()[:24]


@functools.cache
def migrated_template(base: str) -> str:
    """Return the name of a PostgreSQL database with all tables, made by the first worker that asks.

    Args:
        base: the server, e.g. "postgres://me@127.0.0.1:5432".
    """
    folder, name = _shared_folder(), _template_name()
    with FileLock(folder / "lock"):
        if not (folder / "template").exists():
            _postgres(base, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            _postgres(base, f"CREATE DATABASE {name}")
            _migrate({"DATABASE_URL": f"{base}/{name}", "CONFAB_DATA_DIR": str(folder)})
            (folder / "template").touch()
    return name


def migrated_template_drop() -> None:
    """Drop what `migrated_template` made, if it did; for the process that started the workers, at its end."""
    if "CONFAB_TEST_DIR" in os.environ and (_shared_folder() / "template").exists():
        _postgres(_server_of(os.environ["DATABASE_URL"]), f"DROP DATABASE {_template_name()}")


def worker_database_fill() -> sqlite3.Connection | None:
    """Have the tables in this process's own test database, so that Django has nothing to migrate in it.

    Returns:
        A connection to be kept open, without which the database in memory is gone; None on PostgreSQL,
        which copies the template when Django makes the database.
    """
    if connection.vendor == "postgresql":
        server = _server_of(os.environ["DATABASE_URL"])
        connection.settings_dict["TEST"]["TEMPLATE"] = migrated_template(server)
        return None
    memory = f"file:memorydb_{connection.alias}?mode=memory&cache=shared"  # as Django calls it
    kept = sqlite3.connect(memory, uri=True)
    with sqlite3.connect(migrated_file()) as source:
        source.backup(kept)
    source.close()
    return kept


def tables_emptied_by_deleting() -> None:
    """Have PostgreSQL's tables emptied row by row after a test that commits.

    TRUNCATE makes the files of hundreds of tables and indexes anew: three seconds for a handful of rows, some
    hundredths of one by DELETE. Neither triggers nor foreign keys act meanwhile, as they do not by TRUNCATE; only a
    superuser may switch them off, so that others truncate.
    """
    from django.db.backends.postgresql.operations import DatabaseOperations

    truncating = DatabaseOperations.sql_flush

    def sql_flush(self: DatabaseOperations, style: Any, tables: Sequence[str], **options: bool) -> list[str]:
        if any(options.values()) or not _is_superuser(self.connection):
            return truncating(self, style, tables, **options)
        deleting = [f"DELETE FROM {self.quote_name(table)}" for table in tables]
        return ["SET LOCAL session_replication_role = replica", *deleting]

    DatabaseOperations.sql_flush = sql_flush


def sqlite_emptied_without_triggers() -> None:
    """Have SQLite's tables emptied after a test that commits, although triggers keep the audit log append-only."""
    from django.db.backends.sqlite3.operations import DatabaseOperations

    from webapp.audit.triggers import creating_statements, dropping_statements

    deleting = DatabaseOperations.sql_flush

    def sql_flush(self: DatabaseOperations, style: Any, tables: Sequence[str], **options: bool) -> list[str]:
        statements = deleting(self, style, tables, **options)
        if "audit_auditentry" not in tables:
            return statements
        return [*dropping_statements("sqlite"), *statements, *creating_statements("sqlite")]

    DatabaseOperations.sql_flush = sql_flush


def _is_superuser(connection: Any) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SHOW is_superuser")
        return bool(cursor.fetchone()[0] == "on")


def _shared_folder() -> Path:
    """Return a folder that all workers of this run of pytest share, gone after it."""
    folder = _run_folder() / "migrated"
    folder.mkdir(exist_ok=True)
    return folder


def _run_folder() -> Path:
    """Return the folder of this run; a program that starts servers outside pytest gets one until it ends."""
    if "CONFAB_TEST_DIR" not in os.environ:
        os.environ["CONFAB_TEST_DIR"] = tempfile.mkdtemp(prefix="confab-test-")
        atexit.register(shutil.rmtree, os.environ["CONFAB_TEST_DIR"], ignore_errors=True)
        atexit.register(migrated_template_drop)
    return Path(os.environ["CONFAB_TEST_DIR"])


def _template_name() -> str:
    run = _run_folder().name
    return "confab_test_template_" + "".join(c for c in run.lower() if c.isalnum())


def _server_of(url: str) -> str:
    return url.rpartition("/")[0]


def _migrate(env: dict[str, str]) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")}
    settings = {"DJANGO_SETTINGS_MODULE": "webapp.settings.embedded", "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env={**kept, **settings, **env},
        check=True,
        timeout=600,
    )


def _postgres(base: str, statement: str) -> None:
    import psycopg2

    server = psycopg2.connect(f"{base}/postgres")
    server.autocommit = True
    try:
        server.cursor().execute(statement)
    finally:
        server.close()
