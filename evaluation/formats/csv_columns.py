"""Conversations and ratings in a CSV, by the role of each column.

A row is a message (`speaker`, `text`), an exchange (`human`, `reply`), or the rating of a conversation that was
imported before. Rows come in any order: they are sorted in a temporary database on disk, so that memory stays small.
A chat of which one row cannot be read is left out as a whole, for it would have a hole. Decimal commas are read.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sqlite3
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from chatbots import Turn
from chatbots.compressed_files import is_zip
from chatbots.text import quote
from evaluation.formats.base import (
    CONDITION,
    MAX_BOT_CHARS,
    MAX_ID_CHARS,
    BadRecord,
    Record,
    RecordRating,
    Skipped,
    register_format,
    text_problem,
)
from evaluation.formats.jsonl import MAX_DIMENSION_CHARS
from evaluation.formats.tables import DECIMAL_COMMA, is_missing, unescape_cell
from evaluation.formats.text_files import MAX_LINE_BYTES, byte_lines, delimiter_of, format_for, head_of

CsvRows = Iterable[tuple[int, dict[str, str]] | Skipped]
"""Rows of a CSV: the line, and the cells by header."""
QUESTION = "question"
ROLES = {
    "": "Left out",
    "conversation": "Conversation",
    "bot": "Bot",
    "speaker": "Speaker (human or bot)",
    "text": "Text of either speaker",
    "human": "Text of the person",
    "reply": "Reply of the bot",
    "turn": "Number of the turn",
    "time": "Time (ISO 8601)",
    "vote": "Vote on the reply (-1, 0, 1)",
    "rater": "Rater",
    QUESTION: "Answer to a question",
    "comment": "Comment",
}
"""Roles of columns with their titles; one column each, but for answers."""
_NAMES = {
    "conversation": "conversation, conversation id, dialogue, dialogue id, dialog id, chat, chat id, session id",
    "bot": "bot, bot id, chatbot, chatbot id, model, model id",
    "speaker": "speaker, role, sender, author",
    "reply": "reply, response, bot response, bot message, assistant",
    "human": "human, user, user message, human message, prompt",
    "text": "text, utterance, content, message",
    "turn": "turn, turn index, turn number, index",
    "time": "time, datetime, timestamp, created at, submitted at",
    "vote": "vote, response rating",
    "rater": "rater, rater id, worker, worker id, workerid, annotator, judge, participant, user session key",
    "comment": "comment, comments, chat rating comments, feedback",
    "": "id, study key, bot input, chat length, mturk code, mturk user id, rating id, n exchanges, n turns, n ratings",
}
_SPEAKERS = {
    **dict.fromkeys(("human", "user", "person", "participant"), "human"),
    **dict.fromkeys(("bot", "assistant", "chatbot", "model"), "bot"),
}


def question_key(column: str) -> str:
    """Return the question's key for a column's name: `Wie gut? (1-5)` is `wie_gut_1_5`; empty if it has no letter."""
    plain = unicodedata.normalize("NFKD", column).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain.removeprefix("chat rating ")).strip("_")
    return (f"q_{name}" if name[:1].isdigit() else name)[:MAX_DIMENSION_CHARS]


def head_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header of a CSV and its first rows.

    Raises:
        ValueError: two columns have one name, or the file holds no header.
    """
    lines = head_of(path).splitlines()
    found = [[unescape_cell(one.strip()) for one in row] for row in csv.reader(lines[:50], delimiter=_delimiter(path))]
    header, *rows = [row for row in found if any(row)] or [[]]
    if not any(header):
        raise ValueError(f"{path.name} has no header: its first line must name the columns")
    twice = next((name for i, name in enumerate(header) if name in header[:i]), None)
    if twice is not None:
        raise ValueError(f"{path.name} has two columns {quote(twice)}; each needs a name of its own")
    return header, [row for row in rows if len(row) == len(header)]


def _delimiter(path: Path) -> str:
    return delimiter_of(head_of(path))


