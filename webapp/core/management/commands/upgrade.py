"""`upgrade`: backup, migrations of this version, and checks."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from webapp.core.data_folder import adopt_folder, read_folder_id
from webapp.core.database_migration import database_upgrade
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Upgrade the database to this version: back up, migrate, check."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--adopt-data-folder",
            action="store_true",
            help="accept the current data folder after it was replaced on purpose",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        done = database_upgrade()
        if options["adopt_data_folder"]:
            adopt_folder(read_folder_id())
        return {
            "backup": str(done.backup) if done.backup else None,
            "migrations": list(done.migrations),
            "tables": done.tables,
            "problems": list(done.problems),
        }

    def present(self, result: dict[str, Any]) -> None:
        if result["backup"]:
            self.stdout.write(f"Backed up to {result['backup']}")
        for migration in result["migrations"]:
            self.stdout.write(f"applied {migration}")
        if not result["migrations"]:
            self.stdout.write("Nothing to apply: the database is up to date")
        for problem in result["problems"]:
            self.stdout.write(f"please check: {problem}")
        self.stdout.write(f"{sum(result['tables'].values()):,} rows in {len(result['tables'])} tables")
