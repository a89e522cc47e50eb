"""`migrate`: Django's own, after a backup of a database with data."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS

from webapp.core.database_migration import (
    backup_before_migrating,
    create_current_tables,
    garbage_collected_seldom,
    migrations_pending,
    unchanged_columns_kept,
)
from webapp.core.errors import Refused
from webapp.core.restore_marker import refuse_unfinished_restore


class Command(migrate.Command):
    help = "Apply the migrations of this version; a database with data is backed up first."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--no-backup", action="store_true", help="do not back up the database first")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            refuse_unfinished_restore()
        except Refused as error:
            raise CommandError(str(error)) from error
        only_looks = options["plan"] or options["check_unapplied"]
        is_ours = options["database"] == DEFAULT_DB_ALIAS and not options["no_backup"]
        if is_ours and not only_looks and (options["app_label"] or migrations_pending()):
            try:
                backup = backup_before_migrating()
            except (Refused, OSError) as error:
                raise CommandError(
                    f"not migrated, because the backup failed: {error}. Use --no-backup to migrate anyway"
                ) from error
            if backup is not None:
                self.stderr.write(f"Backed up to {backup}")
        if options["database"] == DEFAULT_DB_ALIAS and not only_looks and not (options["app_label"] or options["fake"]):
            create_current_tables()
        with garbage_collected_seldom(), unchanged_columns_kept():
            super().handle(*args, **options)
