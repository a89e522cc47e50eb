"""Formats whose records are JSON objects: one class each, in `records/`.

A class recognises a record by its keys and converts it. It is used for JSON Lines, JSON arrays, JSON within an outer
object, and Parquet. `RecordReading` has what all of them need: the mapping of the file, names and ratings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, TypeGuard

from chatbots import Turn
from chatbots.registry import C, Registry
from chatbots.text import quote
from evaluation.data.formats.base import (
    CONDITION,
    MAX_BOT_CHARS,
    MAX_ID_CHARS,
    BadRecord,
    Record,
    RecordRating,
    normal_name,
    text_problem,
)
from evaluation.data.formats.csv_roles import question_key
from evaluation.data.formats.mapping import (
    BOT,
    LEFT_OUT,
    SPEAKER_ROLES,
    SYSTEM,
    UNNAMED_BOT,
    FileMapping,
    guess_speakers,
    speaker_key,
)
from evaluation.data.formats.messages import TEXT_KEYS, Message, is_message_list, read_messages, unpacked
from evaluation.data.formats.tables import is_missing

Data = Mapping[str, Any]
ID_KEYS = (
    *(
        "dialogue_id",
        "dialog_id",
        "dialogId",
        "conversation_id",
        "conv_id",
        "conversation_hash",
        "chat_id",
        "session_id",
    ),
    *("sessionId", "session-id", "external_id", "uuid", "_id", "id", "question_id", "key"),
)
BOT_KEYS = (
    "bot",
    "model",
    "model_name",
    "model_id",
    "model_slug",
    "system",
    "chatbot",
    "bot_id",
    "agent_name",
    "engine",
)
RATER_KEYS = (
    *(
        "rater",
        "rater_id",
        "annotator",
        "annotator_id",
        "user_id",
        "userId",
        "worker",
        "worker_id",
        "WorkerId",
        "judge",
    ),
    *("completed_by", "reviewer", "username"),
)
_SHOWN_FIELDS = ("role", "from", "speaker", "sender")
COMMENT_KEYS = ("comment", "comments", "explanation", "rationale", "feedback_text")
_ARE_NO_ANSWERS = {"id", "created_at", "updated_at", "lead_time", "timestamp", "time", "duration", "turn", "line"}
_WORDS = {"poor": 1, "not good": 2, "passable": 3, "good": 4, "excellent": 5}
"""Words of Topical-Chat's ratings."""


