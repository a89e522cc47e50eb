"""Format of tables whose columns have roles.

A row is a message (`speaker`, `text`), an exchange (`human`, `reply`), or the rating of a previously imported
conversation. Rows can be in any order; they are sorted in a temporary database on disk to limit memory use. An
unreadable row causes its whole chat to be skipped, because the chat would have a gap. An unreadable answer is skipped
alone. Messages that are repeated for each rater are read once.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from chatbots.compressed_files import is_zip
from chatbots.text import quote
from evaluation.data.formats.answer_cells import AnswerReading, ColumnProfile, comma_of
from evaluation.data.formats.base import (
    MAX_BOT_CHARS,
    MAX_ID_CHARS,
    BadRecord,
    FileFormat,
    Note,
    Record,
    RecordRating,
    Skipped,
    condition_read,
    normal_name,
    register_format,
    text_problem,
)
from evaluation.data.formats.chat_rows import ChatRow, read_chat, split_by_bot
from evaluation.data.formats.csv_roles import (
    QUESTION,
    CsvLayout,
    guess_roles,
    is_exported,
    profiles_of,
    role_named,
    roles_by_column,
    why_no_question,
)
from evaluation.data.formats.jsonl import JsonRecords, is_unknown_table
from evaluation.data.formats.mapping import SPEAKER_ROLES, UNNAMED_BOT, FileMapping, guess_speakers, speaker_key
from evaluation.data.formats.table_rows import (
    BrokenRow,
    CsvRows,
    cells_within,
    csv_rows,
    head_of_rows,
    head_rows,
    table_notes,
)
from evaluation.data.formats.tables import is_missing
from evaluation.data.formats.text_files import format_for, head_of, is_parquet, is_xlsx, shape_of

_ROUNDED = re.compile(r"[-+]?\d(?:[.,]\d+)?e\+?\d+|\d{15}000\d*", re.IGNORECASE)
"""Ids that a spreadsheet has rounded: 1.23457E+15, or zeros after fifteen digits."""
_READ_HERE = (
    "name its columns with --column ROLE=NAME (in a notebook: columns={NAME: ROLE}), or choose them on the page Import"
)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Layout of a table, parsing rules of its answer columns, and guesses."""

    layout: CsvLayout
    readings: Mapping[str, AnswerReading]
    notes: tuple[Note, ...]
    header: tuple[str, ...]
    speakers: Mapping[str, str]


