"""Migrations of the database: upgrades, and copies to another database.

An upgrade makes a backup, applies the migrations and runs the checks. A copy transfers everything to another database,
such as from SQLite to PostgreSQL. The new database is migrated first; then rows are streamed table by table in one
transaction, and keep their keys. The old database is not changed.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import environ
from django.apps import apps
from django.core import checks
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState
from django.db.models import Field, Model
from django.db.models.sql import InsertQuery

from chatbots.text import quote
from webapp.core.backups import backup_make, database_has_rows, table_counts
from webapp.core.database import database_write_check
from webapp.core.errors import Refused
from webapp.core.restore_marker import refuse_unfinished_restore


@dataclass(frozen=True)
class UpgradeResult:
    """Result of an upgrade.

    Attributes:
        backup: the archive made before; None if there was nothing to migrate or the database was empty.
        migrations: newly applied ones, as `app.name`, in order.
        tables: number of rows of every table afterwards.
        problems: problems reported by Django's checks.
    """

    backup: Path | None
    migrations: tuple[str, ...]
    tables: dict[str, int]
    problems: tuple[str, ...]


def migrations_pending() -> list[str]:
    """Return the missing migrations as `app.name`, in order."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _backwards in plan]


WITHOUT_COLUMN = frozenset(
    {"blank", "choices", "editable", "error_messages", "help_text", "validators", "verbose_name"}
)
"""Arguments of a field that change no column."""


@contextmanager
def unchanged_columns_kept() -> Iterator[None]:
    """Keep historical models when a migration only changes texts, choices or validators of a field.

    Django renders all related models again for each of these changes: a third of the time for an empty database.
    """
    alter_field = ProjectState.alter_field

    def alter_changed_column(
        self: ProjectState, app_label: str, model_name: str, name: str, field: Field[Any, Any], preserve_default: bool
    ) -> None:
        fields = self.models[app_label, model_name].fields
        if preserve_default and not field.is_relation and _get_column(fields[name]) == _get_column(field):
            fields[name] = field
        else:
            alter_field(self, app_label, model_name, name, field, preserve_default)

    ProjectState.alter_field = alter_changed_column  # type: ignore[method-assign]
    try:
        yield
    finally:
        ProjectState.alter_field = alter_field  # type: ignore[method-assign]


def _get_column(field: Field[Any, Any]) -> tuple[str, Sequence[Any], dict[str, Any]]:
    _name, path, args, options = field.deconstruct()
    return path, args, {key: value for key, value in options.items() if key not in WITHOUT_COLUMN}


SHIPPED_APPS = ("webapp.", "django.contrib.", "axes")
"""Apps whose migrations insert nothing into an empty database except what receivers of `post_migrate` insert, too."""


def create_current_tables() -> None:
    """Create tables from the models in an empty database, and record the migrations as applied.

    Applying the migrations takes twenty times as long, because Django renders all models again for most of them. The
    migrations of plug-ins may insert rows, so they are still applied.
    """
    if connection.introspection.table_names():
        return
    recorder = MigrationRecorder(connection)
    shipped = [config for config in apps.get_app_configs() if config.name.startswith(SHIPPED_APPS)]
    labels = {config.label for config in shipped}
    with connection.schema_editor() as editor:
        editor.create_model(recorder.Migration)
        for model in (model for config in shipped for model in config.get_models()):
            if model._meta.can_migrate(connection):
                editor.create_model(model)
        for app, name in MigrationLoader(connection).disk_migrations or ():
            if app in labels:
                recorder.record_applied(app, name)


@contextmanager
def garbage_collected_seldom() -> Iterator[None]:
    """Collect garbage rarely while migrations run.

    Django renders the models again after most migrations; scanning them for garbage took a third of the time of an
    empty database. This needs 40 MB more memory, and never 250 MB.
    """
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def backup_before_migrating() -> Path | None:
    """Back up a database that is not empty before a migration.

    Returns the archive, or None for an empty database.
    """
    return backup_make(label="before-migrate")[0] if database_has_rows() else None


def database_upgrade() -> UpgradeResult:
    """Upgrade the database to this version.

    Returns what was done.

    Raises:
        Refused: if the backup fails, or a restoration has not finished; nothing was changed then.
    """
    refuse_unfinished_restore()
    pending = migrations_pending()
    backup = backup_before_migrating() if pending else None
    call_command("migrate", verbosity=0, interactive=False, no_backup=True)
    database_write_check()
    problems = [str(message.msg) for message in checks.run_checks() if message.level >= checks.WARNING]
    return UpgradeResult(backup, tuple(pending), table_counts(), tuple(problems))


_OLD = "move_source"
_BATCH = 2000


