"""Roles of a table's columns, from names, cells or the researcher's choice."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from chatbots.text import quote
from evaluation.data.formats.answer_cells import ColumnProfile
from evaluation.data.formats.base import CONDITION, MAX_DIMENSION_CHARS

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
"""Roles of columns with their titles; each has one column, except answers."""
_NAMES = {
    "conversation": "conversation, conversation id, dialogue, dialogue id, dialog id, chat, chat id, session id, "
    "instance id",
    "bot": "bot, bot id, chatbot, chatbot id, model, model id",
    "speaker": "speaker, role, sender, author",
    "reply": "reply, response, bot response, bot message, assistant",
    "human": "human, user, user message, human message, prompt",
    "text": "text, utterance, content, message",
    "turn": "turn, turn index, turn number, index",
    "time": "time, datetime, timestamp, created at, submitted at",
    "vote": "vote, response rating",
    "rater": "rater, rater id, worker, worker id, workerid, user id, annotator, judge, participant, user session key, "
    "response id, responseid",
    "comment": "comment, comments, chat rating comments, feedback",
    "": "id, study key, bot input, chat length, mturk code, mturk user id, rating id, n exchanges, n turns, n ratings",
}
_ROLE_OF_NAME = {name: role for role, names in _NAMES.items() for name in names.split(", ")}
_WIDE_SIDES = {
    **dict.fromkeys(("u", "user", "human", "h", "prompt", "person", "participant", "nutzer", "usr"), "human"),
    **dict.fromkeys(("s", "sys", "system", "bot", "b", "assistant", "reply", "response", "chatbot", "model"), "reply"),
}
_WIDE_NAME = re.compile(r"(.*?)(?: message| text| msg| turn)? ?(\d+)")
EXPORTED = {
    *("rating", "conversation", "bot", "bot_version", "rater", "n_exchanges", "study", "is_synthetic"),
    *("comment", "submitted_at", "platform", "external_id", "completion_code"),
    *("target", "turn", "item", "first", "second", "first_bot", "second_bot", "task", "version", "sitting"),
    *("direction", "reference_score", "kept_both"),
}
"""Columns of exported ratings other than questions; questions with such a name are exported as `answer_NAME`."""
_EXPORTED_MESSAGES = {
    *("state", "latency_ms", "tokens_in", "tokens_out", "tokens_estimated", "cost", "answered_by", "first_ms"),
    *("shown_first_ms", "shown_ms", "late_ms", "withheld", "trace", "image", "image_description", "goes_on", "seed"),
    *("refused", "rejected_params"),
}
_OF_MESSAGES = {"conversation", "bot", "study", "is_synthetic", "turn", "speaker", "text"}
"""Columns that identify the exported table of messages, which never contains answers."""
_OF_RATINGS = {"rating", "conversation", "rater", "n_exchanges", "study", "is_synthetic", "target"}
"""Columns that identify the exported table of ratings; its scales are numbers, other answers words."""
_NO_QUESTION = {
    *("id", "ids", "guid", "uuid", "index", "idx", "no", "nr", "row", "line", "x", "age", "alter", "years"),
    *("year", "month", "day", "birth", "geburtsjahr", "date", "datum", "time", "times", "timestamp", "ts"),
    *("epoch", "start", "end", "started", "ended", "created", "submitted", "duration", "dauer", "seconds"),
    *("secs", "sec", "s", "minutes", "hours", "ms", "milliseconds", "elapsed", "spent", "latency", "delay"),
    *("tokens", "cost", "price", "pay", "payment", "bonus", "reward", "income", "salary", "length", "count"),
    *("chars", "characters", "turns", "messages", "exchanges", "seed", "trial", "order", "position", "session"),
    *("page", "block", "batch", "group", "condition", "arm", "zip", "postcode", "plz", "phone", "ip"),
    *("latitude", "longitude", "lat", "lon", "lng", "progress", "finished", "completed", "status", "gender"),
    *("sex", "consent", "consented", "height", "width", "size", "weight", "split", "fold", "version"),
}
"""Words at the end of a column's name that show that its numbers are not answers."""
_NO_QUESTION_FIRST = {"n", "num", "nr", "is", "has", "unnamed", "column"}
_TIME_FROM = 1e8
"""Minimum value taken for a time or an id; seconds since 1970 have at least nine digits."""


def question_of(column: str) -> str:
    """Return the question's key for a column of an exported table."""
    key = column.removeprefix("answer_")
    return key if key in EXPORTED else column


