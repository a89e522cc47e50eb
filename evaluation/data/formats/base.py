"""Interface of file format readers, and the records they yield.

A reader streams. It yields a `Record`, or a `Skipped` for invalid content, and continues; only a file that cannot be
opened raises an error.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from chatbots import Turn
from chatbots.registry import C, Registry
from chatbots.text import quote

MAX_ID_CHARS = 200
MAX_BOT_CHARS = 100
MAX_DIMENSION_CHARS = 50


@dataclass(frozen=True, slots=True)
class RecordRating:
    """Answers of one rater; `rater` is empty if unnamed."""

    answers: Mapping[str, float]
    rater: str = ""
    comment: str = ""
    submitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One conversation with its ratings.

    Attributes:
        line: line number in the file, from 1.
        turns: turns in order; empty with `ratings_only`.
        times: one time per turn; empty if the file has none.
        ratings_only: ratings of a previously imported conversation.
        flags: names of the participant's flags; None if the file has no flags.
        is_control: True if the bot was deliberately degraded to check the raters.
        condition: level of each factor of the study.
        meta: other fields of the conversation: texts, numbers and booleans.
        traces: by number of a bot's turn, the steps before it as JSON (`chatbots/trace.py`).
    """

    line: int
    dialogue_id: str
    bot: str
    source: str = ""
    turns: tuple[Turn, ...] = ()
    times: tuple[datetime, ...] = ()
    ratings: tuple[RecordRating, ...] = ()
    ratings_only: bool = False
    flags: tuple[str, ...] | None = None
    is_control: bool = False
    condition: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    traces: Mapping[int, Any] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Key of the conversation.

        It contains source and bot, because dialogue numbers can repeat between them.
        """
        return self.source, self.dialogue_id, self.bot

    @property
    def external_id(self) -> str:
        """Return the id prefixed by its source; several bots can share it."""
        return f"{self.source}/{self.dialogue_id}" if self.source else self.dialogue_id


@dataclass(frozen=True, slots=True)
class Skipped:
    """Skipped record, with its location and the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Note on a guess or omission for the researcher to check."""

    text: str


def skip_mixed_control(record: Record) -> Skipped:
    """Skip a degraded conversation if its bot also has regular ones."""
    return Skipped(
        record.line,
        f"meta.degraded_control is true here but not in other conversations of bot {quote(record.bot)}; give the "
        "control a different bot name",
    )


CONDITION = "condition_"
"""Prefix of the columns with a conversation's conditions, one column per factor."""
_CONDITION_KEY = re.compile(r"[A-Za-z0-9_]{1,40}")


def condition_read(row: Mapping[str, Any]) -> dict[str, str]:
    """Read a conversation's condition from its columns, ignoring empty cells.

    Raises:
        BadRecord: if a factor or level is not a valid key.
    """
    condition = {}
    for column, level in row.items():
        if isinstance(column, str) and column.startswith(CONDITION) and level not in ("", None) and level == level:
            factor = column.removeprefix(CONDITION)
            if not (isinstance(level, str) and _CONDITION_KEY.fullmatch(level) and _CONDITION_KEY.fullmatch(factor)):
                raise BadRecord(f"{column} is {quote(str(level))}; it may contain letters, digits and _, at most 40")
            condition[factor] = level
    return condition


_SURROGATES = re.compile("[\ud800-\udfff]")


class BadRecord(ValueError):
    """Error in a record; the message gives actual and expected value."""


class FileFormat(Protocol):
    """File format for importing conversations.

    A format may also have `loses`: what the import leaves out, as a noun phrase for pages and the reference.
    """

    name: str
    title: str

    def recognises(self, head: str) -> bool:
        """Return True if the decoded first lines, `head`, are in this format."""
        ...

    def read(self, path: Path) -> Iterator[Record | Skipped | Note]:
        """Stream the file's records."""
        ...


formats: Registry[FileFormat] = Registry("file format", "evaluation.data.formats")


def register_format(cls: C) -> C:
    """Register the decorated class as a reader, instantiated without arguments."""
    formats.register(cls)
    return cls


def without_clashes(items: Iterable[Record | Skipped | Note]) -> Iterator[Record | Skipped | Note]:
    """Skip records whose key occurred earlier with different turns.

    The keys are stored in a temporary database on disk to limit memory use.
    """
    with closing(sqlite3.connect("")) as store:
        store.execute(
            "CREATE TABLE seen (source TEXT, id TEXT, bot TEXT, turns INTEGER, line INTEGER,"
            " PRIMARY KEY (source, id, bot)) WITHOUT ROWID"
        )
        for item in items:
            if not isinstance(item, Record) or item.ratings_only:
                yield item
                continue
            turns = hash(item.turns)
            values = (*item.key, turns, item.line)
            if store.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, ?, ?, ?)", values).rowcount:
                yield item
                continue
            [known] = store.execute("SELECT turns, line FROM seen WHERE source = ? AND id = ? AND bot = ?", item.key)
            if known[0] == turns:
                yield item
                continue
            reason = f"{record_name(item)} has other turns in line {known[1]} than in line {item.line}"
            yield Skipped(item.line, reason)


def record_name(record: Record) -> str:
    """Return a record's name for messages, from its key."""
    source = f" from {quote(record.source)}" if record.source else ""
    return f"dialogue_id {quote(record.dialogue_id)} of bot {quote(record.bot)}{source}"


def normal_name(name: str) -> str:
    """Normalise a name (NFC), so that names that look alike are equal."""
    return unicodedata.normalize("NFC", name)


def text_problem(text: str) -> str | None:
    """Return the reason why a database cannot store the text, or None."""
    if "\x00" in text:
        return "contains the character U+0000"
    if not text.isascii() and _SURROGATES.search(text):
        return "contains half a surrogate pair or bytes that are not UTF-8"
    return None