@dataclass(frozen=True)
class CopiedDatabase:
    """Result of a move: row counts, equal in both databases."""

    target: str
    tables: dict[str, int]


def database_copy(url: str, on_copied: Callable[[str, int], None] | None = None) -> CopiedDatabase:
    """Copy all rows into the database at `url`.

    The row counts are compared before the commit.

    SQLite is locked against changes meanwhile; for other databases, stop everything that writes to the old one.

    Args:
        url: as in `DATABASE_URL`; the database must have no study or conversation.
        on_copied: called with each table and its rows once they are copied.

    Raises:
        Refused: if the old database is of another version, the new one is not empty, or a count differs.
    """
    pending = migrations_pending()
    if pending:
        raise Refused(
            "old", f"this database lacks {len(pending)} migrations, starting with {pending[0]}; run `upgrade` first"
        )
    with new_database_opened(url) as target:
        if database_has_rows():
            raise Refused("not_empty", f"the database {target} is not empty; name an empty one")
        call_command("migrate", verbosity=0, interactive=False, no_backup=True)
        with transaction.atomic(using=_OLD), transaction.atomic():
            return CopiedDatabase(target, _copied(on_copied))


@contextmanager
def new_database_opened(url: str) -> Iterator[str]:
    """Use the new database as the default while the context lasts.

    The old one stays available under another name, which is yielded. It is this way round because migrations write to
    the default database, even if `migrate` gets another name.

    Raises:
        Refused: if the address is invalid or is that of the old database.
    """
    config = _address(url)
    here = connections.settings["default"]
    same = ("ENGINE", "NAME", "HOST", "PORT")
    if all(str(config.get(key) or "") == str(here.get(key) or "") for key in same):
        raise Refused("same", "that is the current database; name another one")
    filled = {**here, "OPTIONS": {}, **config}
    try:
        _exchange({"default": filled, _OLD: here})
        yield str(config["NAME"])
    finally:
        _exchange({"default": here})
        connections.settings.pop(_OLD)


def _exchange(configs: dict[str, dict[str, Any]]) -> None:
    """Make these names stand for these databases from the next query on."""
    for alias in ("default", _OLD):
        if hasattr(connections._connections, alias):  # type: ignore[attr-defined]
            connections[alias].close()
            del connections[alias]
    connections.settings.update(configs)
    # Keys cached in memory belong to the previous database.
    apps.get_model("contenttypes", "ContentType").objects.clear_cache()  # type: ignore[attr-defined]


def _address(url: str) -> dict[str, Any]:
    """Return Django's configuration of the database at an address."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the schemes rejected below
            config: dict[str, Any] = environ.Env.db_url_config(url)
    except Exception as error:
        raise Refused("url", f"{quote(url)} is not a database address ({error})") from error
    if not config.get("ENGINE") or not config.get("NAME"):
        raise Refused(
            "url", f"{quote(url)} is not a database address, such as postgres://user:password@host:5432/confab"
        )
    return config


def _copied(on_copied: Callable[[str, int], None] | None) -> dict[str, int]:
    """Copy every table.

    Returns the number of rows of each.
    """
    models = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed
        and not model._meta.proxy
        # Rows that the database derives from other tables are derived again in the new one.
        and not getattr(model, "is_derived", False)
    ]
    with connection.constraint_checks_disabled():
        for model in reversed(models):
            # Rows created by the migrations: content types, permissions, groups. They are copied with their own keys.
            model._base_manager.all()._raw_delete("default")
        counts = {}
        for model in models:
            table = model._meta.db_table
            counts[table] = _table_copied(model)
            n_copied = model._base_manager.count()
            if n_copied != counts[table]:
                raise Refused(
                    "count", f"{table} has {counts[table]} rows, but {n_copied} were copied; nothing was moved"
                )
            if on_copied is not None:
                on_copied(table, counts[table])
    connection.check_constraints()
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)
    return counts


def _table_copied(model: type[Model]) -> int:
    """Copy one table in batches of thousands of rows.

    Returns its number of rows.
    """
    fields = [field for field in model._meta.local_concrete_fields if not field.generated]
    n_rows = 0
    stored = model._base_manager.using(_OLD).order_by("pk").iterator(chunk_size=_BATCH)
    at_once = min(_BATCH, connection.ops.bulk_batch_size(fields, [None] * _BATCH))
    while rows := list(islice(stored, at_once)):
        # Insert rows unchanged: saving would overwrite the times of the last change.
        query = InsertQuery(model)
        query.insert_values(fields, rows, raw=True)
        query.get_compiler(using="default").execute_sql(None)
        n_rows += len(rows)
    return n_rows
