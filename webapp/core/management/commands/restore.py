"""`restore FILE.zip`: replace the current data with a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.core.audit_trail import RESTORE, record
from webapp.core.backups import backup_restore
from webapp.core.database_migration import migrations_pending
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Replace the current data with a backup, after backing them up. Stop the server first."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE.zip")

    def run(self, **options: Any) -> dict[str, Any]:
        done = backup_restore(options["file"])
        missing = migrations_pending()
        if not missing:
            record(RESTORE)
        return {
            "file": str(options["file"]),
            "made_at": done.backup.made_at,
            "made_by": done.backup.made_by,
            "tables": done.backup.tables,
            "kept_before": str(done.kept_before) if done.kept_before else None,
            "was_damaged": done.was_damaged,
            "same_key": done.same_key,
            "migrations_missing": missing,
        }

    def present(self, result: dict[str, Any]) -> None:
        for table, n in result["tables"].items():
            if n:
                self.stdout.write(f"{n:>8} {table}")
        self.stdout.write(f"Restored the state of {result['made_at']}, Confab {result['made_by']}")
        if result["was_damaged"]:
            self.stdout.write(
                f"The previous database was damaged and could not be read; it is kept as {result['kept_before']}"
            )
        elif result["kept_before"]:
            self.stdout.write(f"The previous state is in {result['kept_before']}")
        if result["same_key"] is False:
            self.stdout.write(
                "CONFAB_SECRET_KEY differs from the key used for the backup: participants' links do not work, and "
                "packages have other pseudonyms. Set the earlier key to use them again"
            )
        if result["tables"].get("bots_secret"):
            self.stdout.write(
                "Stored secrets can only be decrypted with the CONFAB_SECRETS_KEY used for the backup; without it, "
                "store them again on the page Secrets"
            )
        if result["migrations_missing"]:
            self.stdout.write("The backup is from an earlier version: run `upgrade` before you start the server")
