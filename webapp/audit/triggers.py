"""Triggers that make the audit log append-only on SQLite and PostgreSQL.

SQLite rewrites a table to change it and loses its triggers, so they are removed before migrations and created again
after them, as those of ratings.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

_ENTRIES, _SEALS = "audit_auditentry", "audit_monthseal"
_MESSAGE = "the audit log is append-only"
_SEAL_OF_IT = "s.project = OLD.project AND s.last_sequence >= OLD.sequence"
_IS_SEALED = f"EXISTS (SELECT 1 FROM {_SEALS} s WHERE {_SEAL_OF_IT})"  # noqa: S608
_TRIGGERS = {
    f"{table}_no_{event.lower()}": (table, event, condition)
    for table, event, condition in (
        (_ENTRIES, "UPDATE", ""),
        (_ENTRIES, "DELETE", f"WHEN NOT {_IS_SEALED}"),
        (_SEALS, "UPDATE", ""),
        (_SEALS, "DELETE", ""),
    )
}
"""Triggers by name: table, refused event, and its condition on SQLite; on PostgreSQL the function has the condition."""
_FUNCTION = f"""
CREATE OR REPLACE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = '{_ENTRIES}' THEN
        IF {_IS_SEALED} THEN RETURN OLD; END IF;
    END IF;
    RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = 'check_violation';
END $$
"""


def creating_statements(vendor: str) -> list[str]:
    """Return the statements that create the triggers."""
    if vendor == "sqlite":
        refusal = f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
        return [
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} {condition} {refusal}"
            for name, (table, event, condition) in _TRIGGERS.items()
        ]
    return [
        _FUNCTION,
        *(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()"
            for name, (table, event, _condition) in _TRIGGERS.items()
        ),
    ]


def dropping_statements(vendor: str) -> list[str]:
    """Return the statements that drop the triggers."""
    return [
        f"DROP TRIGGER IF EXISTS {name}" + (f" ON {table}" if vendor == "postgresql" else "")
        for name, (table, _event, _condition) in _TRIGGERS.items()
    ]


def triggers_remove(*, using: str, **_signal: Any) -> None:
    """Remove the triggers before migrations that may change the tables."""
    _execute(using, dropping_statements(connections[using].vendor))


def triggers_ensure(*, using: str, **_signal: Any) -> None:
    """Create the triggers after the tables exist."""
    vendor = connections[using].vendor
    _execute(using, [*dropping_statements(vendor), *creating_statements(vendor)])


def _execute(using: str, statements: list[str]) -> None:
    with connections[using].cursor() as cursor:
        if {_ENTRIES, _SEALS} <= set(connections[using].introspection.table_names(cursor)):
            for statement in statements:
                cursor.execute(statement)


def triggers_missing(using: str = "default") -> list[str]:
    """Return the names of triggers that the database lacks or has disabled."""
    connection = connections[using]
    query = (
        "SELECT tgname FROM pg_trigger WHERE tgenabled IN ('O', 'A')"
        if connection.vendor == "postgresql"
        else "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        present = {name for (name,) in cursor.fetchall()}
    return sorted(_TRIGGERS.keys() - present)
