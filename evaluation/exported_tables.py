"""Conversations and ratings of exported tables: `conversations`, or `messages` or `items` with `ratings`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from chatbots import Conversation, Turn
from chatbots.text import quote
from evaluation.formats.base import BadRecord, Record, RecordRating, Skipped
from evaluation.formats.jsonl import record_of
from evaluation.formats.tables import FileTable, is_missing, name_of
from evaluation.study import Study, StudyDialogue

Key = tuple[str, str, str]
"""Of a conversation: its source, its id there and its bot (`Record.key`)."""
MESSAGE_COLUMNS = ("conversation", "bot", "turn", "speaker", "text")
NO_DIMENSIONS = {
    *("rating", "conversation", "bot", "bot_version", "rater", "n_exchanges", "study", "is_synthetic"),
    *("comment", "submitted_at", "platform", "external_id", "completion_code"),
    *("target", "turn", "item", "first", "second", "first_bot", "second_bot", "task", "version"),
    *("direction", "reference_score", "kept_both"),
}
"""Columns of exported ratings that are no questions; a question called like one of them is `answer_NAME` there."""
ITEM_COLUMNS = ("item", "context", "responses")
CONVERSATION_COLUMNS = ("dialogue_id", "bot", "turns")


def names_of(keys: Sequence[Key]) -> list[str]:
    """Name each conversation by its id, with its source and then its bot where ids repeat."""
    ids = [dialogue for _source, dialogue, _bot in keys]
    sourced = [f"{source}/{dialogue}" if source else dialogue for source, dialogue, _bot in keys]
    with_bots = [f"{name}/{key[2]}" for name, key in zip(sourced, keys, strict=True)]
    for names in (ids, sourced, with_bots):
        if len(set(names)) == len(names):
            return names
    return [f"{name}#{number}" for number, name in enumerate(with_bots, start=1)]


def rows_read(table: FileTable) -> Iterator[Record | Skipped]:
    """Yield the conversations of the exported table of that name, whose turns and ratings are JSON texts."""
    for number, row in table.numbered():
        data: dict[str, Any] = {name: name_of(row.get(name)) for name in ("dialogue_id", "bot", "source")}
        try:
            for name in ("turns", "ratings", "flags"):
                cell = row.get(name)
                data[name] = json.loads(cell) if isinstance(cell, str) and cell else cell or None
            yield record_of(data, line=number)
        except (BadRecord, ValueError) as error:
            yield Skipped(number, str(error))


def study_of_tables(messages: FileTable, ratings: FileTable | None, name: str) -> Study:
    """Return the study of the two exported tables; a conversation's key is its id and bot."""
    messages.require(MESSAGE_COLUMNS)
    turns: dict[Key, dict[int, tuple[int, Turn]]] = {}
    clashes: dict[Key, Skipped] = {}
    for number, row in messages.numbered():
        key = ("", name_of(row["conversation"]), name_of(row.get("bot")))
        at = messages.whole_number(number, "turn")
        turn = _turn(messages, number)
        there = turns.setdefault(key, {}).setdefault(at, (number, turn))
        if there[1] != turn and key not in clashes:
            clashes[key] = Skipped(
                number,
                f"conversation {quote(key[1])} of bot {quote(key[2])} has another turn {at} in row "
                f"{there[0]} than in row {number}",
            )
    told = {
        key: tuple(turn for _at, (_row, turn) in sorted(said.items()))
        for key, said in turns.items()
        if key not in clashes
    }
    return _rated_apart(told, ratings, "conversation", name, tuple(clashes.values()))


def _turn(messages: FileTable, number: int) -> Turn:
    row = messages.rows[number - 1]
    speaker, text = row["speaker"], row["text"]
    if speaker not in ("human", "bot"):
        where = messages.where(number, "speaker")
        raise ValueError(f"{where} is {quote(speaker)}; it must be 'human' or 'bot'")
    if "vote" not in messages.columns or is_missing(row.get("vote")):
        return Turn(speaker, str(text))
    vote = messages.whole_number(number, "vote")
    if vote not in (-1, 0, 1):
        raise ValueError(f"{messages.where(number, 'vote')} is {vote}; it must be -1, 0 or 1")
    return Turn(speaker, str(text), vote)