@register_format
class CsvColumns:
    """Table with a header.

    Each column has its chosen role, or the one suggested by its name.
    """

    name = "csv"
    title = "Table with a header (CSV, Parquet, JSON): a row per message, per exchange or per rating"
    loses = "columns without a role, ratings of single replies, formatting of cells, all sheets but the first"
    known_columns: frozenset[str] = frozenset()
    """Columns of the format itself, which need no note."""

    def __init__(
        self,
        roles: Mapping[str, str] | None = None,
        chosen: Mapping[str, str] | None = None,
        mapping: FileMapping | None = None,
    ) -> None:
        self._roles = roles
        self._chosen = roles if chosen is None else chosen
        self.mapping = mapping or FileMapping()

    def mapped(self, mapping: FileMapping) -> CsvColumns:
        """Return the format with this mapping."""
        return type(self)(self._roles, self._chosen, mapping)

    def recognises(self, head: str) -> bool:
        return not self._problem(head)

    def why_not(self, head: str) -> str:
        """Explain why a table cannot be read unchanged; empty if no table."""
        header, _rows = head_of_rows(head)
        if len(header) < 2 or head.lstrip()[:1] in ("{", "["):
            return ""
        columns_text = ", ".join(quote(name, 30) for name in header[:12]) + ", …" * (len(header) > 12)
        return f"{self._problem(head)}; it has the columns {columns_text}: {_READ_HERE}"

    def _problem(self, head: str) -> str:
        header, rows = head_of_rows(head)
        if len(header) < 2:
            return "it has one column"
        if twice := next((name for i, name in enumerate(header) if name in header[:i]), None):
            return f"two columns are called {quote(twice)}"
        try:
            layout = CsvLayout.from_roles(guess_roles(profiles_of(header, rows)))
        except ValueError as error:
            return str(error)
        return "" if layout.has_texts or "rater" in layout.columns else "no column contains texts or raters"

    def roles(self, path: Path) -> Mapping[str, str]:
        """Return the role of each column."""
        return guess_roles(_profiles(path, None)) if self._roles is None else self._roles

    def reply_text(self, text: str) -> str:
        """Return a bot's text in stored form."""
        return text

    def read(self, path: Path, most_rows: int | None = None) -> Iterator[Record | Skipped | Note]:
        """Yield the file's records after sorting its rows on disk.

        Args:
            most_rows: maximum number of rows to read; None: all.

        Raises:
            ValueError: if the columns cannot have these roles.
        """
        columns = self._columns(path, most_rows)
        yield from columns.notes
        with tempfile.TemporaryDirectory() as folder:
            store = sqlite3.connect(Path(folder) / "rows.sqlite3")
            try:
                rows = islice(csv_rows(path), most_rows)
                if columns.layout.has_texts:
                    yield from self._conversations(rows, columns, store, path)
                else:
                    yield from self._ratings(rows, columns, store)
            finally:
                store.close()

    def _columns(self, path: Path, most_rows: int | None) -> _Columns:
        """Profile the columns and note all guesses."""
        roles = self.roles(path)
        layout = CsvLayout.from_roles(roles, has_bot=bool(self.mapping.bot))
        profiles = _profiles(path, most_rows)
        comma = comma_of(
            (profiles[column] for column in layout.questions if column in profiles),
            "," if is_parquet(path) else shape_of(head_of(path)).delimiter,
        )
        notes = table_notes(path)
        if not any(True for _row in islice(csv_rows(path), 1)):
            notes.append(Note("The file has a header but no rows"))
        readings = {}
        for column in layout.questions:
            profile = profiles.get(column, ColumnProfile())
            readings[column] = profile.reading(column, comma)
            notes += map(Note, readings[column].notes)
        known = {*(self._chosen or ()), *self.known_columns}
        if questions := [column for column in layout.questions if column not in known]:
            notes.append(Note(f"Columns read as answers to questions: {', '.join(map(quote, questions))}"))
        if layout.has_texts and "bot" not in layout.columns:
            notes.append(Note(f"No column names the bot; all conversations belong to {quote(self._bot())}"))
        speakers = self.speakers(path)
        if guessed := [name for name, role in speakers.items() if role and speaker_key(name) not in SPEAKER_ROLES]:
            roles_text = ", ".join(f"{quote(name)} is the {speakers[name]}" for name in guessed)
            notes.append(Note(f"Speakers guessed from the file: {roles_text}"))
        if left_out := [name for name, role in speakers.items() if not role]:
            notes.append(Note(f"Messages of these speakers are left out: {', '.join(map(quote, left_out))}"))
        used = {
            *self.known_columns,
            *layout.questions,
            *(column for _side, column in layout.wide),
            *layout.columns.values(),
            *layout.conditions,
            *(self._chosen or ()),
        }
        exported = []
        for column, profile in profiles.items():
            if column in used or not (profile.n_given or profile.missing):
                continue
            if is_exported(column):
                exported.append(column)
                continue
            reason = why_no_question(column, profile, profiles.keys()) or "it has no role"
            odd = profile.first_odd() or profile.first.get("plain")
            example = f"; its first cell is {quote(odd[1], 40)}" if odd and quote(odd[1], 40) not in reason else ""
            notes.append(Note(f"Column {quote(column)} is not used: {reason}{example}"))
        if exported:
            notes.append(Note(f"Columns of Confab's exports that are not used: {', '.join(exported)}"))
        return _Columns(layout, readings, tuple(notes), tuple(profiles), speakers)

    def _bot(self) -> str:
        return self.mapping.bot or UNNAMED_BOT

    def speakers(self, path: Path) -> dict[str, str]:
        """Return the role of each speaker of a table with a row per message."""
        column = next((name for name, role in self.roles(path).items() if role_named(role) == "speaker"), None)
        if column is None:
            return {}
        names = dict.fromkeys(cell.strip() for cell in _profiles(path, None)[column].cells)
        return {**guess_speakers(names), **{n: r for n, r in self.mapping.speakers.items() if n in names}}

    def _conversations(
        self, rows: CsvRows, columns: _Columns, store: sqlite3.Connection, path: Path
    ) -> Iterator[Record | Skipped | Note]:
        store.execute("CREATE TABLE rows (chat TEXT, turn REAL, at TEXT, line INTEGER, cells TEXT)")
        store.execute("CREATE TABLE bad (chat TEXT PRIMARY KEY)")
        broken: list[tuple[BrokenRow, set[str]]] = []
        before, is_behind_broken = "", False
        for item in rows:
            if isinstance(item, BrokenRow):
                broken.append((item, {before} - {""}))
                is_behind_broken = True
                continue
            if isinstance(item, Skipped):
                yield item
                continue
            line, cells = item
            chat = ""
            problems: list[Skipped] = []
            try:
                has_id = "conversation" in columns.layout.columns
                chat = _id(cells, columns.layout.columns["conversation"], MAX_ID_CHARS) if has_id else str(line - 1)
                row = self._row(line, cells, columns, problems)
                if row is None:
                    continue
            except BadRecord as error:
                yield Skipped(line, f"{error}{'; its chat is skipped' if chat else ''}")
                if chat:
                    store.execute("INSERT OR IGNORE INTO bad VALUES (?)", [chat])
                continue
            yield from problems
            if is_behind_broken:
                broken[-1][1].add(chat)
            before, is_behind_broken = chat, False
            values = [chat, row.turn or 0, row.timestamp, line, json.dumps([getattr(row, name) for name in _STORED])]
            store.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", values)
        store.execute("CREATE INDEX by_chat ON rows (chat, turn, at, line)")
        place = columns.header.index(columns.layout.columns.get("conversation", columns.header[0]))
        for row_broken, around in broken:
            yield from _mark_broken(store, row_broken, around, place, len(columns.header), path)
        stored_rows = store.execute(
            "SELECT chat, line, cells, rowid FROM rows WHERE chat NOT IN (SELECT chat FROM bad) "
            "ORDER BY chat, turn, at, line"
        )
        n_joined = n_doubtful = 0
        for chat, chat_group in groupby(stored_rows, key=lambda row: row[0]):
            chat_rows = [_stored_row(line, number, json.loads(cells)) for _, line, cells, number in chat_group]
            for rows_of_bot in split_by_bot(chat_rows):
                reading = read_chat(chat, rows_of_bot, columns.layout.columns.get("turn", ""))
                yield from reading.skipped
                n_joined += reading.is_joined
                n_doubtful += reading.may_be_joined
                if reading.record is not None:
                    yield reading.record
        if n_joined:
            yield Note(f"{_chats(n_joined)} a row per message and rater; each message is read once")
        if n_doubtful:
            yield Note(f"{_chats(n_doubtful)} repeated messages with the same answers; all are kept")

    def _ratings(
        self, rows: CsvRows, columns: _Columns, store: sqlite3.Connection
    ) -> Iterator[Record | Skipped | Note]:
        layout = columns.layout
        store.execute("CREATE TABLE rows (chat TEXT, bot TEXT, rater TEXT, at TEXT, line INTEGER, cells TEXT)")
        target_counts: Counter[str] = Counter()
        for item in rows:
            if isinstance(item, Skipped):
                yield item
                continue
            line, cells = item
            target = cells.get("target", "conversation")
            if target != "conversation" and "target" not in layout.columns.values():
                target_counts[target] += 1
                continue
            problems: list[Skipped] = []
            try:
                chat = _id(cells, layout.columns["conversation"], MAX_ID_CHARS)
                bot = normal_name(_text(cells, layout.columns.get("bot")).strip())
                rating = _rating_cells(line, cells, columns, problems)
            except BadRecord as error:
                yield Skipped(line, str(error))
                continue
            yield from problems
            values = [chat, bot, rating["rater"], rating["timestamp"], line, json.dumps(rating)]
            store.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", values)
        if target_counts:
            targets_text = ", ".join(f"{n} of {quote(target)}" for target, n in target_counts.items())
            yield Note(f"Skipped ratings of things other than conversations: {targets_text}")
        stored_rows = store.execute("SELECT * FROM rows ORDER BY chat, bot, rater, at, line")
        # Each row without a rater name counts as a different rater.
        for (chat, bot, _rater), rater_rows in groupby(stored_rows, key=lambda row: (*row[:2], row[2] or row[4])):
            *earlier, last = rater_rows
            for row in earlier:
                yield Skipped(row[4], f"rated again in line {last[4]}; the last rating counts")
            own_rating = _rating(json.loads(last[5]))
            yield Record(line=last[4], dialogue_id=chat, bot=bot, ratings=(own_rating,), ratings_only=True)

    def _row(self, line: int, cells: Mapping[str, str], table: _Columns, problems: list[Skipped]) -> ChatRow | None:
        """Return a row; None if its speaker is left out."""
        columns = table.layout.columns
        vote = _vote(cells, columns.get("vote"))
        if table.layout.wide:
            turns = [(side, _text(cells, column)) for side, column in table.layout.wide]
        elif "text" in columns:
            speaker = table.speakers.get(_text(cells, columns["speaker"]).strip())
            if speaker == "":
                return None
            if speaker is None:
                speaker_text = quote(cells[columns["speaker"]])
                raise BadRecord(f"{columns['speaker']} is {speaker_text}; it must be human or bot")
            turns = [(speaker, _text(cells, columns["text"]))]
            if vote and speaker == "human":
                raise BadRecord(f"{columns['vote']} is {vote} on a human turn; only bot turns have votes")
        else:
            turns = [("human", _text(cells, columns.get("human"))), ("bot", _text(cells, columns.get("reply")))]
        utterances = [
            (turn_speaker, text if turn_speaker == "human" else self.reply_text(text))
            for turn_speaker, text in turns
            if text
        ]
        if not utterances:
            names = [columns[role] for role in ("text", "human", "reply") if role in columns]
            raise BadRecord(f"{' and '.join(names)} {'are both' if len(names) > 1 else 'is'} empty")
        return ChatRow(
            line,
            bot=_id(cells, columns["bot"], MAX_BOT_CHARS) if "bot" in columns else self._bot(),
            utterances=tuple(
                (turn_speaker, text, vote if turn_speaker == "bot" else 0) for turn_speaker, text in utterances
            ),
            turn=_turn_number(cells, columns["turn"]) if "turn" in columns else None,
            condition=condition_read({column: cells[column].strip() for column in table.layout.conditions}),
            **_rating_cells(line, cells, table, problems),
        )


