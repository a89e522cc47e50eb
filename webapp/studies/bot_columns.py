"""Researchers' table of bots: metrics, factors and control bots.

A CSV with a row for each bot: `bot,perplexity,architecture,corpus,ei,control`. Columns of numbers are shown next to the
metrics computed here; columns of words are factors of the analysis of variance; `control` (yes or no) marks bots made
to be bad, which are excluded from rankings; `group` (words) names each bot's family, for the check that the hybrid
metric distinguishes more than families.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction

from chatbots.text import nearest_names, quote
from webapp.core.errors import Refused
from webapp.studies.models import Study

BOT, CONTROL, GROUP = "bot", "control", "group"
LIMIT_BYTES = 1_000_000
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


@dataclass(frozen=True, slots=True)
class BotColumns:
    """Metrics, factors and control marks of bots, in addition to their ratings.

    Attributes:
        metrics: column to bot to number; bots without one are not in it.
        factors: column to bot to level.
        control: bots made to be bad, as the table says.
        marked: bots made to be bad, as their pages or an imported file say.
        source: the file it came from.
    """

    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    factors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    control: frozenset[str] = frozenset()
    source: str = ""
    marked: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return plain values for the study's row."""
        return {
            "metrics": {name: dict(by_bot) for name, by_bot in self.metrics.items()},
            "factors": {name: dict(by_bot) for name, by_bot in self.factors.items()},
            "control": sorted(self.control),
            "source": self.source,
            **({"marked": sorted(self.marked)} if self.marked else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BotColumns:
        """Read the output of `to_json`; an empty mapping means no columns."""
        return cls(
            value.get("metrics", {}),
            value.get("factors", {}),
            frozenset(value.get("control", ())),
            value.get("source", ""),
            frozenset(value.get("marked", ())),
        )


def controls_mark(*, study: Study, bots: Collection[str], is_control: bool = True) -> None:
    """Mark bots of the study as controls, or unmark them."""
    with transaction.atomic():
        row = Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        columns = BotColumns.from_json(row.bot_columns)
        changed = columns.marked | set(bots) if is_control else columns.marked - set(bots)
        columns_write(study, replace(columns, marked=frozenset(changed)))


def columns_write(study: Study, columns: BotColumns) -> None:
    """Write the columns into the study's row; none are an empty mapping."""
    study.bot_columns = columns.to_json() if columns != BotColumns() else {}
    study.save(update_fields=["bot_columns", "updated_at"])


def bot_columns_read(content: bytes, bots: Collection[str], source: str = "") -> BotColumns:
    """Read the CSV.

    Args:
        content: the file's content, UTF-8.
        bots: ids of the study's bots.
        source: the file's name, kept for the record.

    Raises:
        Refused: `bad_csv`, with the line, the value and the expected form.
    """
    header, rows = _rows(content)
    columns = [name for name in header if name != BOT]
    seen: dict[str, dict[str, str]] = {}
    for line, row in rows:
        bot = row[BOT]
        if bot not in bots:
            near = nearest_names(bot, sorted(bots))
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {_few(bots)}"
            raise _bad(f"line {line}: the study has no bot {quote(bot)}; {hint}")
        if bot in seen:
            raise _bad(f"line {line}: bot {quote(bot)} is listed twice; use one row per bot")
        seen[bot] = {**row, "": str(line)}
    if not seen:
        raise _bad("there is no row below the header; add one row per bot")
    metrics: dict[str, dict[str, float]] = {}
    factors: dict[str, dict[str, str]] = {}
    control: frozenset[str] = frozenset()
    for name in columns:
        cells = {bot: (int(row[""]), row[name]) for bot, row in seen.items()}
        if name == CONTROL:
            control = _control(cells)
            continue
        numbers = {bot: _number(cell) for bot, (_line, cell) in cells.items() if cell}
        if not numbers:
            raise _bad(f"column {quote(name)} is empty; give it values or leave it out")
        if all(value is None for value in numbers.values()):
            factors[name] = {bot: cell for bot, (_line, cell) in cells.items() if cell}
            continue
        for bot, (line, cell) in cells.items():
            if cell and numbers[bot] is None:
                raise _bad(
                    f"line {line}: {name} of {bot} is {quote(cell)}, but other bots have numbers; enter a finite "
                    "number or leave the cell empty"
                )
        metrics[name] = {bot: value for bot, value in numbers.items() if value is not None}
    return BotColumns(metrics, factors, control, source)


def _rows(content: bytes) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the header and the numbered rows that are not blank."""
    if len(content) > LIMIT_BYTES:
        raise _bad(f"the file has {len(content):,} bytes; the limit is {LIMIT_BYTES:,}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _bad(f"the file is not UTF-8 (byte {error.start}); save it as CSV UTF-8") from None
    if "\x00" in text:
        raise _bad("the file is not text; save the table as CSV UTF-8")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise _bad(f"line {reader.line_num}: {error}") from None
    if not rows:
        raise _bad("the file is empty; its first line must be a header such as bot,perplexity")
    header = rows[0][1]
    if BOT not in header:
        hint = "; separate the columns by commas" if len(header) == 1 and ";" in header[0] else ""
        raise _bad(f"the header is {quote(','.join(header))}; one column must be called {quote(BOT)}{hint}")
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise _bad(f"column {quote(twice)} is listed twice in the header")
    if "" in header:
        raise _bad(f"column {header.index('') + 1} has no name in the header")
    if len(header) == 1:
        raise _bad("the only column is 'bot'; add at least one column about the bots")
    for line, cells in rows[1:]:
        if len(cells) != len(header):
            raise _bad(f"line {line} has {len(cells)} cells; the header has {len(header)}")
    return header, [(line, dict(zip(header, cells, strict=True))) for line, cells in rows[1:]]


def _control(cells: Mapping[str, tuple[int, str]]) -> frozenset[str]:
    for bot, (line, cell) in cells.items():
        if cell.lower() not in _YES:
            raise _bad(f"line {line}: control of {bot} is {quote(cell)}; it must be yes or no")
    return frozenset(bot for bot, (_line, cell) in cells.items() if _YES[cell.lower()])


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _few(bots: Collection[str]) -> str:
    names = sorted(bots)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _bad(message: str) -> Refused:
    return Refused("bad_csv", message)
