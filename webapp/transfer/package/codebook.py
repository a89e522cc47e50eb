"""Codebook of a data package: the content of every column of every table, for readers and for programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from io import StringIO
from typing import Any

from webapp.ratings.pairs import compares_pairs
from webapp.studies.models import Study
from webapp.studies.rubrics import asked_after
from webapp.transfer.exporters.base import Asked, ExportColumn
from webapp.transfer.package.tables import WrittenTable

EMPTY = "Not known, or it does not apply here."
Codebook = list[dict[str, Any]]
"""One entry per column, with the keys of `CSV_HEADER`; of those that are lists or mappings JSON values."""
CSV_HEADER = (
    *("table", "column", "label", "type", "unit", "values", "direction", "low", "high", "missing"),
    *("question", "question_key", "asked", "versions", "scale_inferred"),
)


def codebook_of(study: Study, tables: Iterable[WrittenTable]) -> Codebook:
    """Return the codebook: one entry for every column of the tables."""
    asking = _versions_asking(study)
    compares = compares_pairs(study)
    return [
        _entry(one.table.name, column, asking, compares=compares)
        for one in sorted(tables, key=lambda one: one.table.name)
        for column in one.table.columns
    ]


def codebook_json(codebook: Codebook) -> str:
    """Return the codebook as JSON."""
    return json.dumps({"columns": codebook}, ensure_ascii=False, indent=1) + "\n"


def codebook_csv(codebook: Codebook) -> str:
    """Return the codebook as CSV; several values of one cell are joined by “; ”."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_HEADER)
    for entry in codebook:
        flat = {name: "" if entry[name] is None else entry[name] for name in CSV_HEADER}
        flat["values"] = "; ".join(f"{one['value']} = {one['label']}" for one in entry["values"])
        flat["missing"] = "; ".join(one["reason"] for one in entry["missing"])
        flat["versions"] = "; ".join(map(str, entry["versions"]))
        writer.writerow([flat[name] for name in CSV_HEADER])
    return text.getvalue()


def _entry(
    table: str,
    column: ExportColumn,
    asking: dict[tuple[str, str], list[int]],
    *,
    compares: bool,
) -> dict[str, Any]:
    asked = column.asked
    versions = asking.get((asked.when, asked.key), []) if asked else []
    return {
        "table": table,
        "column": column.name,
        "label": column.description,
        "type": column.type,
        "unit": column.unit,
        "values": [{"value": plain(value), "label": words} for value, words in column.labels],
        "direction": _direction(asked, compares=compares),
        "low": plain(asked.low) if asked else None,
        "high": plain(asked.high) if asked else None,
        "missing": [{"value": "", "reason": column.missing or EMPTY}],
        "question": asked.words if asked else "",
        "question_key": asked.key if asked else "",
        "asked": asked.when if asked else "",
        "versions": versions,
        "scale_inferred": bool(asked and asked.is_inferred),
    }


def _direction(asked: Asked | None, *, compares: bool) -> str:
    """Describe which answers to a scale are good ones; empty where that has no meaning."""
    if asked is None or asked.low is None:
        return ""
    if compares and (asked.low, asked.high) == (-1, 1):
        return "positive: the first is better; negative: the second"
    if asked.when == "before":
        return ""
    return "lower is better (reversed)" if asked.is_reversed else "higher is better"


def _versions_asking(study: Study) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of the versions that ask each question, by when it is asked and its key."""
    found: dict[tuple[str, str], list[int]] = {}
    for version in study.versions.order_by("number").select_related("rubric"):
        for when, questions in (
            ("before", version.values.questions),
            ("after", asked_after(version)),
        ):
            for question in questions:
                found.setdefault((when, question.key), []).append(version.number)
    return found


def plain(value: Any) -> Any:
    """Return a whole number as one, which scales keep as numbers with a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