def guess_roles(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Guess the role of each column by its name; other columns with nothing but numbers hold answers."""
    plain = {name: re.sub(r"[^a-z0-9]+", " ", name.lower()).strip() for name in header}
    known = {name: role for role, names in _NAMES.items() for name in names.split(", ")}
    wanted = {column: known.get(name) for column, name in plain.items()}
    if "reply" in wanted.values() and "human" not in wanted.values():
        wanted |= {column: "human" for column, name in plain.items() if name == "message"}
    roles: dict[str, str] = {}
    for number, column in enumerate(header):
        role = wanted[column]
        cells = [row[number] for row in rows if not is_missing(row[number])]
        if role is None:
            is_id = len(cells) > 7 and len(set(cells)) == len(cells) and all(map(str.isdecimal, cells))
            is_question = plain[column].startswith("chat rating ") or (
                cells and not is_id and all(map(_is_number, cells))
            )
            is_question = is_question and column != "sitting" and not column.startswith(CONDITION)
            role = QUESTION if is_question and question_key(column) else ""
        roles[column] = "" if role != QUESTION and role in roles.values() else role
    return roles


def _is_number(cell: str) -> bool:
    try:
        _number({"": cell}, "")
    except BadRecord:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Columns by role, and the question of each column of answers."""

    columns: Mapping[str, str]
    questions: Mapping[str, str]

    @classmethod
    def of(cls, roles: Mapping[str, str]) -> CsvLayout:
        """Check the roles of a CSV's columns.

        Raises:
            ValueError: a role is unknown, given twice or missing.
        """
        columns: dict[str, str] = {}
        questions: dict[str, str] = {}
        for column, role in roles.items():
            if role not in ROLES:
                known = ", ".join(filter(None, ROLES))
                raise ValueError(f"column {quote(column)} is {quote(role)}; it must be one of {known}")
            taken, key = (questions, question_key(column)) if role == QUESTION else (columns, role)
            if role == QUESTION and not key:
                raise ValueError(f"column {quote(column)} holds answers; its name needs a letter or digit")
            if key in taken:
                raise ValueError(f"columns {quote(taken[key])} and {quote(column)} are both “{key}”; choose one")
            if role:
                taken[key] = column
        has_text = columns.keys() & {"text", "human", "reply"}
        if "conversation" not in columns:
            raise ValueError("no column names the conversation; choose one")
        if ("text" in columns) != ("speaker" in columns) or ("text" in columns and len(has_text) > 1):
            raise ValueError("choose a speaker and one text, or a text of the person and a reply of the bot")
        if has_text and "bot" not in columns:
            raise ValueError("no column names the bot; choose one")
        if not has_text and not questions:
            raise ValueError("no column holds texts or answers; choose one")
        return cls(columns, {column: key for key, column in questions.items()})

    @property
    def has_texts(self) -> bool:
        """Return True if rows are messages or exchanges; else they are ratings."""
        return not self.columns.keys().isdisjoint(("text", "human", "reply"))


@register_format
class CsvColumns:
    """A CSV with a header; each column has the role given, or the one that its name suggests."""

    name = "csv"
    title = "CSV with a header: a row per message, per exchange or per rating (.csv)"

    def __init__(self, roles: Mapping[str, str] | None = None) -> None:
        self._roles = roles

    def recognises(self, head: str) -> bool:
        lines = head.splitlines()[:50]
        header, *rows = list(csv.reader(lines, delimiter=delimiter_of(head))) or [[]]
        if len(header) < 2 or len(set(header)) < len(header):
            return False
        try:
            layout = CsvLayout.of(guess_roles(header, [row for row in rows if len(row) == len(header)]))
        except ValueError:
            return False
        return layout.has_texts or "rater" in layout.columns

    def roles(self, path: Path) -> Mapping[str, str]:
        """Return the role of each column."""
        return guess_roles(*head_rows(path)) if self._roles is None else self._roles

    def reply_text(self, text: str) -> str:
        """Return the text of a bot as it is stored."""
        return text

    def read(self, path: Path, most_rows: int | None = None) -> Iterator[Record | Skipped]:
        """Yield the file's records. Its rows come in any order, so they are sorted on disk first.

        Args:
            most_rows: number of rows that are read; None: all.

        Raises:
            ValueError: the columns cannot have these roles.
        """
        layout = CsvLayout.of(self.roles(path))
        with tempfile.TemporaryDirectory() as folder:
            store = sqlite3.connect(Path(folder) / "rows.sqlite3")
            try:
                rows = islice(csv_rows(path), most_rows)
                yield from (self._conversations if layout.has_texts else self._ratings)(rows, layout, store)
            finally:
                store.close()

    def _conversations(self, rows: CsvRows, layout: CsvLayout, store: sqlite3.Connection) -> Iterator[Record | Skipped]:
        store.execute("CREATE TABLE rows (chat TEXT, turn REAL, at TEXT, line INTEGER, cells TEXT)")
        store.execute("CREATE TABLE bad (chat TEXT PRIMARY KEY)")
        for item in rows:
            if isinstance(item, Skipped):
                yield item
                continue
            line, cells = item
            chat = ""
            try:
                chat = _name(cells, layout.columns["conversation"], MAX_ID_CHARS)
                row = self._row(cells, layout)
            except BadRecord as error:
                yield Skipped(line, f"{error}{'; its chat is left out' if chat else ''}")
                if chat:
                    store.execute("INSERT OR IGNORE INTO bad VALUES (?)", [chat])
                continue
            store.execute(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?)", [chat, row["turn"], row["at"], line, json.dumps(row)]
            )
        store.execute("CREATE INDEX by_chat ON rows (chat, turn, at, line)")
        found = store.execute(
            "SELECT chat, line, cells FROM rows WHERE chat NOT IN (SELECT chat FROM bad) ORDER BY chat, turn, at, line"
        )
        for chat, own in groupby(found, key=lambda row: row[0]):
            yield _record(chat, [(line, json.loads(cells)) for _, line, cells in own])

    def _ratings(self, rows: CsvRows, layout: CsvLayout, store: sqlite3.Connection) -> Iterator[Record | Skipped]:
        store.execute("CREATE TABLE rows (chat TEXT, bot TEXT, rater TEXT, at TEXT, line INTEGER, cells TEXT)")
        for item in rows:
            if isinstance(item, Skipped):
                yield item
                continue
            line, cells = item
            try:
                chat = _name(cells, layout.columns["conversation"], MAX_ID_CHARS)
                bot = _text(cells, layout.columns.get("bot")).strip()
                rating = _rating_cells(cells, layout)
            except BadRecord as error:
                yield Skipped(line, str(error))
                continue
            values = [chat, bot, rating["rater"], rating["at"], line, json.dumps(rating)]
            store.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
        found = store.execute("SELECT * FROM rows ORDER BY chat, bot, rater, at, line")
        # A rater without a name is another one in every row.
        for (chat, bot, _rater), own in groupby(found, key=lambda row: (*row[:2], row[2] or row[4])):
            *earlier, last = own
            for row in earlier:
                yield Skipped(row[4], f"rated again in line {last[4]}; the last rating counts")
            own_rating = _rating(json.loads(last[5]))
            yield Record(line=last[4], dialogue_id=chat, bot=bot, ratings=(own_rating,), ratings_only=True)

    def _row(self, cells: Mapping[str, str], layout: CsvLayout) -> dict[str, Any]:
        columns = layout.columns
        vote = _vote(cells, columns.get("vote"))
        if "text" in columns:
            speaker = _SPEAKERS.get(_text(cells, columns["speaker"]).strip().lower())
            if speaker is None:
                given = quote(cells[columns["speaker"]])
                raise BadRecord(f"{columns['speaker']} is {given}; it must be human or bot")
            turns = [(speaker, _text(cells, columns["text"]))]
            if vote and speaker == "human":
                raise BadRecord(f"{columns['vote']} is {vote} on a human turn; only bot turns have votes")
        else:
            turns = [("human", _text(cells, columns.get("human"))), ("bot", _text(cells, columns.get("reply")))]
        said = [(who, text if who == "human" else self.reply_text(text)) for who, text in turns if text]
        if not said:
            names = [columns[role] for role in ("text", "human", "reply") if role in columns]
            raise BadRecord(f"{' and '.join(names)} {'are both' if len(names) > 1 else 'is'} empty")
        return {
            **_rating_cells(cells, layout),
            "turn": _number(cells, columns.get("turn")) or 0,
            "has_turn": "turn" in columns,
            "bot": _name(cells, columns["bot"], MAX_BOT_CHARS),
            "turns": [(who, text, vote if who == "bot" else 0) for who, text in said],
        }


