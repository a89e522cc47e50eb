"""Insertion of many rows of one table: by COPY on PostgreSQL, by INSERT on SQLite."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection, models


def rows_insert(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows without making an object for each; the caller excludes conflicts.

    On PostgreSQL this takes a fifth of the time of `bulk_create`, which would also replace automatic times in `rows`.

    Args:
        columns: columns that differ between rows, such as `study_id` and a key that is no number; the others have
            their defaults.
        rows: their values. Other automatic times are those of the call.
    """
    fields = {field.column: field for field in model._meta.concrete_fields}
    blank = model()
    defaults = {
        column: field.get_db_prep_save(field.pre_save(blank, add=True), connection)
        for column, field in fields.items()
        if column not in columns and not isinstance(field, models.AutoField)
    }
    table = connection.ops.quote_name(model._meta.db_table)
    names = ", ".join(connection.ops.quote_name(name) for name in (*columns, *defaults) if name)
    if connection.vendor != "postgresql":
        prepare = [fields[name].get_db_prep_save for name in columns]
        marks = ", ".join(["%s"] * (len(columns) + len(defaults)))
        values = [
            [*(convert(value, connection) for convert, value in zip(prepare, row, strict=True)), *defaults.values()]
            for row in rows
        ]
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)  # noqa: S608  # quoted names
        return
    ending = "".join(f"\t{_copied(value)}" for value in defaults.values()) + "\n"
    writers = [_copied_json if isinstance(fields[name], models.JSONField) else _copied for name in columns]
    lines = io.StringIO()
    for row in rows:
        lines.write("\t".join([write(value) for write, value in zip(writers, row, strict=True)]) + ending)
    lines.seek(0)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} ({names}) FROM STDIN", lines)


def _copied(value: Any) -> str:
    """Return a value in the text format of COPY."""
    if value is None:
        return "\\N"
    if type(value) is int:
        return str(value)
    if isinstance(value, bool):
        return "t" if value else "f"
    # psycopg2 wraps JSON.
    text = value if type(value) is str else str(value.dumps(value.adapted) if hasattr(value, "adapted") else value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _copied_json(value: Any) -> str:
    return _copied(json.dumps(value)) if value else "{}" if value == {} else "[]" if value == [] else _copied(value)
