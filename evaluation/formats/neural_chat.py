"""The two CSV files that the 2019 Neural Chat server exports.

The headers are exact and ordered. Selfplay fact sheet, section 8.3. Written by
`webapp/transfer/exporters/neural_chat_2019.py` and `chat_ratings.py`, read here.

`chatrecords.csv` has one exchange per row, in any order: the rows are sorted in a temporary database on
disk, so that memory stays small. A leading emoji of a response was put there by the server and is taken
off. A chat of which one row cannot be read is left out as a whole, for it would have a hole.
`chat_ratings.csv` has ratings only; it adds to chats imported before.
"""

from __future__ import annotations

import csv
import json
import math
import sqlite3
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from chatbots import Turn
from chatbots.text import quote
from evaluation.formats.base import (
    MAX_BOT_CHARS,
    MAX_ID_CHARS,
    BadRecord,
    Record,
    RecordRating,
    Skipped,
    register_format,
    text_problem,
)
from evaluation.formats.tables import unescape_cell
from evaluation.formats.text_files import MAX_LINE_BYTES, byte_lines, delimiter_of, head_of

# The layout has room for these dimensions only, in the two orders below.
RECORD_DIMENSIONS = ("quality", "fluency", "coherency", "diversity", "contingency", "empathy")
RATING_DIMENSIONS = ("quality", "coherency", "fluency", "diversity", "contingency", "empathy")

RECORD_HEADER = (
    "ID",
    "Chat ID",
    "Datetime",
    "Chatbot ID",
    "Message",
    "Response",
    "Bot Input",
    "Study Key",
    "User Session Key",
    "Response Rating",
    *(f"Chat Rating {name.capitalize()}" for name in RECORD_DIMENSIONS),
    "Chat Rating Comments",
)
RATING_HEADER = (
    "ID",
    "Chat ID",
    "Datetime",
    "Chatbot ID",
    "User Session Key",
    *(name.capitalize() for name in RATING_DIMENSIONS),
    "Comments",
    "Chat Length",
    "MTurk Code",
    "MTurk User ID",
    "Study Key",
)
BOT_INPUT_WINDOW = 5


_NEEDED_FOR_RECORDS = {"Chat ID", "Datetime", "Chatbot ID", "Message", "Response"}
_NEEDED_FOR_RATINGS = {"Chat ID", "Datetime", "Quality"}


class _NeuralChat:
    header: tuple[str, ...]

    def recognises(self, head: str) -> bool:
        first = next(csv.reader(head.splitlines()[:1], delimiter=delimiter_of(head)), [])
        return set(self.needed) <= {cell.strip() for cell in first}

    needed: set[str]

    def read(self, path: Path) -> Iterator[Record | Skipped]:
        """Yield the file's records. Its rows come in any order, so they are sorted on disk first."""
        with tempfile.TemporaryDirectory() as folder:
            store = sqlite3.connect(Path(folder) / "rows.sqlite3")
            try:
                yield from self._read(path, store)
            finally:
                store.close()

    def _read(self, path: Path, store: sqlite3.Connection) -> Iterator[Record | Skipped]:
        """Sort the rows in `store`, and make records of them."""
        raise NotImplementedError

    def rows(self, path: Path) -> Iterator[tuple[int, dict[str, str]] | Skipped]:
        """Yield (line, cells by header) of every row; `Skipped` for one that is not a row of this table."""
        csv.field_size_limit(MAX_LINE_BYTES)
        damage: list[Skipped] = []
        reader = csv.reader(_texts(path, damage), delimiter=delimiter_of(head_of(path)))
        header: list[str] = []
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                yield Skipped(reader.line_num, f"not CSV: {error}")
                continue
            if not cells:
                continue
            if not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) != len(header):
                yield Skipped(reader.line_num, f"the row has {len(cells)} cells; the header has {len(header)}")
            else:
                yield reader.line_num, dict(zip(header, map(unescape_cell, cells), strict=True))
        yield from damage


@register_format
class NeuralChatRecords(_NeuralChat):
    """One row per exchange."""

    name = "chatrecords"
    title = "chatrecords.csv of the 2019 Neural Chat server"
    header = RECORD_HEADER
    needed = _NEEDED_FOR_RECORDS

    def _read(self, path: Path, store: sqlite3.Connection) -> Iterator[Record | Skipped]:
        store.execute("CREATE TABLE rows (chat TEXT, at TEXT, line INTEGER, cells TEXT)")
        store.execute("CREATE TABLE bad (chat TEXT PRIMARY KEY)")
        for item in self.rows(path):
            if isinstance(item, Skipped):
                yield item
                continue
            line, cells = item
            chat = ""
            try:
                chat = _id(cells, "Chat ID", MAX_ID_CHARS)
                exchange = _exchange(cells)
            except BadRecord as error:
                yield Skipped(line, f"{error}{'; its chat is left out' if chat else ''}")
                if chat:
                    store.execute("INSERT OR IGNORE INTO bad VALUES (?)", [chat])
                continue
            values = [chat, exchange["at"], line, json.dumps(exchange)]
            store.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", values)
        store.execute("CREATE INDEX by_chat ON rows (chat, at, line)")
        found = store.execute(
            "SELECT chat, line, cells FROM rows WHERE chat NOT IN (SELECT chat FROM bad) ORDER BY chat, at, line"
        )
        for chat, rows in groupby(found, key=lambda row: row[0]):
            exchanges = [(line, json.loads(cells)) for _, line, cells in rows]
            yield _record(chat, exchanges)