def suggested_roles(path: Path) -> tuple[Mapping[str, str], bool] | None:
    """Return the role that each column seems to have; None for a file that is no CSV.

    Returns:
        The roles by column, and True if the file can be read by them as they are.

    Raises:
        ValueError: as `head_rows`.
    """
    if is_zip(path):
        return None
    try:
        file_format = format_for(path)
    except ValueError:
        return guess_roles(*head_rows(path)), False
    return (file_format.roles(path), True) if isinstance(file_format, CsvColumns) else None


def choose_roles(path: Path, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each column of a CSV; those not chosen keep the one that their names suggest.

    Raises:
        ValueError: the file is no CSV, or a chosen column is not in it.
    """
    found = suggested_roles(path)
    if found is None:
        raise ValueError(f"{path.name} is no CSV, so its columns cannot be named")
    roles, _is_known = found
    if missing := [quote(column) for column in chosen if column not in roles]:
        raise ValueError(f"{path.name} has no column {', '.join(missing)}; it has {', '.join(map(quote, roles))}")
    taken = set(chosen.values()) - {QUESTION}
    return {column: chosen.get(column, "" if role in taken else role) for column, role in roles.items()}


def csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]] | Skipped]:
    """Yield (line, cells by header) of every row; `Skipped` for one that is not a row of this table."""
    csv.field_size_limit(MAX_LINE_BYTES)
    damage: list[Skipped] = []
    reader = csv.reader(_lines(path, damage), delimiter=_delimiter(path))
    header: list[str] = []
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            yield Skipped(reader.line_num, f"not CSV: {error}")
            continue
        if not any(cells):
            continue
        if not header:
            names = [cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in cells]
            header = [unescape_cell(name.strip()) for name in names]
        elif len(cells) != len(header):
            yield Skipped(reader.line_num, f"the row has {len(cells)} cells; the header has {len(header)}")
        else:
            yield reader.line_num, dict(zip(header, map(unescape_cell, cells), strict=True))
    yield from damage


def _lines(path: Path, damage: list[Skipped]) -> Iterator[str]:
    """Yield lines for the CSV reader; bytes that are not UTF-8 become surrogates, which `text_problem` finds later."""
    for item in byte_lines(path):
        if isinstance(item, Skipped):
            damage.append(item)
        else:
            yield item[1].decode("utf-8", errors="surrogateescape")


def _rating_cells(cells: Mapping[str, str], layout: CsvLayout) -> dict[str, Any]:
    columns = layout.columns
    answers = {key: _number(cells, column) for column, key in layout.questions.items()}
    return {
        "answers": {key: value for key, value in answers.items() if value is not None},
        "comment": _text(cells, columns.get("comment")),
        "rater": _text(cells, columns.get("rater")).strip()[: MAX_ID_CHARS - 10],
        "at": _time(cells, columns["time"]).isoformat(timespec="microseconds") if "time" in columns else "",
    }


def _rating(row: Mapping[str, Any]) -> RecordRating:
    at = datetime.fromisoformat(row["at"]) if row["at"] else None
    return RecordRating(row["answers"], rater=row["rater"], comment=row["comment"], submitted_at=at)


def _record(chat: str, rows: list[tuple[int, dict[str, Any]]]) -> Record | Skipped:
    line = rows[0][0]
    bots = sorted({row["bot"] for _, row in rows})
    if len(bots) > 1:
        return Skipped(line, f"chat {quote(chat)} has more than one bot: {', '.join(bots)}")
    turns: list[Turn] = []
    times: list[datetime] = []
    numbered: dict[float, Any] = {}
    for where, row in rows:
        if row["has_turn"] and numbered.setdefault(row["turn"], row["turns"]) is not row["turns"]:
            if numbered[row["turn"]] != row["turns"]:
                return Skipped(where, f"chat {quote(chat)} has turn {row['turn']:g} twice, with different texts")
            continue
        turns += [Turn(who, text, vote) for who, text, vote in row["turns"]]
        if row["at"]:
            times += [datetime.fromisoformat(row["at"])] * len(row["turns"])
    # A rating is repeated on every row of its chat; a rater's last one counts.
    ratings = {row["rater"]: _rating(row) for _, row in rows if row["answers"]}
    return Record(line, chat, bots[0], turns=tuple(turns), times=tuple(times), ratings=tuple(ratings.values()))


def _text(cells: Mapping[str, str], column: str | None) -> str:
    value = "" if column is None else cells.get(column, "")
    problem = text_problem(value)
    if problem:
        raise BadRecord(f"{column} {problem}")
    return value


def _name(cells: Mapping[str, str], column: str, limit: int) -> str:
    value = _text(cells, column).strip()
    if not value:
        raise BadRecord(f"{column} is empty")
    if len(value) > limit:
        raise BadRecord(f"{column} has {len(value)} characters; at most {limit} are possible")
    return value


def _vote(cells: Mapping[str, str], column: str | None) -> int:
    value = _text(cells, column).strip()
    if is_missing(value):
        return 0
    if value.removesuffix(".0") not in ("-1", "0", "1"):
        raise BadRecord(f"{column} is {quote(value)}; it must be -1, 0 or 1")
    return int(float(value))


def _time(cells: Mapping[str, str], column: str) -> datetime:
    value = _text(cells, column).strip()
    try:
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRecord(f"{column} is {quote(value)}; ISO 8601 such as 2019-05-29T21:36:04+00:00 is needed") from None


def _number(cells: Mapping[str, str], column: str | None) -> float | None:
    value = _text(cells, column).strip()
    if is_missing(value):
        return None
    try:
        found = (
            math.nan if "_" in value else float(value.replace(",", ".") if DECIMAL_COMMA.fullmatch(value) else value)
        )
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadRecord(f"{column} is {quote(value)}; a number is needed")
    return int(found) if found.is_integer() else found


def has_columns(head: str, needed: Iterable[str]) -> bool:
    """Return True if the first line names these columns."""
    first = next(csv.reader(head.splitlines()[:1], delimiter=delimiter_of(head)), [])
    return set(needed) <= {cell.strip() for cell in first}
