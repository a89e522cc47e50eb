"""A database as values: every row of every table, for SQLite and PostgreSQL alike.

Rows are written and read by the models of the migrations that were applied when it was kept, so that the
tables may change afterwards: `load` puts them into tables of that time, and the newest migrations follow.
"""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.apps.registry import Apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.core.management.sql import emit_pre_migrate_signal
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model

from webapp.core.database_migration import garbage_collected_seldom, unchanged_columns_kept

FILE = "database.json.gz"


def migrations_newest() -> list[tuple[str, str]]:
    """Return the newest migration of every app."""
    return MigrationExecutor(connection).loader.graph.leaf_nodes()


def keep(folder: Path) -> None:
    """Write every row of the database, with the migrations it stands at."""
    newest = migrations_newest()
    apps = MigrationExecutor(connection).loader.project_state(newest).apps
    values = {"migrations": newest, "rows": {}}
    for model in _models(apps):
        fields = model._meta.concrete_fields
        rows = [
            {f.attname: None if f.value_from_object(row) is None else f.value_to_string(row) for f in fields}
            for row in model._default_manager.order_by("pk")
        ]
        if rows:
            values["rows"][model._meta.label] = rows
    # No time in the archive: the same rows give the same file.
    with gzip.GzipFile(folder / FILE, "wb", mtime=0) as file:
        file.write(json.dumps(values).encode())


def load(folder: Path) -> Apps:
    """Put the kept rows into an empty database, at the migrations they were kept at; return their models."""
    values = json.loads(gzip.decompress((folder / FILE).read_bytes()))
    targets = [(app, name) for app, name in values["migrations"]]
    executor = MigrationExecutor(connection)
    with garbage_collected_seldom(), unchanged_columns_kept():
        executor.migrate(targets)
    apps = executor.loader.project_state(targets).apps
    with transaction.atomic():
        for label, rows in values["rows"].items():
            model = apps.get_model(label)
            model._default_manager.bulk_create(_made(model, row) for row in rows)
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), list(_models(apps))):
            cursor.execute(statement)
    return apps


@contextmanager
def migrated_back(*targets: tuple[str, str]) -> Iterator[Apps]:
    """Take the tables back to earlier migrations, and forward again by `migrate` at the end.

    The signals of `migrate` go with it: triggers name columns that are not there yet.

    Args:
        targets: pairs of app and migration.
    """
    executor = MigrationExecutor(connection)
    emit_pre_migrate_signal(0, False, "default", plan=executor.migration_plan([*targets]))
    with garbage_collected_seldom(), unchanged_columns_kept():
        executor.migrate([*targets])
    try:
        yield executor.loader.project_state([*targets]).apps
    finally:
        call_command("migrate", verbosity=0, no_backup=True)


def describe_schema() -> dict[str, list[str]]:
    """Return the sorted words that define each table, index and trigger of SQLite; empty on PostgreSQL."""
    if connection.vendor != "sqlite":
        return {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {f"{kind} {name}": sorted(re.findall(r"[\w'.-]+|[<>=!]+", sql)) for kind, name, sql in cursor.fetchall()}


def _made(model: type[Model], row: dict[str, Any]) -> Model:
    """Make the unsaved row, with the times it had."""
    made = model()
    for field in model._meta.concrete_fields:
        for name in ("auto_now", "auto_now_add"):
            if hasattr(field, name):
                setattr(field, name, False)
        value = row[field.attname]
        reads = field if field.remote_field is None else field.target_field
        setattr(made, field.attname, reads.to_python(value))
    return made


def _models(apps: Apps) -> list[type[Model]]:
    """Return the models whose rows are kept, many-to-many tables among them."""
    return [m for m in apps.get_models(include_auto_created=True) if m._meta.managed]