def question_key(column: str) -> str:
    """Derive a question's key from a column name; empty without letters.

    `Wie gut? (1-5)` gives `wie_gut_1_5`.
    """
    plain = unicodedata.normalize("NFKD", question_of(column)).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain.removeprefix("chat rating ")).strip("_")
    return (f"q_{name}" if name[:1].isdigit() else name)[:MAX_DIMENSION_CHARS]


def role_named(name: str) -> str | None:
    """Return the role with this name or alias, or None.

    `user` is an alias of `human`.
    """
    plain = name.strip().lower()
    return plain if plain in ROLES else _ROLE_OF_NAME.get(_plain(name)) or None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def profiles_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, ColumnProfile]:
    """Return the cells of each column, counted."""
    profiles = {column: ColumnProfile() for column in header}
    for line, row in enumerate(rows, 2):
        for column, cell in zip(header, row, strict=True):
            profiles[column].add(line, cell)
    return profiles


def guess_roles(profiles: Mapping[str, ColumnProfile]) -> dict[str, str]:
    """Guess each column's role from its name.

    Other columns with mostly numeric cells contain answers.
    """
    roles_by_name = {column: _ROLE_OF_NAME.get(_plain(column)) for column in profiles}
    sides = {column: side for column in profiles if (side := wide_side(column)) is not None}
    if len(set(sides.values())) == 2:
        roles_by_name |= sides
        if "conversation" not in roles_by_name.values():
            roles_by_name |= {column: "conversation" for column in profiles if _plain(column) == "id"}
    if "reply" in roles_by_name.values() and "human" not in roles_by_name.values():
        roles_by_name |= {column: "human" for column in profiles if _plain(column) == "message"}
    roles: dict[str, str] = {}
    for column, profile in profiles.items():
        role = roles_by_name[column]
        if role is None:
            is_question = question_key(column) and not why_no_question(column, profile, profiles.keys())
            role = QUESTION if is_question else ""
        is_repeated = role in roles.values() and role != QUESTION and not (column in sides and role == sides[column])
        roles[column] = "" if role and is_repeated else role
    return roles


def wide_side(column: str) -> str | None:
    """Return the side of a numbered column of texts, such as `u1` (human) or `bot_2` (reply), or None."""
    match = _WIDE_NAME.fullmatch(_plain(column))
    return _WIDE_SIDES.get(match[1]) if match else None


def is_exported(column: str) -> bool:
    """Return True for a column of Confab's exports other than questions."""
    return column in EXPORTED or column in _EXPORTED_MESSAGES


def why_no_question(column: str, profile: ColumnProfile, header: Collection[str]) -> str:
    """Explain why a column does not contain answers; empty if it does.

    Args:
        column: name of the column.
        profile: profile of its cells.
        header: all columns of the table.
    """
    if column.startswith(CONDITION):
        return "it contains a condition"
    if is_exported(column) and (column != "rating" or "is_synthetic" in header):
        return "it is a column of Confab's exports"
    if set(header) >= _OF_MESSAGES:
        return "Confab's table of messages contains no answers"
    if _plain(column).startswith("chat rating "):
        return ""
    if not profile.n_given:
        return "it is empty"
    if not profile.kind():
        odd = profile.first_odd()
        return f"line {odd[0]} has {quote(odd[1], 40)}, which is not an answer" if odd else "it contains no answers"
    if set(header) >= _OF_RATINGS and not profile.is_of_digits():
        return "Confab's table of ratings has numbers for every scale, but these are words"
    words = _plain(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)).split()
    if words and (words[-1] in _NO_QUESTION or words[0] in _NO_QUESTION_FIRST):
        return f"its name ends or begins with “{words[-1] if words[-1] in _NO_QUESTION else words[0]}”"
    if profile.shapes["plain"] == profile.n_given and profile.lowest >= _TIME_FROM:
        return f"its numbers, such as {profile.lowest:.0f}, look like times or ids"
    if _are_ids(profile):
        return f"its numbers, from {profile.lowest:g} to {profile.highest:g}, are all different, like ids"
    return ""