_STORED = ("bot", "utterances", "turn", "timestamp", "rater", "answers", "comment", "condition")


def _stored_row(line: int, number: int, values: Sequence[Any]) -> ChatRow:
    row = ChatRow(line, number=number, **dict(zip(_STORED, values, strict=True)))
    return replace(row, utterances=tuple((speaker, text, vote) for speaker, text, vote in row.utterances))


def _chats(n: int) -> str:
    return "One chat has" if n == 1 else f"{n} chats have"


def _mark_broken(
    store: sqlite3.Connection, row: BrokenRow, around: set[str], place: int, n_cells: int, path: Path
) -> Iterator[Skipped]:
    """Skip the chats that a broken row may belong to, with a note."""
    candidates = cells_within(row.text, place, n_cells, shape_of(head_of(path)).delimiter)
    known = {chat for chat in candidates if store.execute("SELECT 1 FROM rows WHERE chat = ?", [chat]).fetchone()}
    chats = known or around
    store.executemany("INSERT OR IGNORE INTO bad VALUES (?)", [[chat] for chat in chats])
    names = ", ".join(quote(chat) for chat in sorted(chats)[:5]) + ", …" * (len(chats) > 5)
    omission_text = (
        f"chat {names} is skipped" if known else f"its chat is unknown, so adjacent chats are skipped: {names}"
    )
    yield Skipped(row.line, f"{row.reason}; {omission_text}" if chats else row.reason)


