"""Metadata of a data package: codebook, `datapackage.json` and `versions.json`.

The codebook describes the content of every column of every table, for readers and for programs. The descriptor
follows Data Package, version 2 (https://datapackage.org/standard). `versions.json` names the software and the data
that the package was made with.
"""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from django.db import connection
from django.db.models import Max

from chatbots.installation import VERSION, commit, package_version
from evaluation.data.formats.tables import escape_cell
from evaluation.data.package import ATTENTION_CHECK, LEFT_OUT
from webapp.jobs.selectors.metrics import versions_used
from webapp.ratings.models import Rating
from webapp.results.fingerprint import Reads, data_state
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.rubrics import post_task_questions
from webapp.transfer.exporters.base import ColumnQuestion, ExportColumn, ExportOptions, conversations_included
from webapp.transfer.exporters.metrics import measured
from webapp.transfer.package.tables import KEYS, Packed, WrittenTable

EMPTY_CELL = "Unknown or not applicable."
Codebook = list[dict[str, Any]]
"""One entry per column, with the keys of `CSV_HEADER`; lists and mappings are JSON values."""
CSV_HEADER = (
    *("table", "column", "label", "type", "unit", "values", "direction", "low", "high", "missing"),
    *("question", "question_key", "asked", "versions", "scale_inferred"),
)


def codebook_of(study: Study, tables: Iterable[WrittenTable]) -> Codebook:
    """Return the codebook: one entry for every column of the tables."""
    asking = _versions_asking(study)
    compares = get_protocol(study).compares_pairs
    return [
        _entry(written.table.name, column, asking, compares=compares)
        for written in sorted(tables, key=lambda written: written.table.name)
        for column in written.table.columns
    ]


def codebook_json(codebook: Codebook) -> str:
    """Return the codebook as JSON."""
    return json.dumps({"columns": codebook}, ensure_ascii=False, indent=1) + "\n"


def codebook_csv(codebook: Codebook) -> str:
    """Return the codebook as CSV.

    Several values of one cell are joined by “; ”.
    """
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_HEADER)
    for entry in codebook:
        flat = {name: "" if entry[name] is None else entry[name] for name in CSV_HEADER}
        flat["values"] = "; ".join(f"{label['value']} = {label['label']}" for label in entry["values"])
        flat["missing"] = "; ".join(missing["reason"] for missing in entry["missing"])
        flat["versions"] = "; ".join(map(str, entry["versions"]))
        writer.writerow([flat[name] for name in CSV_HEADER])
    return text.getvalue()


def _entry(
    table: str, column: ExportColumn, asking: dict[tuple[str, str], list[int]], *, compares: bool
) -> dict[str, Any]:
    question = column.asked
    versions = asking.get((question.when, question.key), []) if question else []
    return {
        "table": table,
        "column": column.name,
        "label": column.description,
        "type": column.type,
        "unit": column.unit,
        "values": [{"value": plain(value), "label": words} for value, words in column.labels],
        "direction": _direction(question, compares=compares),
        "low": plain(question.low) if question else None,
        "high": plain(question.high) if question else None,
        "missing": [{"value": "", "reason": column.missing or EMPTY_CELL}],
        "question": question.words if question else "",
        "question_key": question.key if question else "",
        "asked": question.when if question else "",
        "versions": versions,
        "scale_inferred": bool(question and question.is_inferred),
    }


def _direction(question: ColumnQuestion | None, *, compares: bool) -> str:
    """Describe which end of a scale is good; empty if meaningless."""
    if question is None or question.low is None:
        return ""
    if compares and (question.low, question.high) == (-1, 1):
        return "positive: the first is better; negative: the second"
    if question.when == "before":
        return ""
    if question.is_check:
        return ATTENTION_CHECK
    return {True: "lower is better (reversed)", False: "higher is better", None: "not known"}[question.is_reversed]


def _versions_asking(study: Study) -> dict[tuple[str, str], list[int]]:
    """Return the version numbers that ask each question, by time and key."""
    version_numbers: dict[tuple[str, str], list[int]] = {}
    for version in study.versions.order_by("number").select_related("rubric"):
        for when, questions in (("before", version.values.questions), ("after", post_task_questions(version))):
            for question in questions:
                version_numbers.setdefault((when, question.key), []).append(version.number)
    return version_numbers


