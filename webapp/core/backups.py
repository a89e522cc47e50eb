"""Backups: archives of the database and small files of the data folder.

An archive has `manifest.json` (version, number of rows per table, digest of every part), the database as SQLite file or
in `pg_dump`'s custom format, and the files of the data folder that no command can recreate: keys and the lists of bots
and metrics. Large files, such as checkpoints, are only listed in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import zipfile
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.backends.postgresql.client import DatabaseClient
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils.crypto import salted_hmac

from chatbots.compressed_files import damage_as_error, is_zip
from chatbots.installation import release
from webapp.core.backup_leftovers import backups_folder, backups_sweep
from webapp.core.data_folder import adopt_folder, read_folder_id
from webapp.core.database import database_is_damaged
from webapp.core.errors import Refused
from webapp.core.models import Installation
from webapp.core.restore_marker import RestoreMarker

_MANIFEST = "manifest.json"
_FILES = "files/"
_DISPOSABLE = {"backups", "broker", "cache", "exports", "imports", "static"}
"""Folders of the data folder that Confab recreates, or that contain backups."""
_KEY = "secret_key"
_DATABASE_FILES = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}


@dataclass(frozen=True)
class Backup:
    """Content of a backup, according to its manifest.

    Attributes:
        made_by: version and commit of the Confab that made it.
        vendor: `sqlite` or `postgresql`; an archive can be restored into the same kind only.
        migrations: applied migrations, as `app.name`.
        tables: number of rows of every table; on PostgreSQL counted right after the dump, so rows added meanwhile
            count.
        parts: SHA-256 of every file in the archive except for the manifest.
        elsewhere: files of the data folder that are not included, with their sizes in bytes.
        key: digest of the signing key, to detect a different key; empty in archives of earlier versions.
    """

    made_at: str
    made_by: str
    vendor: str
    migrations: tuple[str, ...]
    tables: dict[str, int]
    parts: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True)
class Restored:
    """Result of restoring a backup.

    Attributes:
        backup: the restored backup.
        kept_before: path of the previous state; None without one.
        was_damaged: whether the previous database was unreadable; its file was kept.
        same_key: whether links and pseudonyms are signed with the same key; None if unknown.
    """

    backup: Backup
    kept_before: Path | None
    was_damaged: bool
    same_key: bool | None


def backup_make(file: Path | None = None, *, label: str = "confab") -> tuple[Path, Backup]:
    """Write a backup archive while Confab may run.

    Only the owner can read it.

    Args:
        file: path of the archive; by default `LABEL-TIME.zip` in the folder `backups` of the data folder.

    Returns the archive's path and its content.

    Raises:
        Refused: if the file exists, or the database's own program is missing or fails.
    """
    now = datetime.now(UTC)
    if file is None:
        file = backups_folder() / f"{label}-{now:%Y%m%d-%H%M%S-%f}.zip"
    if file.exists():
        raise Refused("exists", f"{file} already exists, and a backup never overwrites a file; choose another name")
    if not file.resolve().parent.is_dir():
        raise Refused("no_folder", f"there is no folder {file.resolve().parent}")
    backups_sweep(file.resolve().parent)
    unfinished = file.with_name(file.name + ".part")
    with tempfile.TemporaryDirectory(prefix="confab-backup-", dir=file.resolve().parent) as scratch:
        database = Path(scratch) / _DATABASE_FILES[connection.vendor]
        _database_write(database)
        parts = {database.name: database}
        for name, path in _kept_files().items():
            if path.is_file():
                parts[_FILES + name] = path
        backup = Backup(
            made_at=now.isoformat(timespec="seconds"),
            made_by=release(),
            vendor=connection.vendor,
            migrations=tuple(migrations_applied()),
            tables=_rows_of(database) if connection.vendor == "sqlite" else table_counts(),
            parts={name: _file_digest(part) for name, part in parts.items()},
            elsewhere=_elsewhere(),
            key=_key_mark(settings.SECRET_KEY),
        )
        try:
            with (
                open(unfinished, "wb", opener=partial(os.open, mode=0o600)) as handle,
                zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive,
            ):
                archive.writestr(_MANIFEST, json.dumps(asdict(backup), indent=2))
                for name, part in parts.items():
                    archive.write(part, name)
            unfinished.rename(file)
        except BaseException:  # most likely a full disk: remove the unusable partial archive
            unfinished.unlink(missing_ok=True)
            raise
    return file, backup


def backup_read(file: Path) -> Backup:
    """Return an archive's manifest after checking its integrity.

    Raises:
        Refused: if it is not a Confab backup, or a part of it has changed.
    """
    if not is_zip(file):
        raise Refused("no_backup", f"{file} is not a Confab backup: it is not a zip file, or it is damaged")
    try:
        with damage_as_error(str(file), _Damaged), zipfile.ZipFile(file) as archive:
            backup = _manifest_read(file, archive)
            for name, digest in backup.parts.items():
                with archive.open(name) as part:
                    if _digest(part) != digest:
                        raise Refused("damaged", f"{name} in {file} has changed since the backup")
    except _Damaged as error:
        raise Refused("damaged", str(error)) from error
    except KeyError as error:
        raise Refused("damaged", f"{file} lacks a part of a backup: {error.args[0]}") from error
    return backup


def _manifest_read(file: Path, archive: zipfile.ZipFile) -> Backup:
    data = archive.read(_MANIFEST)
    try:
        stored = json.loads(data)
        return Backup(**{**stored, "migrations": tuple(stored["migrations"])})
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Refused("no_backup", f"{file} is not a Confab backup: its {_MANIFEST} is in another format") from error


class _Damaged(ValueError):
    """The archive is damaged."""


def backup_restore(file: Path) -> Restored:
    """Restore an archive, after a backup of the current state.

    If the database is damaged and unreadable, its file is kept instead.

    The caller must have exclusive access to the database. Tables are those of the archive's version until the next
    migration.

    Raises:
        Refused: if the archive is damaged, from another kind of database or from a later version.
    """
    backup = backup_read(file)
    if backup.vendor != connection.vendor:
        raise Refused(
            "vendor",
            f"{file} contains a {backup.vendor} database and this one is {connection.vendor}; restore it on "
            f"{backup.vendor}, then use `move`",
        )
    unknown = sorted(set(backup.migrations) - _migrations_known())
    if unknown:
        raise Refused(
            "later",
            f"{file} was made by a later version ({backup.made_by}): this version does not have its migration "
            f"{unknown[0]}",
        )
    is_kept = key_is_kept()
    marker = RestoreMarker(file)
    earlier_state, was_damaged = _kept_before(marker)
    marker.write(kept_before=earlier_state)
    data_dir = Path(settings.DATA_DIR)
    with tempfile.TemporaryDirectory(prefix="confab-restore-", dir=data_dir) as scratch:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(scratch, members=list(backup.parts))
        try:
            _database_replace(Path(scratch) / _DATABASE_FILES[backup.vendor])
        except Refused as error:  # the database rolled back
            if not was_damaged:
                marker.clear()
            before = f"; the previous state is in {earlier_state}" if earlier_state else ""
            raise Refused(error.code, f"{error.message}{before}") from error
        for name, file_here in _kept_files().items():
            stored = Path(scratch) / _FILES / name
            if stored.is_file():
                shutil.copyfile(stored, file_here)
                file_here.chmod(0o600)
    if Installation._meta.db_table in connection.introspection.table_names():  # not in archives of earlier versions
        adopt_folder(read_folder_id())
    marker.clear()
    key = _key_file_says() if is_kept else settings.SECRET_KEY
    same_key = _key_mark(key) == backup.key if backup.key else None
    return Restored(backup, earlier_state, was_damaged, same_key)


def _kept_before(marker: RestoreMarker) -> tuple[Path | None, bool]:
    """Back up the current state; return the path, and True if damaged."""
    try:
        return (backup_make(label="before-restore")[0] if database_has_rows() else None), False
    except (DatabaseError, sqlite3.Error) as error:
        if not database_is_damaged(error):
            raise
    marker.write()
    connection.close()
    file = Path(connection.settings_dict["NAME"])
    folder = backups_folder()
    damaged_copy = folder / f"damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.sqlite3"
    for ending in ("", "-wal", "-shm"):
        if (part := file.with_name(file.name + ending)).exists():
            shutil.move(part, damaged_copy.with_name(damaged_copy.name + ending))
    file.touch(mode=0o600)
    return damaged_copy, True


def table_counts() -> dict[str, int]:
    """Return the row count of every table, largest first, for any version."""
    counts = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT COUNT(*) FROM {connection.ops.quote_name(table)}")  # noqa: S608
            counts[table] = cursor.fetchone()[0]
    return _fullest_first(counts)


def database_has_rows() -> bool:
    """Return True if a table of Confab's own apps has rows.

    Rows that Django, the database or a migration fills do not count.
    """
    own_tables = {
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model.__module__.startswith("webapp.")
        and not (getattr(model, "is_derived", False) or getattr(model, "is_ready_made", False))
    }
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table in own_tables:
                cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(table)} LIMIT 1")  # noqa: S608
                if cursor.fetchone():
                    return True
    return False


def migrations_applied() -> list[str]:
    """Return the migrations that the database has, as `app.name`."""
    return sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations())


def _migrations_known() -> set[str]:
    return {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}


def _database_write(file: Path) -> None:
    """Write a consistent copy of the database to a new file.

    Others may write meanwhile.
    """
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        file.touch(mode=0o600)
        with closing(sqlite3.connect(file)) as copy:
            connection.connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    else:
        arguments = ["--format=custom", "--no-owner", f"--file={file}"]
        _check_exit("pg_dump", _start_client("pg_dump", arguments, umask=0o077))


_OWN_FUNCTIONS = """
    SELECT procedure.oid::regprocedure::text FROM pg_proc procedure
    JOIN pg_namespace namespace
        ON namespace.oid = procedure.pronamespace AND namespace.nspname = current_schema()
    LEFT JOIN pg_depend dependency ON dependency.objid = procedure.oid AND dependency.deptype = 'e'
    WHERE dependency.objid IS NULL
