"""`move URL`: copy everything to another database."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from webapp.core.database_migration import database_copy
from webapp.core.management.base import ConfabCommand


class Command(ConfabCommand):
    help = "Copy everything to another, empty database, such as PostgreSQL. Stop the server first."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "url", metavar="URL", help="address as in DATABASE_URL, e.g. postgres://user:password@host:5432/confab"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        done = database_copy(options["url"], lambda table, n: self.note(f"{n:>8} {table}") if n else None)
        return {"database": done.target, "rows": sum(done.tables.values()), "tables": done.tables}

    def present(self, result: dict[str, Any]) -> None:
        self.stdout.write(
            f"Copied {result['rows']:,} rows in {len(result['tables'])} tables to {result['database']}; the number "
            "of rows is the same in every table. Set DATABASE_URL to use the new database; this one is unchanged"
        )
