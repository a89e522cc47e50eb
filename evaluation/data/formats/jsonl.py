"""Format of conversations with ratings as JSON Lines (`.jsonl`, `.jsonl.gz`).

    {"dialogue_id": "…", "bot": "…", "source": "…",
     "turns": [{"speaker": "human"|"bot", "text": "…", "vote": -1|0|1}],
     "ratings": [{"rater": "…", "quality": 5, …}]}

`"meta": {"degraded_control": true}` marks a bot as a deliberately degraded control. `"condition_scenario": "trip"`
gives the conversation's level of a factor. Other keys (`turn_rating`, …) are ignored. Speakers need not alternate. A
rating's rater and dimensions can be missing or null, a rater can have several ratings, and `comment` can contain a
text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from chatbots import Turn
from chatbots.text import error_text, quote, sanitise
from evaluation.data.formats.base import (
    MAX_BOT_CHARS,
    MAX_DIMENSION_CHARS,
    MAX_ID_CHARS,
    BadRecord,
    Note,
    Record,
    RecordRating,
    Skipped,
    condition_read,
    normal_name,
    register_format,
    text_problem,
)
from evaluation.data.formats.foreign import foreign_hint
from evaluation.data.formats.mapping import HUMAN, UNNAMED_BOT, FileMapping, guess_speakers
from evaluation.data.formats.messages import Message, is_message_list
from evaluation.data.formats.record_formats import (
    RecordFormat,
    RecordReading,
    count_formats,
    iterate_nested,
    recognise_record,
    record_formats,
    source_fields,
)
from evaluation.data.formats.text_files import encoding_note, is_array, json_values, plain_rows

_DIMENSION = re.compile(r"[a-z][a-z0-9_]*\Z")
_COMMENT_KEYS = ("comment", "comments")


@register_format
class JsonRecords:
    """JSON Lines, arrays and Parquet with one conversation per record, of Confab or another program."""

    name = "jsonl"
    title = "Confab's JSON Lines, one conversation each (.jsonl, .jsonl.gz)"
    loses = "keys other than those of the format"

    def __init__(self, mapping: FileMapping | None = None) -> None:
        self.mapping = mapping or FileMapping()
        self.losses: dict[str, str] = {}
        """Values that the last reading left out, by the formats of its records."""

    def mapped(self, mapping: FileMapping) -> JsonRecords:
        """Return the format with this mapping."""
        return type(self)(mapping)

    def recognises(self, head: str) -> bool:
        # The first line may be damaged, so one of the first few lines that looks like an object is enough.
        is_object = any(line.lstrip().startswith("{") for line in head.splitlines()[:20])
        return is_object or re.match(r"\s*\[\s*[\[{]", head) is not None

    def recognises_rows(self, rows: Sequence[Any]) -> bool:
        """Return True if most records are conversations, not rows of a table."""
        entries = [entry for row in rows for entry in _entries(row)]
        return 2 * sum(map(_is_conversation, entries)) > len(entries)

    def read(self, path: Path) -> Iterator[Record | Skipped | Note]:
        if guess := encoding_note(path):
            yield Note(guess)
        reading = RecordReading(self.mapping, lambda: guess_speakers(inspect_records(path).speakers))
        counts: Counter[str] = Counter()
        yield from _read_records(path, reading, counts)
        self.losses = _losses(counts)
        if counts.keys() - {NATIVE}:
            yield Note(f"Recognised: {count_formats(counts)}")
        if reading.unnamed:
            name = self.mapping.bot or UNNAMED_BOT
            subject = "1 conversation names" if reading.unnamed == 1 else f"{reading.unnamed:,} conversations name"
            yield Note(f"{subject} no bot; the bot is called {quote(name)}")
        if reading.guessed:
            roles_text = ", ".join(f"{quote(name)} is the {role}" for name, role in reading.guessed.items() if role)
            yield Note(f"Speakers guessed from the file: {roles_text}")


NATIVE = "Confab's JSON Lines"


def is_unknown_table(path: Path) -> bool:
    """Return True for JSON objects with single values, none of which is in a known format."""
    table = plain_rows(path)
    rows = islice(table[1], _FIRST_ROWS) if table is not None else ()
    return table is not None and not any(not isinstance(row, Skipped) and _is_conversation(("", row)) for row in rows)


_FIRST_ROWS = 50


@dataclass(frozen=True, slots=True)
class RecordInspection:
    """Formats and fields recognised in one pass over a file.

    Attributes:
        formats: number of records by format.
        losses: what the import leaves out, by format.
        speakers: names in the order in which they first occur.
        fields: single values that the import drops, with an example each.
        n_unread: number of records in no known format or with an error.
    """

    formats: Counter[str]
    losses: Mapping[str, str]
    speakers: tuple[str, ...]
    fields: Mapping[str, str]
    n_unread: int


@dataclass
class _SpeakerSurvey(RecordReading):
    """Reading that only collects the names of speakers."""

    names: dict[str, None] = field(default_factory=dict)

    def role(self, name: str, names: Iterable[str] = ()) -> str:
        return HUMAN

    def turns(self, messages: Sequence[Message], vote: Any = None) -> Any:
        self.names |= dict.fromkeys(message.speaker for message in messages if message.text.strip())
        return super().turns(messages, vote)


def inspect_records(path: Path) -> RecordInspection:
    """Return the formats and speakers of all records of a JSON or Parquet file."""
    stat = path.stat()
    return _inspected(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4)
def _inspected(path: Path, _n_bytes: int, _changed_at: int) -> RecordInspection:
    survey, counts, fields, n_unread = _SpeakerSurvey(FileMapping()), Counter[str](), dict[str, str](), 0
    for item in _read_records(path, survey, counts):
        n_unread += isinstance(item, Skipped)
    examples = (
        entry for item in islice(json_values(path), 50) if not isinstance(item, Skipped) for entry in _entries(item[1])
    )
    for _name, data in islice(examples, 200):
        if isinstance(data, dict) and not is_native(data):
            fields |= {name: str(value) for name, value in source_fields(data).items() if name not in fields}
    return RecordInspection(counts, _losses(counts), tuple(survey.names), fields, n_unread)


def _losses(counts: Mapping[str, int]) -> dict[str, str]:
    return {entry.title: entry.loses for entry in record_formats if entry.title in counts}


def is_native(data: Any) -> bool:
    """Return True for a record of Confab, even an invalid one."""
    if not isinstance(data, dict) or not isinstance(turns := data.get("turns"), list):
        return False
    first = turns[0] if turns else None
    return (not isinstance(first, dict) and "dialogue_id" in data) or (
        isinstance(first, dict) and "text" in first and first.get("speaker") in ("human", "bot")
    )


def _is_conversation(entry: tuple[str, Any]) -> bool:
    data = entry[1]
    if is_native(data):
        return True
    record_format = recognise_record(data)
    if record_format is None:
        return False
    is_flat = isinstance(data, dict) and not any(isinstance(value, dict | list) for value in data.values())
    return not (record_format.rank and (is_flat or isinstance(data.get("conversation"), str)))


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the records of a value of the file with their keys: itself, or those within an outer object."""
    if is_message_list(value):
        yield "", {"messages": value}
    elif is_native(value) or recognise_record(value) is not None or (nested := iterate_nested(value)) is None:
        yield "", value
    else:
        for key, entry in nested:
            yield key, {"messages": entry} if isinstance(entry, list) else entry