class RecordFormat:
    """Format of another program, one JSON object per conversation or judgement.

    Attributes:
        name: short name, for messages and options.
        title: name for pages.
        loses: what the import leaves out, for pages and the reference; a noun phrase.
        needs: keys of a record; `|` separates alternatives.
        rank: formats with a higher rank are tried later; 0 for those with keys of their own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    loses: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    rank: ClassVar[int] = 0

    def recognises(self, data: Data) -> bool:
        """Return True if a record is in this format."""
        return all(any(key in data for key in keys.split("|")) for keys in self.needs)

    def group(self, data: Data) -> str:
        """Return the key of a conversation spread over consecutive records; empty if it is one record."""
        return ""

    def read(self, data: Data, reading: RecordReading) -> Iterable[Record]:
        """Convert a record, or the first of a group (the others are in `reading.group`).

        Raises:
            BadRecord: if it is invalid.
        """
        raise NotImplementedError


record_formats: Registry[RecordFormat] = Registry("record format", "evaluation.data.formats.records")


def register_record_format(cls: C) -> C:
    """Register the decorated class, instantiated without arguments."""
    record_formats.register(cls)
    return cls


def recognise_record(data: Any, hint: RecordFormat | None = None) -> RecordFormat | None:
    """Return the format of a record, or None.

    Args:
        hint: format of an earlier record with the same keys.
    """
    if not isinstance(data, Mapping):
        return None
    if hint is not None and hint.recognises(data):
        return hint
    return next((entry for entry in _ordered_formats() if entry.recognises(data)), None)


@lru_cache(maxsize=1)
def _ordered_formats() -> tuple[RecordFormat, ...]:
    return tuple(sorted(record_formats, key=lambda entry: entry.rank))


def nearest_record_format(data: Data) -> str:
    """Name the format with most of its keys in a record; empty if there is none."""
    counts = {
        entry.title: sum(any(key in data for key in keys.split("|")) / len(entry.needs) for keys in entry.needs)
        for entry in record_formats
        if entry.needs
    }
    best = max(counts, key=lambda title: counts[title], default="")
    return best if best and counts[best] >= 0.5 else ""


@dataclass
class RecordReading:
    """Conversion of a file's records.

    Attributes:
        mapping: the researcher's decisions.
        guess: returns the roles of the file's speakers; called if a name is unknown.
        line, number: of the current record.
        group: further records of the current group.
        unnamed: number of conversations without the name of a bot.
        key: key of the current record within an outer object; empty if it has none.
        guessed: roles of speakers with unusual names.
    """

    mapping: FileMapping
    guess: Callable[[], Mapping[str, str]] = dict
    line: int = 1
    number: int = 1
    group: Sequence[Data] = ()
    unnamed: int = 0
    key: str = ""
    guessed: dict[str, str] = field(default_factory=dict)

    def role(self, name: str, names: Iterable[str] = ()) -> str:
        """Return the role of a speaker: human, bot or "" (left out).

        Args:
            names: names of the speakers of the conversation, in order.

        Raises:
            BadRecord: if it is unknown.
        """
        if name in self.mapping.speakers:
            return self.mapping.speakers[name]
        key = speaker_key(name)
        if key == SYSTEM:
            return LEFT_OUT if any(SPEAKER_ROLES.get(speaker_key(other)) == BOT for other in names) else BOT
        role = SPEAKER_ROLES.get(key)
        if role is None:
            role = self.guessed.get(name, self.guess().get(name, guess_speakers(names).get(name)))
            if role is None:
                raise BadRecord(f"speaker {quote(name, 40)} is unknown; say whether it is the human or the bot")
            self.guessed[name] = role
        return role

    def turns(
        self, messages: Sequence[Message], vote: Callable[[Data], int] | None = None
    ) -> tuple[tuple[Turn, ...], dict[int, Any]]:
        """Return turns, and the traces of bot turns by number.

        Raises:
            BadRecord: if a text or speaker is invalid, or there is no text.
        """
        names = dict.fromkeys(message.speaker for message in messages)
        roles = {name: self.role(name, names) for name in names}
        turns: list[Turn] = []
        traces: dict[int, Any] = {}
        waiting: tuple[Mapping[str, Any], ...] = ()
        for message in messages:
            role, text = roles[message.speaker], message.text.strip()
            waiting = (*waiting, *message.steps)
            if not text or not role:
                continue
            if problem := text_problem(text):
                raise BadRecord(f"message {len(turns) + 1} {problem}")
            if role == BOT and waiting:
                traces[len(turns)], waiting = list(waiting), ()
            turns.append(Turn(role, text, vote(message.data) if vote and role == BOT else 0))  # type: ignore[arg-type]
        if not turns:
            raise BadRecord("there is no message with a text")
        return tuple(turns), traces

    def conversation(
        self,
        messages: Sequence[Message] | list[Any],
        data: Data,
        *,
        bot: Any = None,
        dialogue_id: Any = None,
        ratings: Sequence[RecordRating] = (),
        vote: Callable[[Data], int] | None = None,
    ) -> Record:
        """Return the record of a conversation.

        Args:
            messages: messages, or a list as in the file.
            data: the record, for its id, bot and the fields to keep.
            bot: name of the bot; None: by the record's keys.
            dialogue_id: None: by the record's keys, else the record's number.
        """
        if messages and not isinstance(messages[0], Message):
            messages = read_messages(messages)
        turns, traces = self.turns(messages, vote)  # type: ignore[arg-type]
        bot = self._bot(data) if bot in (None, "") else bot
        dialogue_id = first_name(data, ID_KEYS) if dialogue_id in (None, "") else dialogue_id
        dialogue_id = dialogue_id or (self.key if not self.key.isdecimal() else "") or self.number
        return Record(
            self.line,
            checked_name(dialogue_id, "id", MAX_ID_CHARS),
            checked_name(bot, "bot", MAX_BOT_CHARS),
            turns=turns,
            ratings=tuple(ratings),
            condition=self._kept(data),
            traces=traces,
        )

    def _bot(self, data: Data) -> str:
        name = first_name(data, BOT_KEYS) or next(
            (first_name(inner, BOT_KEYS) for inner in (data.get("metadata"), data.get("meta")) if is_object(inner)), ""
        )
        if not name:
            self.unnamed += 1
        return name or self.mapping.bot or UNNAMED_BOT

    def _kept(self, data: Data) -> dict[str, str]:
        """Return the chosen fields of a record as conditions."""
        if not self.mapping.keep:
            return {}
        fields = source_fields(data)
        return {
            re.sub(r"\W", "_", name)[:40]: level
            for name in self.mapping.keep
            if (level := re.sub(r"\W", "_", str(fields.get(name, "")), flags=re.ASCII)[:40])
        }


PERSONAL = re.compile(r"(^|_)(ip|hash|hashed|country|state|city|header|user|email|phone|address|worker|name)(_|$|s$)")
"""Names of fields that may identify persons."""


def source_fields(data: Data) -> dict[str, str | int | float | bool]:
    """Return the single values of a record and of its first message, which an import drops by default."""
    lists = (unpacked(value) for value in data.values())
    first: Data = next((value[0] for value in lists if isinstance(value, list) and value and is_object(value[0])), {})
    nested = {
        f"{key}_{name}": value
        for key, inner in (*data.items(), *first.items())
        if is_object(inner)
        for name, value in inner.items()
    }
    fields = {**nested, **first, **data}
    return {
        name.removeprefix(CONDITION): value
        for name, value in fields.items()
        if isinstance(value, str | int | float)
        and value != ""
        and len(str(value)) <= 200
        and name not in (*TEXT_KEYS, *_SHOWN_FIELDS, *BOT_KEYS)
    }


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return True for a JSON object."""
    return type(value) is dict or isinstance(value, Mapping)  # the first is the usual case, and ten times faster


