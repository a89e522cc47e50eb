"""`datapackage.json`: the package as Data Package, version 2, describes one (https://datapackage.org/standard)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.formats.spreadsheet import escaped
from evaluation.package import LEFT_OUT
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportColumn
from webapp.transfer.package.archive import Packed
from webapp.transfer.package.codebook import EMPTY, plain
from webapp.transfer.package.tables import KEYS, WrittenTable

PROFILE = "https://datapackage.org/profiles/2.0/"
_TYPES = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "time": "datetime",
    "json": "any",
}


def descriptor_json(
    study: Study,
    tables: Sequence[WrittenTable],
    packed: dict[str, Packed],
    *,
    as_of: str,
    left_out: Mapping[str, str],
) -> str:
    """Return the text of `datapackage.json`.

    Args:
        packed: the tables' files, which are in the zip already.
        as_of: when the newest of the data came, ISO 8601.
        left_out: tables that are not in it, each with the right that it asks for.
    """
    texts = study.values.texts
    found: dict[str, Any] = {
        "$schema": f"{PROFILE}datapackage.json",
        "name": study.key.lower(),
        "title": study.name,
        "description": "Data of a study of chatbots, as Confab exports them. README.md says how to read them.",
        "created": as_of,
    }
    if texts.organisation:
        found["contributors"] = [{"title": texts.organisation}]
    if left_out:
        found[LEFT_OUT] = [{"table": name, "right": right} for name, right in left_out.items()]
    found["resources"] = [
        _resource(one, packed[one.table.path]) for one in sorted(tables, key=lambda t: t.table.name)
    ]
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _resource(written: WrittenTable, packed: Packed) -> dict[str, Any]:
    table = written.table
    schema: dict[str, Any] = {
        "$schema": f"{PROFILE}tableschema.json",
        "fields": [_field(column) for column in table.columns],
        "missingValues": [""],
    }
    if key := KEYS.get(table.name):
        schema["primaryKey"] = list(key)
    return {
        "$schema": f"{PROFILE}dataresource.json",
        "name": table.name,
        "type": "table",
        "path": table.path,
        "title": table.exporter.title,
        "description": table.description,
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "bytes": packed.n_bytes,
        "hash": f"sha256:{packed.sha256}",
        "dialect": {"delimiter": ",", "quoteChar": '"', "doubleQuote": True, "header": True},
        "schema": schema,
    }


def _field(column: ExportColumn) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": column.name,
        "type": _TYPES[column.type],
        "description": column.description,
    }
    if column.type == "time":
        found["format"] = "any"  # with microseconds, which the usual form does not have
    if column.asked is not None:
        found["title"] = column.asked.words
    if column.labels:
        labels = [{"value": _cell(value), "label": words} for value, words in column.labels]
        # Numbers with a point can have no categories there.
        found["categories" if column.type in ("text", "integer") else "valueLabels"] = labels
    if column.unit:
        found["unit"] = column.unit
    found["missingReason"] = column.missing or EMPTY
    return found


def _cell(value: Any) -> Any:
    """Return a value as it stands in the table, where texts are safe for spreadsheets."""
    return escaped(value) if isinstance(value, str) else plain(value)