def _read_records(path: Path, reading: RecordReading, counts: Counter[str]) -> Iterator[Record | Skipped]:
    """Yield the records of a file, counting them by format."""
    in_array = is_array(path)
    known: dict[tuple[str, ...], RecordFormat | None] = {}
    group: list[Any] = []
    key_of_group: tuple[RecordFormat, str] | None = None
    n = 0
    for item in json_values(path):
        if isinstance(item, Skipped):
            n += 1
            yield item
            continue
        line, value = item
        shape = tuple(value) if isinstance(value, dict) else ()
        hint = known.get(shape)
        # A record with the keys of an earlier one is no outer object.
        is_known = hint is not None and hint.recognises(value)
        for key, data in [("", value)] if is_known else _entries(value):
            n += 1
            reading_place = (line, n, key)
            is_own = not is_known and is_native(data)
            record_format = None
            if not is_own and isinstance(data, dict):
                shape = tuple(data)
                record_format = hint if is_known else recognise_record(data, known.get(shape))
                if len(known) < _MOST_SHAPES:
                    known[shape] = record_format
            group_key = record_format.group(data) if record_format is not None else ""
            this_group = (record_format, group_key) if record_format is not None and group_key else None
            if group and this_group != key_of_group:
                yield from _convert(group, key_of_group[0], reading, counts, in_array)  # type: ignore[index]
                group = []
            key_of_group = this_group
            if this_group is not None and len(group) < _MOST_OF_GROUP:
                group.append((reading_place, data))
                continue
            yield from _convert([(reading_place, data)], record_format, reading, counts, in_array)
    if group:
        yield from _convert(group, key_of_group[0], reading, counts, in_array)  # type: ignore[index]