def plain(value: Any) -> Any:
    """Return a whole float as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
    study: Study, tables: Sequence[WrittenTable], packed: dict[str, Packed], *, as_of: str, left_out: Mapping[str, str]
) -> str:
    """Return the text of `datapackage.json`.

    Args:
        packed: files of the tables already in the zip.
        as_of: time of the newest data, ISO 8601.
        left_out: tables left out, each with the right it needs.
    """
    texts = study.values.texts
    descriptor: dict[str, Any] = {
        "$schema": f"{PROFILE}datapackage.json",
        "name": study.key.lower(),
        "title": study.name,
        "description": "Data of a study of chatbots, exported by Confab. See README.md.",
        "created": as_of,
    }
    if texts.organisation:
        descriptor["contributors"] = [{"title": texts.organisation}]
    if left_out:
        descriptor[LEFT_OUT] = [{"table": name, "right": right} for name, right in left_out.items()]
    descriptor["resources"] = [
        _resource(written, packed[written.table.path]) for written in sorted(tables, key=lambda t: t.table.name)
    ]
    return json.dumps(descriptor, ensure_ascii=False, indent=1) + "\n"


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
    field: dict[str, Any] = {"name": column.name, "type": _TYPES[column.type], "description": column.description}
    if column.type == "time":
        field["format"] = "any"  # with microseconds, which the default format lacks
    if column.asked is not None:
        field["title"] = column.asked.words
    if column.labels:
        labels = [{"value": _cell(value), "label": words} for value, words in column.labels]
        # The standard allows no categories for floats.
        field["categories" if column.type in ("text", "integer") else "valueLabels"] = labels
    if column.unit:
        field["unit"] = column.unit
    field["missingReason"] = column.missing or EMPTY_CELL
    return field


def _cell(value: Any) -> Any:
    """Return a value as in the table, with texts safe for spreadsheets."""
    return escape_cell(value) if isinstance(value, str) else plain(value)


PACKAGE_FORMAT = 1
"""Version of the package format; raised when an earlier Confab could not import it."""
_LIBRARIES = (*("Django", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "statsmodels"), *("torch", "transformers"))


def data_as_of(study: Study) -> str:
    """Return the time of the newest change of the study's data.

    ISO 8601, UTC.
    """
    chats = study.conversations.aggregate(newest=Max("updated_at"))
    of_tasks = Rating.objects.filter(participant__study=study).aggregate(newest=Max("updated_at"))
    people = study.participants.aggregate(newest=Max("updated_at"))
    newest = [total["newest"] for total in (chats, of_tasks, people) if total["newest"] is not None]
    return max(newest, default=study.created_at).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions_of(study: Study, options: ExportOptions, *, as_of: str) -> dict[str, Any]:
    """Return the versions of everything that the data depend on."""
    reads: tuple[Reads, ...] = ("metrics",)
    state = data_state(
        study,
        reads,
        include_synthetic=options.include_synthetic,
        include_failed=options.include_failed,
        without=options.without,
    )
    metrics = versions_used(conversations_included(study, options).order_by())
    columns = _columns_of_metrics(study)
    return {
        "package": PACKAGE_FORMAT,
        "confab": {"version": VERSION, "commit": commit()},
        "python": platform.python_version(),
        "database": {"kind": connection.vendor, "version": _database_version()},
        "libraries": {name: version for name in _LIBRARIES if (version := package_version(name))},
        "study": {
            "key": study.key,
            "protocol": study.protocol,
            "version": study.version.number,
            "state": study.state,
            "is_imported": study.is_imported,
            "test": "always" if keeps_always_valid(study) else "fixed",
        },
        "data": {"as_of": as_of, "state": state.digest, **options.requested()},
        "metrics": [
            {"name": metric.name, "version": metric.version, "key": metric.key, **columns.get(metric.key, {})}
            for metric in sorted((metric for metric, _ in metrics), key=lambda metric: (metric.name, metric.key))
        ],
    }


def _columns_of_metrics(study: Study) -> dict[str, dict[str, Any]]:
    """Return settings and columns by metric key, one version per metric."""
    of_turns = {version.key: [column.name for column in columns] for version, columns in measured(study, "turn")}
    return {
        version.key: {
            "params": version.params,
            "columns": [column.name for column in columns],
            "turn_columns": of_turns[version.key],
        }
        for version, columns in measured(study, "conversation")
    }


def versions_json(versions: dict[str, Any]) -> str:
    """Return the versions as JSON."""
    return json.dumps(versions, ensure_ascii=False, indent=1) + "\n"


def _database_version() -> str:
    return ".".join(map(str, connection.get_database_version()))


def versions_differ(versions: Any) -> list[dict[str, str]]:
    """Return the software versions that differ from the package's.

    Each has `what`, and the version in the `package` and in `local_versions`.
    """
    if not isinstance(versions, dict):
        return []
    package_versions: dict[str, Any] = {"Python": versions.get("python")}
    local_versions: dict[str, Any] = {"Python": platform.python_version()}
    confab = versions.get("confab")
    if isinstance(confab, dict):
        package_versions |= {"Confab": confab.get("version"), "Confab's commit": confab.get("commit")}
        local_versions |= {"Confab": VERSION, "Confab's commit": commit()}
    libraries = versions.get("libraries")
    if isinstance(libraries, dict):
        package_versions |= libraries
        local_versions |= {str(name): package_version(str(name)) or "" for name in libraries}
    return [
        {"what": str(name), "package": str(value), "here": str(local_versions[name] or "")}
        for name, value in package_versions.items()
        if value and value != local_versions[name]
    ]
