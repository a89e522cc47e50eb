"""Triggers of the search index over all conversations, with one module per database.

Triggers maintain it, so it follows every write, including bulk and manual ones, and deleted or emptied texts disappear
from it at once. A trigger's name contains the digest of its SQL: if the database has a different trigger or none, the
index is rebuilt. SQLite refuses to rewrite tables that triggers refer to, so triggers are dropped before migrations and
recreated after them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from types import ModuleType
from typing import Any

from django.db import connection, connections, transaction

from webapp.search.index import postgresql, sqlite

_TABLES = {
    "conversations_conversation",
    "conversations_turn",
    "ratings_rating",
    "runs_metricresult",
    "runs_hybridfit",
    "studies_rubric",
    "studies_dimension",
    "reading_series",
    "reading_figure",
    "runs_resulttally",
    "reading_conversationwords",
}


_PREFIX = "reading_index_"


def index_suspend(*, using: str, plan: Any = None, **_signal: Any) -> None:
    """Drop the triggers before migrations (receiver of `pre_migrate`)."""
    if plan:
        _triggers_remove(using)


def index_ensure(*, using: str, **_signal: Any) -> None:
    """Build a missing or outdated index (receiver of `post_migrate`)."""
    database = connections[using]
    with database.cursor() as cursor:
        if not set(database.introspection.table_names(cursor)) >= _TABLES:
            return
        vendor = _vendor(database)
        expected_triggers = {f"{name}_{_digest(vendor)}" for name in vendor.TRIGGERS}
        if set(_triggers_there(database, cursor)) == expected_triggers:
            return
    index_make(using=using)


def index_make(*, using: str = "default") -> None:
    """Create word tables and triggers, and index all rows.

    Takes about a second per 1,000 chats.
    """
    database = connections[using]
    vendor = _vendor(database)
    with transaction.atomic(using=using):
        _triggers_remove(using)
        with database.cursor() as cursor:
            for statement in vendor.TABLES:
                cursor.execute(statement)
            for name, statement in vendor.TRIGGERS.items():
                cursor.execute(statement.format(name=f"{name}_{_digest(vendor)}"))
            for statement in vendor.RENEW:
                cursor.execute(statement)


def words_gone(_study_ids: Collection[int]) -> None:
    """Remove erased words from the index's file too.

    FTS5 only marks them as deleted until its pages are merged.
    """
    with connection.cursor() as cursor:
        for statement in _vendor(connection).AFTER_ERASURE:
            cursor.execute(statement)


def _vendor(database: Any) -> ModuleType:
    return postgresql if database.vendor == "postgresql" else sqlite


def _digest(vendor: ModuleType) -> str:
    definition = repr((vendor.TABLES, vendor.TRIGGERS, vendor.RENEW))
    return hashlib.sha256(definition.encode()).hexdigest()[:8]


def _triggers_there(database: Any, cursor: Any) -> dict[str, str]:
    """Return the index's triggers in the database, each with its table."""
    cursor.execute(_vendor(database).TRIGGERS_THERE, [f"{_PREFIX}%"])
    return dict(cursor.fetchall())


def _triggers_remove(using: str) -> None:
    database = connections[using]
    with database.cursor() as cursor:
        for name, table in _triggers_there(database, cursor).items():
            of_table = f" ON {table}" if database.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER {name}{of_table}")