_MOST_SHAPES, _MOST_OF_GROUP = 1000, 5000


def _convert(
    places: Sequence[tuple[tuple[int, int, str], Any]],
    record_format: RecordFormat | None,
    reading: RecordReading,
    counts: Counter[str],
    in_array: bool,
) -> Iterator[Record | Skipped]:
    """Yield the conversations of one record or one group of records."""
    (reading.line, reading.number, reading.key), data = places[0]
    reading.group = [member for _place, member in places[1:]]
    try:
        if record_format is not None:
            yield from record_format.read(data, reading)
            counts[record_format.title] += len(places)
            return
        if reading.mapping.bot and is_native(data):
            data = {"bot": reading.mapping.bot, **data}
        yield record_of(data, line=reading.line)
        counts[NATIVE] += 1
    except BadRecord as error:
        yield Skipped(reading.line, f"record {reading.number}: {error}" if in_array or reading.key else str(error))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        title = record_format.title if record_format is not None else "JSON"
        yield Skipped(reading.line, f"record {reading.number} looks like {title}, but {_form_problem(error)}")


def _form_problem(error: Exception) -> str:
    """Return the problem of a record with keys of a format and other values, in words."""
    if isinstance(error, KeyError):
        return f"{quote(str(error.args[0]))} is missing in it"
    if isinstance(error, ValueError):
        return f"is invalid: {error_text(error)}"
    return "a value in it has another type than in this format, such as a text in place of a list"


def record_of(data: Any, *, line: int) -> Record:
    """Validate one object and convert it to a record.

    Raises:
        BadRecord: if it is invalid, with location, actual and expected value.
    """
    if not isinstance(data, dict):
        raise BadRecord(f"the line is {_kind(data)}; it must be an object {{…}}")
    if data.get("turns") is None:
        raise BadRecord(f"turns is missing{foreign_hint(data)}")
    turns = data["turns"]
    ratings = data.get("ratings")
    if not isinstance(turns, list) or not turns:
        raise BadRecord(f"turns is {_short(turns)}; it must be a list of at least one turn")
    if ratings is not None and not isinstance(ratings, list):
        raise BadRecord(f"ratings is {_short(ratings)}; it must be a list")
    record = Record(
        line=line,
        dialogue_id=_name(_required(data, "dialogue_id"), "dialogue_id", MAX_ID_CHARS),
        bot=_name(_required(data, "bot"), "bot", MAX_BOT_CHARS),
        source="" if data.get("source") in (None, "") else _name(data["source"], "source", 100),
        turns=tuple(_turn(turn, f"turns[{i}]") for i, turn in enumerate(turns)),
        ratings=tuple(_rating(r, f"ratings[{i}]") for i, r in enumerate(ratings or [])),
        flags=_flags(data.get("flags")),
        is_control=_is_control(data.get("meta")),
        condition=condition_read(data),
        meta=_fields(data.get("meta")),
    )
    if len(record.external_id) > MAX_ID_CHARS:
        raise BadRecord(
            f"dialogue_id and source have {len(record.external_id)} characters together; "
            f"at most {MAX_ID_CHARS} are allowed"
        )
    return record


def _flags(flags: Any) -> tuple[str, ...] | None:
    if flags is None:
        return None
    if not isinstance(flags, list) or not all(isinstance(name, str) for name in flags):
        raise BadRecord(f"flags is {_short(flags)}; it must be a list of names")
    return tuple(flags)