"""  # deptype e: object of an extension, which the archive expects to exist


def _database_replace(file: Path) -> None:
    """Replace the whole database by the copy, in one transaction.

    Raises:
        Refused: if it fails; the database is then unchanged.
    """
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        with closing(sqlite3.connect(file)) as copy:
            copy.backup(connection.connection)
        return
    statements = _drop_statements()
    connection.close()
    psql = _start_client(
        "psql", ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null"], stdin=subprocess.PIPE
    )
    assert psql.stdin is not None
    try:
        with suppress(BrokenPipeError), psql.stdin as script:  # psql ended early; its exit code reports the error
            script.write(f"BEGIN;\n{statements}\n".encode())
            script.flush()
            _check_exit("pg_restore", _start(["pg_restore", "--no-owner", "--file=-", str(file)], stdout=script))
            # Send this line last: a process killed before it leaves the old database.
            script.write(b"\nCOMMIT;\n")
    finally:
        psql.wait()
    _check_exit("psql", psql)


def _drop_statements() -> str:
    """Return SQL that empties the database.

    Tables unknown to the archive would otherwise remain and obstruct later migrations. Functions of triggers outlive
    their tables.
    """
    with connection.cursor() as cursor:
        tables = [connection.ops.quote_name(table) for table in connection.introspection.table_names(cursor)]
        cursor.execute(_OWN_FUNCTIONS)
        functions = [function for (function,) in cursor.fetchall()]
    drops = [f"DROP TABLE {table} CASCADE;" for table in tables]
    drops += [f"DROP FUNCTION {function} CASCADE;" for function in functions]
    return "\n".join(drops)


def _start_client(name: str, arguments: list[str], **streams: Any) -> subprocess.Popen[bytes]:
    """Start one of PostgreSQL's programs with the database's address."""
    (_psql, *options), variables = DatabaseClient.settings_to_cmd_args_env(connection.settings_dict, arguments)
    return _start([name, *options], env={**os.environ, **(variables or {})}, **streams)


def _start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program.

    Raises:
        Refused: if it is not installed.
    """
    try:
        return subprocess.Popen(command, **options)
    except FileNotFoundError:
        raise Refused(
            "no_program",
            f"{command[0]} is not installed here; install PostgreSQL's client programs (Debian: postgresql-client), "
            "of the server's version or later",
        ) from None


