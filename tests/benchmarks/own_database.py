"""A database for one benchmark: SQLite in its folder, or a new one on the server that `DATABASE_URL` names."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own_database(folder: Path) -> Iterator[dict[str, str]]:
    """Give the environment with which Confab uses the database; it is dropped at the end.

    Args:
        folder: of the data.
    """
    environment = {**os.environ, "CONFAB_DATA_DIR": str(folder)}
    given = environment.setdefault("DATABASE_URL", "")
    if not given:
        yield environment
        return
    server, name = given.rpartition("/")[0], f"confab_bench_{uuid.uuid4().hex[:8]}"
    _execute(server, f"CREATE DATABASE {name}")
    try:
        yield {**environment, "DATABASE_URL": f"{server}/{name}"}
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(server: str, statement: str) -> None:
    import psycopg2

    connection = psycopg2.connect(f"{server}/postgres")
    connection.autocommit = True
    connection.cursor().execute(statement)
    connection.close()