def _fields(meta: Any) -> dict[str, Any]:
    """Return the fields of `meta` with single values."""
    fields = meta.items() if isinstance(meta, dict) else ()
    return {name: value for name, value in fields if isinstance(value, str | int | float | bool)}


def _is_control(meta: Any) -> bool:
    return isinstance(meta, dict) and meta.get("degraded_control") is True


def _turn(data: Any, location: str) -> Turn:
    if not isinstance(data, dict):
        raise BadRecord(f"{location} is {_kind(data)}; it must be an object with speaker and text")
    speaker = data.get("speaker")
    if speaker is None and "role" in data:
        raise BadRecord(f"{location} has a role but no speaker, as in OpenAI's messages")
    if speaker not in ("human", "bot"):
        raise BadRecord(f"{location}.speaker is {_short(speaker)}; it must be 'human' or 'bot'")
    text = data.get("text")
    if not isinstance(text, str):
        raise BadRecord(f"{location}.text is {_short(text)}; it must be a text")
    _check_text(text, f"{location}.text")
    vote = data.get("vote")
    if vote is None:
        vote = 0
    if isinstance(vote, bool) or vote not in (-1, 0, 1):
        raise BadRecord(f"{location}.vote is {_short(vote)}; it must be -1, 0 or 1")
    if vote and speaker == "human":
        raise BadRecord(f"{location}.vote is {int(vote)} on a human turn; only bot turns have votes")
    return Turn(speaker, text, int(vote))


def _rating(data: Any, location: str) -> RecordRating:
    if not isinstance(data, dict):
        raise BadRecord(f"{location} is {_kind(data)}; it must be an object with dimensions")
    answers: dict[str, float] = {}
    rater = comment = ""
    for key, value in data.items():
        if key == "rater":
            rater = (
                "" if value in (None, "") or value != value else _name(value, f"{location}.rater", MAX_ID_CHARS - 10)
            )
        elif key in _COMMENT_KEYS and isinstance(value, str):
            _check_text(value, f"{location}.{key}")
            comment = value
        elif value is not None:
            dimension = dimension_key(key, location)
            if dimension in answers:
                raise BadRecord(f"{location} has {quote(key)} twice, in different spellings")
            answers[dimension] = number(value, f"{location}.{key}")
    return RecordRating(answers, rater=rater, comment=comment)


def dimension_key(key: str, location: str) -> str:
    """Normalise a dimension's key: lower case, with underscores.

    Raises:
        BadRecord: if it is not a valid key; the message describes the form.
    """
    dimension = re.sub(r"[\s-]+", "_", key.strip().lower())
    if not _DIMENSION.match(dimension) or len(dimension) > MAX_DIMENSION_CHARS:
        raise BadRecord(
            f"{location} has a dimension {_short(key)}; it must begin with a letter and contain only letters, digits "
            f"and _, at most {MAX_DIMENSION_CHARS}"
        )
    return dimension


def number(value: Any, location: str) -> float:
    """Return a finite number, whole ones as integers.

    Raises:
        BadRecord: if the value is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRecord(f"{location} is {_short(value)}; it must be a number")
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise BadRecord(f"{location} is {_short(value)}; it must be a finite number")
    return int(value) if float(value).is_integer() else float(value)


def _required(data: dict[str, Any], key: str) -> Any:
    if data.get(key) is None:
        raise BadRecord(f"{key} is missing")
    return data[key]


def _name(value: Any, location: str, limit: int) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadRecord(f"{location} is {_short(value)}; it must be a text")
    text = normal_name(str(value).strip())
    if not text:
        raise BadRecord(f"{location} is blank; it must be a text")
    if len(text) > limit:
        raise BadRecord(f"{location} has {len(text)} characters; at most {limit} are allowed")
    _check_text(text, location)
    return text


def _check_text(text: str, location: str) -> None:
    problem = text_problem(text)
    if problem:
        raise BadRecord(f"{location} {problem}")


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )


def _short(value: Any) -> str:
    """Return the value as in the file, shortened to one printable line."""
    return sanitise(json.dumps(value, ensure_ascii=False), 60)