def suggested_roles(path: Path) -> tuple[Mapping[str, str], bool] | None:
    """Guess each column's role; None if the file is not a table.

    Returns:
        The roles by column, and True if they suffice to read the file.

    Raises:
        ValueError: as `head_rows`.
    """
    if is_zip(path) and not is_xlsx(path):
        return None
    try:
        file_format = format_for(path)
    except ValueError:
        head_rows(path)
        return guess_roles(_profiles(path, None)), False
    if isinstance(file_format, CsvColumns):
        return file_format.roles(path), True
    if isinstance(file_format, JsonRecords) and is_unknown_table(path):
        head_rows(path)
        return guess_roles(_profiles(path, None)), False
    return None


def mapped_format(path: Path, mapping: FileMapping) -> FileFormat:
    """Return the reader of a file with the researcher's mapping.

    Raises:
        ValueError: if no format recognises the file, or as `table_format`.
    """
    if mapping.columns is not None:
        return table_format(path, mapping.columns, mapping)
    try:
        return format_for(path, mapping)
    except ValueError:
        if not mapping.bot:
            raise
        return table_format(path, {}, mapping)


def table_format(
    path: Path, chosen: Mapping[str, str | Sequence[str]], mapping: FileMapping | None = None
) -> CsvColumns:
    """Return a table's reader with some roles chosen and the others guessed.

    Args:
        path: file of the table.
        chosen: role by column, or column by role.
        mapping: further decisions.

    Raises:
        ValueError: if the file is not a table, a chosen column is missing, or a role is unknown.
    """
    suggestion = suggested_roles(path)
    if suggestion is None:
        raise ValueError(f"{path.name} is not a CSV file, so its columns cannot be named")
    roles, _is_known = suggestion
    chosen_roles = roles_by_column(chosen, list(roles), path.name)
    taken_roles = set(chosen_roles.values()) - {QUESTION}
    return CsvColumns(
        {column: chosen_roles.get(column, "" if role in taken_roles else role) for column, role in roles.items()},
        chosen_roles,
        mapping,
    )


