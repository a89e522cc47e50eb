"""Output of a reader of a file format: valid records, and reasons for the others.

A reader streams. Whatever the file holds, it yields `Record` or `Skipped` and goes on; only a file
that cannot be opened at all raises.
"""

from __future__ import annotations

import hashlib
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


@dataclass(frozen=True, slots=True)
class RecordRating:
    """One rater's answers. `rater` is empty where the file names none."""

    answers: Mapping[str, float]
    rater: str = ""
    comment: str = ""
    submitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One conversation with its ratings.

    Attributes:
        line: where it stands in the file, from 1.
        turns: in order. Empty together with `ratings_only`.
        times: of the turns, one each, or empty where the file has none.
        ratings_only: ratings of a conversation that was imported before.
        flags: names of the flags of its participant; None where the file says nothing of flags.
        is_control: its bot was made to be bad, a control of the raters.
        condition: level of each of the study's factors that it was held under.
        meta: other fields of the conversation: texts, numbers and truth values.
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

    @property
    def key(self) -> tuple[str, str, str]:
        """Key of the conversation: sources, and bots of one source, may number their dialogues alike."""
        return self.source, self.dialogue_id, self.bot

    @property
    def external_id(self) -> str:
        """Return the id with its source before it; several bots may share it."""
        return f"{self.source}/{self.dialogue_id}" if self.source else self.dialogue_id


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that could not be read: where, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A guess or an omission that concerns a whole file, for a person to check."""

    text: str


def skip_mixed_control(record: Record) -> Skipped:
    """Skip a degraded conversation of a bot that has others, too."""
    return Skipped(
        record.line,
        f"meta.degraded_control is true here and not in other conversations of bot {quote(record.bot)}; give the "
        "control a name of its own",
    )


CONDITION = "condition_"
"""Begins the names of columns that hold the conditions of conversations, a column for each factor."""
_CONDITION_KEY = re.compile(r"[A-Za-z0-9_]{1,40}")


def condition_read(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the condition in the columns of a conversation; empty cells are none.

    Raises:
        BadRecord: a factor or level is no key.
    """
    condition = {}
    for column, level in row.items():
        if isinstance(column, str) and column.startswith(CONDITION) and level not in ("", None) and level == level:
            factor = column.removeprefix(CONDITION)
            if not (isinstance(level, str) and _CONDITION_KEY.fullmatch(level) and _CONDITION_KEY.fullmatch(factor)):
                raise BadRecord(f"{column} is {quote(str(level))}; letters, digits and _ are possible, at most 40")
            condition[factor] = level
    return condition


class BadRecord(ValueError):
    """Error for an invalid record, which states the value and the expected one."""


class FileFormat(Protocol):
    """A file format that conversations are imported from."""

    name: str
    title: str

    def recognises(self, head: str) -> bool:
        """Return True if the file has this format, by `head`: its first lines, decoded."""
        ...

    def read(self, path: Path) -> Iterator[Record | Skipped | Note]:
        """Stream the file's records."""
        ...


formats: Registry[FileFormat] = Registry("file format", "evaluation.formats")


def register_format(cls: C) -> C:
    """Decorate a class: make one reader of it and list it."""
    formats.register(cls)
    return cls


def without_clashes(items: Iterable[Record | Skipped | Note]) -> Iterator[Record | Skipped | Note]:
    """Replace each record whose key has other turns in an earlier line by a `Skipped`.

    The keys lie in a temporary database on disk, so that memory stays small.
    """
    with closing(sqlite3.connect("")) as store:
        store.execute(
            "CREATE TABLE seen (source TEXT, id TEXT, bot TEXT, turns BLOB, line INTEGER,"
            " PRIMARY KEY (source, id, bot)) WITHOUT ROWID"
        )
        for item in items:
            if not isinstance(item, Record) or item.ratings_only:
                yield item
                continue
            turns = hashlib.sha256(repr(item.turns).encode("utf-8", "surrogatepass")).digest()
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
    """Name a record in a message by its key."""
    source = f" from {quote(record.source)}" if record.source else ""
    return f"dialogue_id {quote(record.dialogue_id)} of bot {quote(record.bot)}{source}"


def normal_name(name: str) -> str:
    """Return a name in one normal form (NFC), so that names that look the same are the same."""
    return unicodedata.normalize("NFC", name)


def text_problem(text: str) -> str | None:
    """Return the reason why a database could not store the text, or None."""
    if "\x00" in text:
        return "holds the character U+0000"
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "holds half a surrogate pair or bytes that are not UTF-8"
    return None
