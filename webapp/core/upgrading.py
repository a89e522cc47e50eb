"""Taking a database from one version of Confab to the next: a backup first, then the migrations, then a look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.core import checks
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from webapp.core.backups import backup_make, database_has_rows, table_counts
from webapp.core.database import database_write_check


@dataclass(frozen=True)
class Upgrade:
    """Result of an upgrade.

    Attributes:
        backup: the archive made before; None where there was nothing to migrate or nothing in the database.
        migrations: those applied now, as `app.name`, in their order.
        tables: rows of every table afterwards.
        problems: what Django's checks find; empty if all is well.
    """

    backup: Path | None
    migrations: tuple[str, ...]
    tables: dict[str, int]
    problems: tuple[str, ...]


def migrations_pending() -> list[str]:
    """Return the migrations that the database lacks, as `app.name`, in the order they would be applied."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _backwards in plan]


def backup_before_migrating() -> Path | None:
    """Make a backup of a database that holds anything. Returns its archive, or None for an empty database."""
    return backup_make(label="before-migrate")[0] if database_has_rows() else None


def database_upgrade() -> Upgrade:
    """Bring the database to this version. Returns what was done.

    Raises:
        Refused: if the backup before cannot be made; then nothing was changed.
    """
    pending = migrations_pending()
    backup = backup_before_migrating() if pending else None
    call_command("migrate", verbosity=0, interactive=False, no_backup=True)
    database_write_check()
    problems = [
        str(message.msg) for message in checks.run_checks() if message.level >= checks.WARNING
    ]
    return Upgrade(backup, tuple(pending), table_counts(), tuple(problems))
