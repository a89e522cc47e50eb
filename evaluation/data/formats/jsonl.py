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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chatbots import Turn
from chatbots.text import error_text, quote, sanitise
from evaluation.data.formats.base import (
    MAX_BOT_CHARS,
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
from evaluation.data.formats.text_files import encoding_note, is_array, text_lines

MAX_DIMENSION_CHARS = 50
_DIMENSION = re.compile(r"[a-z][a-z0-9_]*\Z")
_COMMENT_KEYS = ("comment", "comments")


@register_format
class JsonLines:
    """JSON Lines, one conversation per line."""

    name = "jsonl"
    title = "JSON Lines, one conversation each (.jsonl, .jsonl.gz)"

    def recognises(self, head: str) -> bool:
        # The first line may be damaged, so one of the first few lines that looks like an object is enough.
        is_object = any(line.lstrip().startswith("{") for line in head.splitlines()[:20])
        return is_object or re.match(r"\s*\[\s*\{", head) is not None

    def read(self, path: Path) -> Iterator[Record | Skipped | Note]:
        if guess := encoding_note(path):
            yield Note(guess)
        in_array = is_array(path)
        for n, item in enumerate(text_lines(path), 1):
            if isinstance(item, Skipped):
                yield item
                continue
            number, text = item
            try:
                yield record_of(_parse(text), line=number)
            except BadRecord as error:
                yield Skipped(number, f"record {n}: {error}" if in_array else str(error))


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" at")  # suffix of some of the parser's messages
        raise BadRecord(f"not JSON: {problem} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadRecord("not a conversation: nested too deeply") from None
    except ValueError as error:  # an integer with thousands of digits
        raise BadRecord(f"not JSON: {error_text(error)}") from None


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
        raise BadRecord(f"{location} has a role but no speaker{foreign_hint({'messages': [data]})}")
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