def first_name(data: Data, keys: Iterable[str]) -> str:
    """Return the first single value under these keys as text; empty if there is none."""
    for key in keys:
        value = data.get(key)
        if value is None or isinstance(value, bool) or not isinstance(value, str | int):
            continue
        if name := str(value).strip():
            return name
    return ""


def checked_name(value: Any, location: str, limit: int) -> str:
    """Return a name in normal form.

    Raises:
        BadRecord: if it is too long, or cannot be stored.
    """
    name = normal_name(str(value).strip())
    if len(name) > limit:
        raise BadRecord(f"{location} has {len(name)} characters; at most {limit} are allowed")
    if problem := text_problem(name):
        raise BadRecord(f"{location} {problem}")
    return name


def question_name(name: str) -> str:
    """Return a valid key of a question, such as `semantically_appropriate`."""
    return question_key(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))


def answer_number(value: Any) -> float | None:
    """Return the number of an answer: a number, its text, true or false, or a word of quality."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if is_missing(value) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if (number := _WORDS.get(text.lower())) is not None:
        return number
    match = re.match(r"[-+]?\d+(\.\d+)?(?=$|\s|[-–—:=.)])", text)
    if match is None:
        return None
    number_value = float(match[0])
    return int(number_value) if number_value.is_integer() else number_value


def rating_of(answers: Data, rater: Any = "", comment: Any = "", prefix: str = "") -> RecordRating | None:
    """Return the rating of an object with a number per question; None without any, or for another value."""
    if not is_object(answers):
        return None
    numbers = {}
    for name, value in answers.items():
        key = question_name(f"{prefix}{name}")
        if key and name not in (*RATER_KEYS, *_ARE_NO_ANSWERS) and (number := answer_number(value)) is not None:
            numbers[key] = number
    if not numbers:
        return None
    text = comment if isinstance(comment, str) else ""
    if problem := text_problem(text):
        raise BadRecord(f"the comment of a rating {problem}")
    return RecordRating(numbers, rater=checked_name(rater, "rater", MAX_ID_CHARS - 10) if rater else "", comment=text)


def ratings_by_question(answers: Data, prefix: str = "") -> list[RecordRating]:
    """Return the ratings of an object with a list of numbers per question, one number per rater."""
    if not is_object(answers):
        return []
    n_raters = max((len(value) for value in answers.values() if isinstance(value, list)), default=0)
    rows = [
        {name: value[rater] for name, value in answers.items() if isinstance(value, list) and rater < len(value)}
        for rater in range(n_raters)
    ]
    return [rating for row in rows if (rating := rating_of(row, prefix=prefix)) is not None]


_RATING_KEYS = (
    "ratings",
    "rating",
    "annotations",
    "scores",
    "score",
    "evaluation",
    "evaluations",
    "feedback",
    "labels",
)


def any_ratings(data: Data, keys: Iterable[str] = _RATING_KEYS) -> list[RecordRating]:
    """Return the ratings under the usual keys of a record, in any of the usual forms."""
    ratings: list[RecordRating] = []
    for key in keys:
        value = unpacked(data.get(key))
        if value is None:
            continue
        if isinstance(value, list) and value and all(map(is_object, value)):
            for entry in value:
                inner = next(
                    (entry[name] for name in ("answers", "values", "scores", *keys) if is_object(entry.get(name))),
                    entry,
                )
                comment = next((entry[name] for name in COMMENT_KEYS if entry.get(name)), "")
                ratings.append(rating_of(inner, first_name(entry, RATER_KEYS), comment))  # type: ignore[arg-type]
        elif is_object(value) and any(isinstance(cell, list) for cell in value.values()):
            ratings += ratings_by_question(value)
        elif is_object(value):
            ratings.append(rating_of(value, first_name(value, RATER_KEYS)))  # type: ignore[arg-type]
        elif not isinstance(value, list):
            ratings.append(rating_of({key: value}, first_name(data, RATER_KEYS)))  # type: ignore[arg-type]
    return [rating for rating in ratings if rating is not None]


def time_of(value: Any) -> datetime | None:
    """Return a time given in ISO 8601 or seconds since 1970; None for anything else."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        time = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def count_formats(counts: Counter[str]) -> str:
    """Return the formats of a file's records with their numbers, most frequent first."""
    return ", ".join(f"{title} ({n:,})" if len(counts) > 1 else title for title, n in counts.most_common())


def iterate_nested(data: Any, depth: int = 2) -> Iterator[tuple[str, Any]] | None:
    """Return the records within an outer object with their keys; None if it contains none.

    An outer object has a list of records under one key (`{"data": […]}`), or a record under each key.
    """
    if isinstance(data, list):
        return iter([(str(n), entry) for n, entry in enumerate(data, 1)]) if data and _is_record(data[0]) else None
    if not is_object(data) or not depth:
        return None
    for value in data.values():
        if isinstance(value, list) and value and _is_record(value[0]):
            return iter([("", entry) for entry in value])
    if len(data) and all(map(is_object, data.values())) and _is_record(next(iter(data.values()))):
        return iter(data.items())
    for value in data.values():
        if (nested := iterate_nested(value, depth - 1)) is not None:
            return nested
    return None


def _is_record(data: Any) -> bool:
    return is_message_list(data) or recognise_record(data) is not None or (is_object(data) and "turns" in data)