def _check_exit(name: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for a program to end.

    Raises:
        Refused: if it failed.
    """
    if code := process.wait():
        raise Refused("program", f"{name} ended with exit code {code}")


def _rows_of(file: Path) -> dict[str, int]:
    """Return the number of rows of every table of a finished copy."""
    with closing(sqlite3.connect(file)) as copy:
        names = [
            name
            for (name,) in copy.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        counts = {
            name: copy.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]  # noqa: S608
            for name in names
        }
    return _fullest_first(counts)


def _fullest_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _kept_files() -> dict[str, Path]:
    """Return the small files of a backup, by their names in it."""
    return {
        _KEY: Path(settings.DATA_DIR) / _KEY,
        "bots.yaml": Path(settings.CONFAB_BOTS),
        "metrics.yaml": Path(settings.CONFAB_METRICS),
    }


def key_is_kept() -> bool:
    """Return True if the signing key is in the data folder.

    It is then in backups; a key in the environment is not.

    A key of the environment is not.
    """
    return _key_file_says() == settings.SECRET_KEY


def _key_file_says() -> str:
    """Return the key in the data folder; empty without one."""
    file = Path(settings.DATA_DIR) / _KEY
    return file.read_text().strip() if file.is_file() else ""


def _key_mark(key: str) -> str:
    """Return a digest that identifies a key without revealing it."""
    return salted_hmac("confab.backup", "key", secret=key, algorithm="sha256").hexdigest()[:16]


def _elsewhere() -> dict[str, int]:
    """Return the data folder's other important files, with their sizes.

    Checkpoints are an example.
    """
    root = Path(settings.DATA_DIR)
    included = set(_kept_files().values())
    sizes = dict[str, int]()
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root)
        if inside.parts[0] == "images" and file.is_file():  # files of participants, possibly thousands
            sizes["images/"] = sizes.get("images/", 0) + file.stat().st_size
            continue
        is_database = inside.name.startswith("confab.sqlite3")
        if (
            inside.parts[0] not in _DISPOSABLE
            and not inside.parts[0].startswith("confab-")
            and not is_database
            and file not in included
            and file.is_file()
        ):
            sizes[str(inside)] = file.stat().st_size
    return sizes


def _file_digest(file: Path) -> str:
    with file.open("rb") as handle:
        return _digest(handle)


def _digest(handle: IO[bytes]) -> str:
    """Return the SHA-256 of the rest of a stream."""
    digest = hashlib.sha256()
    while piece := handle.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()