def _are_ids(profile: ColumnProfile) -> bool:
    n = profile.n_given
    if n < 8 or len(profile.cells) < min(n, 200) or not all(cell.strip().isdecimal() for cell in profile.cells):
        return False
    return profile.highest - profile.lowest < n or profile.highest > 1000


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Columns by role, and the question of each answer column.

    Attributes:
        wide: side and column of each text in a row that is a whole conversation, in order; empty for other tables.
    """

    columns: Mapping[str, str]
    questions: Mapping[str, str]
    conditions: tuple[str, ...] = field(default=())
    wide: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_roles(cls, roles: Mapping[str, str], *, has_bot: bool = False) -> CsvLayout:
        """Make a layout, validating the roles of the columns.

        Args:
            has_bot: True if the bot is named elsewhere.

        Raises:
            ValueError: if a role is unknown, duplicated or missing.
        """
        columns: dict[str, str] = {}
        questions: dict[str, str] = {}
        wide = _wide_columns(roles)
        for column, name in roles.items():
            role = role_named(name)
            if wide and role in ("human", "reply"):
                columns.setdefault(role, column)
                continue
            if role is None:
                known = ", ".join(filter(None, ROLES))
                raise ValueError(f"column {quote(column)} is {quote(name)}; it must be one of {known}")
            columns_by_key, key = (questions, question_key(column)) if role == QUESTION else (columns, role)
            if role == QUESTION and not key:
                raise ValueError(f"column {quote(column)} contains answers; its name needs a letter or digit")
            if key in columns_by_key:
                raise ValueError(
                    f"columns {quote(columns_by_key[key])} and {quote(column)} are both “{key}”; choose one"
                )
            if role:
                columns_by_key[key] = column
        has_text = columns.keys() & {"text", "human", "reply"}
        if "conversation" not in columns and not wide:
            raise ValueError("no column identifies the conversation; choose one")
        if ("text" in columns) != ("speaker" in columns) or ("text" in columns and len(has_text) > 1):
            raise ValueError("choose a speaker and a text, or a human message and a bot reply")
        if has_text and "bot" not in columns and not wide and not has_bot:
            raise ValueError("no column identifies the bot; choose one")
        if not has_text and not questions and "rater" in columns:
            raise ValueError("it contains raters but no conversations or answers; choose a column of answers")
        if not has_text and not questions:
            raise ValueError("no column contains texts or answers; choose one")
        conditions = tuple(column for column, role in roles.items() if column.startswith(CONDITION) and not role)
        return cls(columns, {column: key for key, column in questions.items()}, conditions, wide)

    @property
    def has_texts(self) -> bool:
        """Return True if rows are messages or exchanges, False for ratings."""
        return not self.columns.keys().isdisjoint(("text", "human", "reply"))


def _wide_columns(roles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return side and column of the texts of a conversation per row; empty with at most one column per side.

    They are ordered by the numbers in their names; columns with equal numbers, and without, as in the file.
    """
    texts = [(role_named(role) or "", column) for column, role in roles.items()]
    texts = [(role, column) for role, column in texts if role in ("human", "reply")]
    if len(texts) == len({role for role, _column in texts}):
        return ()
    numbers = {column: re.findall(r"\d+", column) for _role, column in texts}
    if all(numbers.values()):
        texts.sort(key=lambda text: int(numbers[text[1]][-1]))
    return tuple((("human" if role == "human" else "bot"), column) for role, column in texts)


def roles_by_column(chosen: Mapping[str, str | Sequence[str]], header: Sequence[str], name: str) -> dict[str, str]:
    """Normalise a choice by column or by role to roles by column.

    Args:
        chosen: `{"System": "bot"}`, or `{"bot": "System", "question": ["Fun", "Ease"]}`.
        header: columns of the file.
        name: name of the file, for messages.

    Raises:
        ValueError: if a column is not in the file, or a role is unknown.
    """
    by_column = {column: role for column, role in chosen.items() if isinstance(role, str)}
    is_by_column = len(by_column) == len(chosen) and set(chosen) <= set(header)
    if not is_by_column and all(role_named(role) is not None for role in chosen):
        by_column = {}
        for role, columns in chosen.items():
            by_column |= dict.fromkeys([columns] if isinstance(columns, str) else columns, role)
    if missing := [quote(column) for column in by_column if column not in header]:
        raise ValueError(f"{name} has no column {', '.join(missing)}; it has {', '.join(map(quote, header))}")
    for column, role in by_column.items():
        if role_named(role) is None:
            known = ", ".join(filter(None, ROLES))
            raise ValueError(f"column {quote(column)} is {quote(role)}; it must be one of {known}")
    return {column: role_named(role) or "" for column, role in by_column.items()}
