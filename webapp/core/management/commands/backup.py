"""`backup [--output FILE.zip]`: write all data to one archive."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.core.audit_trail import BACKUP, record
from webapp.core.backups import backup_make, key_is_kept
from webapp.core.database_migration import migrations_pending
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Back up the database, keys and bot lists to an archive; Confab can keep running."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--output",
            type=Path,
            metavar="FILE.zip",
            help="file to write (default: a new file in the folder backups of the data folder)",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        file, backup = backup_make(options["output"])
        if not migrations_pending():  # an older database has no audit log yet
            record(BACKUP)
        return {
            "file": str(file),
            "bytes": file.stat().st_size,
            "tables": backup.tables,
            "files": sorted(name.removeprefix("files/") for name in backup.parts),
            "not_included": backup.elsewhere,
            "has_key": key_is_kept(),
        }

    def present(self, result: dict[str, Any]) -> None:
        for table, n in result["tables"].items():
            if n:
                self.stdout.write(f"{n:>8} {table}")
        for name, size in result["not_included"].items():
            self.stdout.write(f"not included: {name} ({size:,} bytes)")
        if not result["has_key"]:
            self.stdout.write(
                "not included: CONFAB_SECRET_KEY, which is in the environment or in .env; store it together with "
                "the archive"
            )
        if result["tables"].get("bots_secret"):
            self.stdout.write(
                "not included: CONFAB_SECRETS_KEY, which is needed to decrypt the secrets in the archive; embedded "
                "mode stores it in secrets_key in the data folder. Store it separately from the archive"
            )
        self.stdout.write(f"Backed up to {result['file']} ({result['bytes']:,} bytes)")