def study_of_items(items: FileTable, ratings: FileTable | None, name: str) -> Study:
    """Return items with one reply as conversations that end with it, said by the model."""
    items.require(ITEM_COLUMNS)
    told: dict[Key, tuple[Turn, ...]] = {}
    rows: dict[Key, int] = {}
    clashes: dict[Key, Skipped] = {}
    compared: set[str] = set()
    for number, row in items.numbered():
        context, responses = (_listed(items, number, name) for name in ("context", "responses"))
        if len(responses) != 1:
            compared.add(name_of(row["item"]))
            continue
        said = [*context, *responses]
        turns = tuple(Turn("bot" if (len(said) - place) % 2 else "human", text) for place, text in enumerate(said))
        key = ("", name_of(row["item"]), name_of(row.get("bot")))
        if told.setdefault(key, turns) != turns and key not in clashes:
            clashes[key] = Skipped(
                number,
                f"item {quote(key[1])} of {quote(key[2])} has other texts in row {rows[key]} than in row {number}",
            )
        rows.setdefault(key, number)
    kept = {key: turns for key, turns in told.items() if key not in clashes}
    return _rated_apart(kept, ratings, "item", name, tuple(clashes.values()), compared)


def _rated_apart(
    told: Mapping[Key, tuple[Turn, ...]],
    ratings: FileTable | None,
    target: str,
    name: str,
    skipped: tuple[Skipped, ...],
    passed_over: Collection[str] = (),
) -> Study:
    """Return the study of conversations whose ratings stand in a table of their own.

    Args:
        told: their turns.
        ratings: the exported table.
        target: column of the table that names what was rated.
        name: of the study.
        skipped: rows left out so far.
        passed_over: ids whose ratings are left out without a word.
    """
    by_id: dict[str, list[Key]] = {}
    for key in told:
        by_id.setdefault(key[1], []).append(key)
    answers: dict[Key, list[RecordRating]] = {key: [] for key in told}
    lost: list[Skipped] = []
    for number, bot, rated, rating in _answers(ratings, target):
        keys = [key for key in by_id.get(rated, ()) if bot in ("", key[2])]
        if len(keys) == 1:
            answers[keys[0]].append(rating)
        elif rated not in passed_over:
            held = ", ".join(repr(key[2]) for key in by_id.get(rated, ()))
            why = f"which is there for {held}" if held else "which is not there or was left out"
            of_bot = f" of bot {quote(bot)}" if bot else ""
            lost.append(Skipped(number, f"a rating of {target} {quote(rated)}{of_bot}, {why}"))
    dialogues = tuple(
        StudyDialogue(Conversation(id=named, turns=turns), key[2], ratings=tuple(answers[key]))
        for named, (key, turns) in zip(names_of(tuple(told)), told.items(), strict=True)
    )
    return Study(name, dialogues, (*skipped, *lost))


def question_of(column: str) -> str:
    """Return the key of a question by its column."""
    key = column.removeprefix("answer_")
    return key if key in NO_DIMENSIONS else column


def _listed(table: FileTable, number: int, column: str) -> list[str]:
    """Return the texts of a cell, a list or the JSON of one."""
    cell = table.rows[number - 1][column]
    try:
        found = json.loads(cell) if isinstance(cell, str) else cell
        return [str(text) for text in found]
    except (TypeError, ValueError):
        where = table.where(number, column)
        raise ValueError(f"{where} is {quote(str(cell))}; a JSON list of texts is needed") from None


def _answers(ratings: FileTable | None, target: str) -> Iterator[tuple[int, str, str, RecordRating]]:
    """Yield row, bot, target and rating of an exported table's ratings of such targets."""
    if ratings is None:
        return
    if "target" not in ratings.columns:
        ratings.require([target])
    # The others are answers in words to what was asked besides the scales.
    dimensions = [
        name for name in ratings.columns if name and name not in NO_DIMENSIONS and ratings.holds_numbers(name)
    ]
    for number, row in ratings.numbered():
        if row.get("target", "conversation") == target:
            given = {question_of(name): ratings.number(number, name) for name in dimensions}
            yield (
                number,
                name_of(row.get("bot")),
                name_of(row[target]),
                RecordRating(
                    {name: value for name, value in given.items() if value is not None},
                    rater="" if is_missing(row.get("rater")) else name_of(row["rater"]),
                    comment="" if is_missing(row.get("comment")) else str(row["comment"]),
                ),
            )