@register_format
class NeuralChatRatings(_NeuralChat):
    """One row per submitted rating."""

    name = "chat_ratings"
    title = "chat_ratings.csv of the 2019 Neural Chat server"
    header = RATING_HEADER
    needed = _NEEDED_FOR_RATINGS

    def _read(self, path: Path, store: sqlite3.Connection) -> Iterator[Record | Skipped]:
        store.execute("CREATE TABLE rows (chat TEXT, bot TEXT, rater TEXT, at TEXT, line INTEGER, cells TEXT)")
        for item in self.rows(path):
            if isinstance(item, Skipped):
                yield item
                continue
            line, cells = item
            try:
                values = [
                    _id(cells, "Chat ID", MAX_ID_CHARS),
                    _text(cells, "Chatbot ID").strip(),
                    _text(cells, "User Session Key").strip()[: MAX_ID_CHARS - 10],
                    _time(cells).isoformat(timespec="microseconds"),
                    line,
                    json.dumps(_rating_cells(cells)),
                ]
            except BadRecord as error:
                yield Skipped(line, str(error))
                continue
            store.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
        found = store.execute("SELECT * FROM rows ORDER BY chat, bot, rater, at, line")
        for (chat, bot, rater), rows in groupby(found, key=lambda row: row[:3]):
            *earlier, last = rows
            *_, at, line, cells = last
            for row in earlier:
                yield Skipped(row[4], f"rated again in line {line}; the last rating counts")
            yield Record(
                line=line,
                dialogue_id=chat,
                bot=bot,
                ratings=(RecordRating(**json.loads(cells), rater=rater, submitted_at=datetime.fromisoformat(at)),),
                ratings_only=True,
            )


def _rating_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    answers = {name: _number(cells, name.capitalize()) for name in RATING_DIMENSIONS}
    return {
        "answers": {name: value for name, value in answers.items() if value is not None},
        "comment": _text(cells, "Comments"),
    }


def _texts(path: Path, damage: list[Skipped]) -> Iterator[str]:
    """Yield lines for the CSV reader; bytes that are not UTF-8 become surrogates, which `text_problem` finds later."""
    for item in byte_lines(path):
        if isinstance(item, Skipped):
            damage.append(item)
        else:
            yield item[1].decode("utf-8", errors="surrogateescape")


def _exchange(cells: Mapping[str, str]) -> dict[str, Any]:
    vote = _text(cells, "Response Rating").strip() or "0"
    if vote not in ("-1", "0", "1"):
        raise BadRecord(f"Response Rating is {quote(vote)}; it must be -1, 0 or 1")
    message, response = _text(cells, "Message"), _without_emoji(_text(cells, "Response"))
    if not message and not response:
        raise BadRecord("Message and Response are both empty")
    return {
        "at": _time(cells).isoformat(timespec="microseconds"),
        "bot": _id(cells, "Chatbot ID", MAX_BOT_CHARS),
        "message": message,
        "response": response,
        "vote": int(vote),
        "session": _text(cells, "User Session Key").strip()[: MAX_ID_CHARS - 10],
        "answers": {
            name: value
            for name in RECORD_DIMENSIONS
            if (value := _number(cells, f"Chat Rating {name.capitalize()}")) is not None
        },
        "comment": _text(cells, "Chat Rating Comments"),
    }


def _record(chat: str, exchanges: list[tuple[int, dict[str, Any]]]) -> Record | Skipped:
    line = exchanges[0][0]
    bots = sorted({exchange["bot"] for _, exchange in exchanges})
    if len(bots) > 1:
        return Skipped(line, f"chat {quote(chat)} has more than one Chatbot ID: {', '.join(bots)}")
    turns: list[Turn] = []
    times: list[datetime] = []
    for _, exchange in exchanges:
        if exchange["message"]:
            turns.append(Turn("human", exchange["message"]))
        if exchange["response"]:
            turns.append(Turn("bot", exchange["response"], exchange["vote"]))
        times.extend([datetime.fromisoformat(exchange["at"])] * (len(turns) - len(times)))
    rated = [exchange for _, exchange in exchanges if exchange["answers"]]
    ratings = [
        RecordRating(
            row["answers"], rater=row["session"], comment=row["comment"], submitted_at=datetime.fromisoformat(row["at"])
        )
        for row in rated[-1:]  # the same on every row of the chat
    ]
    return Record(
        line=line, dialogue_id=chat, bot=bots[0], turns=tuple(turns), times=tuple(times), ratings=tuple(ratings)
    )


def _without_emoji(text: str) -> str:
    """Remove the emoji (and the blank) that the server put before a response.

    A response of nothing else stays as it is.
    """
    rest = text.lstrip()
    while rest and (
        (ord(rest[0]) >= 0x2000 and unicodedata.category(rest[0]) in ("So", "Sk")) or rest[0] in "\ufe0f\u200d"
    ):
        rest = rest[1:].lstrip(" ")
    return rest if rest and rest != text.lstrip() else text


def _text(cells: Mapping[str, str], column: str) -> str:
    value = cells.get(column, "")
    problem = text_problem(value)
    if problem:
        raise BadRecord(f"{column} {problem}")
    return value


def _id(cells: Mapping[str, str], column: str, limit: int) -> str:
    value = _text(cells, column).strip()
    if not value:
        raise BadRecord(f"{column} is empty")
    if len(value) > limit:
        raise BadRecord(f"{column} has {len(value)} characters; at most {limit} are possible")
    return value


def _time(cells: Mapping[str, str]) -> datetime:
    value = _text(cells, "Datetime").strip()
    try:
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRecord(f"Datetime is {quote(value)}; ISO 8601 such as 2019-05-29T21:36:04+00:00 is needed") from None


def _number(cells: Mapping[str, str], column: str) -> float | None:
    value = _text(cells, column).strip()
    if not value or value.lower() == "none":
        return None
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadRecord(f"{column} is {quote(value)}; a number is needed")
    return int(found) if found.is_integer() else found