def _profiles(path: Path, most_rows: int | None) -> dict[str, ColumnProfile]:
    stat = path.stat()
    return _profiled(path, most_rows, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4)
def _profiled(path: Path, most_rows: int | None, _n_bytes: int, _changed_at: int) -> dict[str, ColumnProfile]:
    """Profile each column."""
    header, _rows = head_rows(path)
    profiles = {column: ColumnProfile() for column in header}
    for item in islice(csv_rows(path), most_rows):
        if not isinstance(item, Skipped):
            line, cells = item
            for column, cell in cells.items():
                profiles[column].add(line, cell)
    return profiles


def _rating_cells(line: int, cells: Mapping[str, str], table: _Columns, problems: list[Skipped]) -> dict[str, Any]:
    """Return the fields of a rating, collecting unreadable answers as problems."""
    columns = table.layout.columns
    answers = {}
    for column, key in table.layout.questions.items():
        try:
            value = table.readings[column].number(_text(cells, column), column)
        except BadRecord as error:
            problems.append(Skipped(line, f"{error}; this answer is skipped"))
        else:
            if value is not None:
                answers[key] = value
    rater = normal_name(_text(cells, columns.get("rater")).strip())[: MAX_ID_CHARS - 10]
    if _ROUNDED.fullmatch(rater):
        problems.append(Skipped(line, f"{_rounded(columns['rater'], rater)}; its answers are skipped"))
        answers, rater = {}, ""
    return {
        "answers": answers,
        "comment": _text(cells, columns.get("comment")),
        "rater": "" if is_missing(rater) else rater,
        "timestamp": _time(cells, columns["time"]).isoformat(timespec="microseconds") if "time" in columns else "",
    }


def _rounded(column: str, value: str) -> str:
    return f"{column} is {quote(value)}, an id that a spreadsheet has rounded; save the column as text"


def _rating(row: Mapping[str, Any]) -> RecordRating:
    submitted_at = datetime.fromisoformat(row["timestamp"]) if row["timestamp"] else None
    return RecordRating(row["answers"], rater=row["rater"], comment=row["comment"], submitted_at=submitted_at)


def _text(cells: Mapping[str, str], column: str | None) -> str:
    value = "" if column is None else cells.get(column, "")
    problem = text_problem(value)
    if problem:
        raise BadRecord(f"{column} {problem}")
    return value


def _id(cells: Mapping[str, str], column: str, limit: int) -> str:
    value = normal_name(_text(cells, column).strip())
    if not value:
        raise BadRecord(f"{column} is empty")
    if len(value) > limit:
        raise BadRecord(f"{column} has {len(value)} characters; at most {limit} are allowed")
    if _ROUNDED.fullmatch(value):
        raise BadRecord(_rounded(column, value))
    return value


def _vote(cells: Mapping[str, str], column: str | None) -> int:
    value = _text(cells, column).strip()
    if is_missing(value):
        return 0
    if value.removesuffix(".0") not in ("-1", "0", "1"):
        raise BadRecord(f"{column} is {quote(value)}; it must be -1, 0 or 1")
    return int(float(value))


def _turn_number(cells: Mapping[str, str], column: str) -> float:
    return AnswerReading().number(_text(cells, column), column) or 0


def _time(cells: Mapping[str, str], column: str) -> datetime:
    value = _text(cells, column).strip()
    try:
        timestamp = datetime.fromisoformat(value)
        return (timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRecord(
            f"{column} is {quote(value)}; it must be in ISO 8601, such as 2019-05-29T21:36:04+00:00"
        ) from None
