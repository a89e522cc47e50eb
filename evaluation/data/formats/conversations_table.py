"""Format of the exported table `conversations`, with JSON cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.data.formats.base import CONDITION, BadRecord, Note, Record, Skipped, register_format
from evaluation.data.formats.jsonl import record_of
from evaluation.data.formats.table_rows import csv_rows, has_columns, table_notes

_NEEDED = {"dialogue_id", "bot", "turns"}


@register_format
class ConversationRows:
    """One row per conversation."""

    name = "conversations"
    title = "Confab's exported table conversations (CSV, Parquet)"

    def recognises(self, head: str) -> bool:
        return has_columns(head, _NEEDED)

    def read(self, path: Path) -> Iterator[Record | Skipped | Note]:
        yield from table_notes(path)
        for item in csv_rows(path):
            if isinstance(item, Skipped):
                yield item
                continue
            line, row = item
            data: dict[str, Any] = {name: row.get(name, "") for name in ("dialogue_id", "bot", "source")}
            data |= {name: cell for name, cell in row.items() if name.startswith(CONDITION)}
            try:
                data |= {name: json.loads(row.get(name) or "null") for name in ("turns", "ratings", "flags")}
                yield record_of(data, line=line)
            except (BadRecord, ValueError, RecursionError) as error:
                yield Skipped(line, str(error))
