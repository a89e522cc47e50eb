"""`read`: conversations and ratings from files of Confab and other programs.

Reads any file of `evaluation.data.formats` (JSON Lines, the 2019 CSV files), the exported tables `conversations`, or
`messages` or `items` with `ratings`, as CSV, Parquet or JSON Lines, a folder or zip with one of these, and a complete
data package.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from chatbots import Conversation, Turn
from chatbots.compressed_files import is_zip
from chatbots.text import quote
from evaluation.data.formats.base import (
    CONDITION,
    FileFormat,
    Note,
    Record,
    RecordRating,
    Skipped,
    condition_read,
    skip_mixed_control,
    without_clashes,
)
from evaluation.data.formats.csv_columns import CsvColumns, mapped_format
from evaluation.data.formats.csv_roles import EXPORTED, question_of
from evaluation.data.formats.mapping import FileMapping
from evaluation.data.formats.scales import FileScales, Scale
from evaluation.data.formats.tables import TABLE_ENDINGS, FileTable, header_of, is_missing, name_of, table_read
from evaluation.data.formats.text_files import format_for, is_parquet, is_xlsx, text_lines
from evaluation.data.package import ATTENTION_CHECK, DESCRIPTOR, Package, PackageError, left_out_of, package_open
from evaluation.data.study import Study, StudyDialogue

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, str, str]
"""Key of a conversation: its source, id and bot (`Record.key`)."""
MESSAGE_COLUMNS = ("conversation", "bot", "turn", "speaker", "text")
ITEM_COLUMNS = ("item", "context", "responses")


def names_of(keys: Sequence[Key]) -> list[str]:
    """Name conversations by id, with source and bot if ids repeat."""
    ids = [dialogue for _source, dialogue, _bot in keys]
    sourced = [f"{source}/{dialogue}" if source else dialogue for source, dialogue, _bot in keys]
    with_bots = [f"{name}/{key[2]}" for name, key in zip(sourced, keys, strict=True)]
    for names in (ids, sourced, with_bots):
        if len(set(names)) == len(names):
            return names
    return [f"{name}#{number}" for number, name in enumerate(with_bots, start=1)]


def study_of_tables(messages: FileTable, ratings: FileTable | None, name: str) -> Study:
    """Return the study of the two exported tables.

    A conversation's key is its id and bot.
    """
    messages.require(MESSAGE_COLUMNS)
    turns: dict[Key, dict[int, tuple[int, Turn]]] = {}
    clashes: dict[Key, Skipped] = {}
    for number, row in messages.numbered():
        key = ("", name_of(row["conversation"]), name_of(row.get("bot")))
        turn_number = messages.whole_number(number, "turn")
        turn = _turn(messages, number)
        first_turn = turns.setdefault(key, {}).setdefault(turn_number, (number, turn))
        if first_turn[1] != turn and key not in clashes:
            clashes[key] = Skipped(
                number,
                f"conversation {quote(key[1])} of bot {quote(key[2])} has different turns {turn_number} in rows "
                f"{first_turn[0]} and {number}",
            )
    turns_by_key = {
        key: tuple(turn for _turn_number, (_row, turn) in sorted(numbered_turns.items()))
        for key, numbered_turns in turns.items()
        if key not in clashes
    }
    study = _rated_apart(turns_by_key, ratings, "conversation", name, tuple(clashes.values()))
    condition_by_id = {name_of(row["conversation"]): condition_read(row) for _number, row in messages.numbered()}
    keyed_dialogues = zip(turns_by_key, study.dialogues, strict=True)
    return replace(
        study,
        dialogues=tuple(replace(dialogue, condition=condition_by_id[key[1]]) for key, dialogue in keyed_dialogues),
    )


def _turn(messages: FileTable, number: int) -> Turn:
    row = messages.rows[number - 1]
    speaker, text = row["speaker"], row["text"]
    if speaker not in ("human", "bot"):
        location = messages.locate_cell(number, "speaker")
        raise ValueError(f"{location} is {quote(speaker)}; it must be 'human' or 'bot'")
    if "vote" not in messages.columns or is_missing(row.get("vote")):
        return Turn(speaker, str(text))
    vote = messages.whole_number(number, "vote")
    if vote not in (-1, 0, 1):
        raise ValueError(f"{messages.locate_cell(number, 'vote')} is {vote}; it must be -1, 0 or 1")
    return Turn(speaker, str(text), vote)


def study_of_items(items: FileTable, ratings: FileTable | None, name: str) -> Study:
    """Return items with one reply as conversations ending with it."""
    items.require(ITEM_COLUMNS)
    turns_by_key: dict[Key, tuple[Turn, ...]] = {}
    rows: dict[Key, int] = {}
    clashes: dict[Key, Skipped] = {}
    compared: set[str] = set()
    for number, row in items.numbered():
        context, responses = (_listed(items, number, name) for name in ("context", "responses"))
        if len(responses) != 1:
            compared.add(name_of(row["item"]))
            continue
        texts = [*context, *responses]
        turns = tuple(Turn("bot" if (len(texts) - place) % 2 else "human", text) for place, text in enumerate(texts))
        key = ("", name_of(row["item"]), name_of(row.get("bot")))
        if turns_by_key.setdefault(key, turns) != turns and key not in clashes:
            clashes[key] = Skipped(
                number, f"item {quote(key[1])} of {quote(key[2])} has different texts in rows {rows[key]} and {number}"
            )
        rows.setdefault(key, number)
    clean_turns = {key: turns for key, turns in turns_by_key.items() if key not in clashes}
    return _rated_apart(clean_turns, ratings, "item", name, tuple(clashes.values()), compared)


def _rated_apart(
    turns_by_key: Mapping[Key, tuple[Turn, ...]],
    ratings: FileTable | None,
    target: str,
    name: str,
    skipped: tuple[Skipped, ...],
    passed_over: Collection[str] = (),
) -> Study:
    """Return a study of conversations with ratings from a separate table.

    Args:
        turns_by_key: turns of the conversations.
        ratings: the exported table.
        target: column of the table that names the rated object.
        name: name of the study.
        skipped: rows skipped so far.
        passed_over: ids whose ratings are skipped silently.
    """
    by_id: dict[str, list[Key]] = {}
    for key in turns_by_key:
        by_id.setdefault(key[1], []).append(key)
    answers: dict[Key, list[RecordRating]] = {key: [] for key in turns_by_key}
    lost: list[Skipped] = []
    for number, bot, rated, rating in _answers(ratings, target):
        keys = [key for key in by_id.get(rated, ()) if bot in ("", key[2])]
        if len(keys) == 1:
            answers[keys[0]].append(rating)
        elif rated not in passed_over:
            lost.append(Skipped(number, lost_rating(target, rated, bot, by_id)))
    dialogues = tuple(
        StudyDialogue(Conversation(id=dialogue_id, turns=turns), key[2], ratings=tuple(answers[key]))
        for dialogue_id, (key, turns) in zip(names_of(tuple(turns_by_key)), turns_by_key.items(), strict=True)
    )
    return Study(name, dialogues, (*skipped, *lost))


def _listed(table: FileTable, number: int, column: str) -> list[str]:
    """Return the texts of a cell: a list, or JSON of one."""
    cell = table.rows[number - 1][column]
    try:
        texts = json.loads(cell) if isinstance(cell, str) else cell
        return [str(text) for text in texts]
    except (TypeError, ValueError):
        location = table.locate_cell(number, column)
        raise ValueError(f"{location} is {quote(str(cell))}; it must be a JSON list of texts") from None


def _answers(ratings: FileTable | None, target: str) -> Iterator[tuple[int, str, str, RecordRating]]:
    """Yield row, bot, target and rating from an exported ratings table.

    Only ratings of such targets.
    """
    if ratings is None:
        return
    if "target" not in ratings.columns:
        ratings.require([target])
    # Other rows contain free-text answers to additional questions.
    dimensions = [
        name
        for name in ratings.columns
        if name and name not in EXPORTED and not name.startswith(CONDITION) and ratings.holds_numbers(name)
    ]
    for number, row in ratings.numbered():
        if row.get("target", "conversation") == target:
            answers = {question_of(name): ratings.number(number, name) for name in dimensions}
            yield (
                number,
                name_of(row.get("bot")),
                name_of(row[target]),
                RecordRating(
                    {name: value for name, value in answers.items() if value is not None},
                    rater="" if is_missing(row.get("rater")) else name_of(row["rater"]),
                    comment="" if is_missing(row.get("comment")) else str(row["comment"]),
                ),
            )


def read(
    path: str | Path,
    ratings: str | Path | None = None,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    speakers: Mapping[str, str] | None = None,
    bot: str = "",
    keep: Sequence[str] = (),
    scale: Scale | Mapping[str, Scale] | None = None,
    reversed: Sequence[str] = (),
    higher: Sequence[str] = (),
    device: str = "cpu",
) -> Study:
    """Read a study.

    Args:
        path: a file of conversations, an exported table `messages`, a folder or zip with one of them, or a data
            package, which includes reversed questions and provides all its tables in `tables`.
        ratings: exported table `ratings`, if it is a separate file. In a folder or zip it is found by its name.
        columns: roles of columns that are not recognised by name, such as `{"System": "bot", "Fun": "question", "note":
            ""}`, or `{"bot": "System"}`; `""` ignores a column.
        speakers: "human", "bot" or "" (left out) by a speaker's name in the file, such as `{"A": "human", "B": "bot"}`;
            others are guessed.
        bot: name of the bot where the file names none.
        keep: fields of the source, such as `language`, that become conditions; all others are dropped.
        scale: lowest and highest possible answer, or by question, such as `{"fun": (0, 1), "": (1, 5)}`, "" for all
            others. Answers outside the scale are excluded and listed in `skipped`. Without a scale, the smallest and
            largest answer are used, without limiting intervals.
        reversed, higher: questions on which a high answer is bad, or good.
        device: device for the study's metrics ("cpu", "cuda").

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the format is unknown (the message lists the known ones), or a scale is invalid.
    """
    file, scales = Path(path), FileScales.read(scale)
    mapping = FileMapping(columns or None, speakers or {}, bot, tuple(keep))
    study = _read(file, Path(ratings) if ratings is not None else None, mapping).within(scales)
    for option, names in (("reversed", reversed), ("higher", higher)):
        if unknown := [name for name in names if name not in study.dimensions]:
            raise ValueError(
                f"{option} names {quote(unknown[0])}; the study is rated on {', '.join(study.dimensions) or 'nothing'}"
            )
    return replace(
        study,
        scale=scale if scales else study.scale,
        reversed=tuple(reversed) or tuple(name for name in study.reversed if name not in higher),
        higher=tuple(higher) or tuple(name for name in study.higher if name not in reversed),
        device=device,
    )


def _read(file: Path, ratings: Path | None, mapping: FileMapping | None = None) -> Study:
    mapping = mapping or FileMapping()
    if file.is_dir():
        return _of_folder(file, file.name)
    if file.is_file() and is_zip(file) and not is_xlsx(file):
        with package_open(file) as package:
            if DESCRIPTOR in package.paths:
                return study_of_package(package)
            with tempfile.TemporaryDirectory(prefix="confab-") as folder:
                if not package.has_tables and not package.is_of_study:
                    inner = package.extract(package.data_file(), Path(folder))
                    return replace(_read(inner, ratings, mapping), name=file.name)
                package.unpack(Path(folder))
                return _of_folder(Path(folder), file.name)
    if mapping.columns is None and _holds_items(file):
        return study_of_items(table_read(file), None if ratings is None else table_read(ratings), file.name)
    file_format = mapped_format(file, mapping)
    records = file_format.read(file)
    if ratings is not None:
        records = chain(records, (ratings_format(ratings)).read(ratings))
    return _of_records(records, file.name)


def ratings_format(path: Path) -> FileFormat:
    """Return the format of a ratings file, with or without rater names."""
    try:
        return format_for(path)
    except ValueError:
        return CsvColumns()


def _holds_items(file: Path) -> bool:
    """Return True if a file contains the exported table of items."""
    if is_parquet(file):
        return set(ITEM_COLUMNS) <= set(table_read(file).columns)
    if ".json" not in file.name.lower():
        return set(ITEM_COLUMNS) <= set(header_of(file))
    first = next(iter(text_lines(file)), None)
    try:
        row = None if first is None or isinstance(first, Skipped) else json.loads(first[1])
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= set(ITEM_COLUMNS)


def _of_folder(folder: Path, name: str) -> Study:
    """Read the folder's conversations: a single file, or the two tables."""
    conversations, messages, ratings, items = (
        next((f for ending in TABLE_ENDINGS for f in sorted(folder.rglob(f"{kind}*{ending}"))), None)
        for kind in ("conversations", "messages", "ratings", "items")
    )
    if items is not None:
        judged = table_read(items)
        if judged.rows and set(judged.columns).issuperset(ITEM_COLUMNS):
            return study_of_items(judged, None if ratings is None else table_read(ratings), name)
    if conversations is not None:
        return replace(_read(conversations, None), name=name)
    if messages is not None:
        return replace(_read(messages, ratings), name=name)
    file_names = ", ".join(sorted(file.name for file in folder.iterdir())[:8]) or "nothing"
    raise ValueError(
        f"{name} contains neither conversations nor messages as .jsonl, .csv or .parquet; it contains {file_names}"
    )


def study_of_package(package: Package) -> Study:
    """Return the study of a data package, with all its tables.

    Raises:
        PackageError: if a table or the description of its columns is missing.
    """
    import pandas as pd

    descriptor = package.json(DESCRIPTOR)
    try:
        fields = {
            resource["name"]: {field["name"]: field["type"] for field in resource["schema"]["fields"]}
            for resource in descriptor["resources"]
        }
        left_out = left_out_of(descriptor)
        questions = [
            (entry["column"], entry["low"], entry["high"], entry["direction"])
            for entry in package.json("codebook.json")["columns"]
            if entry["table"] == "ratings" and entry["asked"] == "after"
        ]
        inferred = {
            entry["column"] for entry in package.json("codebook.json")["columns"] if entry.get("scale_inferred")
        }
    except (KeyError, TypeError) as error:
        raise PackageError(f"{package.name} does not describe its tables: {error}") from None
    cells = {name: FileTable(name, tuple(fields[name]), tuple(package.rows(name))) for name in fields}
    # Attention checks remain in the table of ratings but do not count as dimensions.
    rows = cells["checks"].rows if "checks" in cells else ()
    checks = {row.get("check") for row in rows if row.get("kind") == "after"}
    scales = [
        column
        for column, low, _high, direction in questions
        if low is not None and direction != ATTENTION_CHECK and question_of(column) not in checks
    ]
    answers = cells.get("ratings")
    if answers is not None:
        columns = (name for name in answers.columns if name in EXPORTED or name in scales)
        answers = replace(answers, columns=tuple(columns))
    items = cells.get("items")
    if items is not None and items.rows:
        study = study_of_items(items, answers, package.name)
    else:
        if "turns" not in cells:
            raise PackageError(f"{package.name} contains no table of turns")
        study = study_of_tables(cells["turns"], answers, package.name)
    turned, higher = (
        [column for column, _low, _high, direction in questions if direction.startswith(word)]
        for word in ("lower", "higher")
    )
    keys = {key for dialogue in study.dialogues for rating in dialogue.ratings for key in rating.answers}
    scale_by_key = {
        question_of(column): (float(low), float(high))
        for column, low, high, _direction in questions
        if low is not None and column not in inferred
    }
    return replace(
        study,
        scale={key: ends for key, ends in scale_by_key.items() if key in keys} or None,
        reversed=tuple(key for column in turned if (key := question_of(column)) in keys),
        higher=tuple(key for column in higher if (key := question_of(column)) in keys),
        tables={
            name: pd.DataFrame(table.rows, columns=list(table.columns), dtype=object).apply(
                lambda series, kinds=fields[name]: _typed(series, kinds[series.name])
            )
            for name, table in cells.items()
        },
        left_out=left_out,
    )


def _typed(cells: pd.Series, kind: str) -> pd.Series:
    """Return a text column converted to its Table Schema type.

    Empty cells are missing.
    """
    import pandas as pd

    filled = cells.mask(cells == "")
    if kind == "integer":
        return pd.to_numeric(filled).astype("Int64")
    if kind == "number":
        return pd.to_numeric(filled).astype("float64")
    if kind == "boolean":
        return filled.map({"true": True, "false": False}).astype("boolean")
    if kind == "datetime":
        return pd.to_datetime(filled, utc=True, format="ISO8601")
    if kind == "any":
        return filled.map(json.loads, na_action="ignore")
    return filled.astype("string")


def _of_records(read: Iterable[Record | Skipped | Note], name: str) -> Study:
    """Return the study of a format's records, merging separate ratings."""
    records: dict[Key, Record] = {}
    apart: list[Record] = []
    skipped: list[Skipped] = []
    notes: list[str] = []
    for item in without_clashes(read):
        if isinstance(item, Note):
            notes.append(item.text)
        elif isinstance(item, Skipped):
            skipped.append(item)
        elif item.ratings_only:
            apart.append(item)
        elif known := records.get(item.key):
            new_ratings = tuple(rating for rating in item.ratings if rating not in known.ratings)
            records[item.key] = replace(known, ratings=(*known.ratings, *new_ratings))
        else:
            records[item.key] = item
    if not records:
        if apart:
            raise ValueError(
                f"{name} contains ratings without their conversations; read the table of messages, with "
                f"ratings={quote(name)}"
            )
        first = (
            f"; line {skipped[0].line}: {skipped[0].reason}" if skipped else f": {'; '.join(notes) or 'it is empty'}"
        )
        raise ValueError(f"no conversation could be read from {name}{first}")
    skipped += _add_ratings(records, apart)
    # A bot with regular conversations is not a control, so skip its degraded conversations.
    real = {record.bot for record in records.values() if not record.is_control}
    controls = {record.bot for record in records.values() if record.is_control} - real
    for key, record in list(records.items()):
        if record.is_control and record.bot in real:
            skipped.append(skip_mixed_control(records.pop(key)))
    dialogues = [
        StudyDialogue(
            *(Conversation(name_of, record.turns), record.bot, record.source, record.ratings, record.flags),
            *(record.line, record.condition, record.meta),
        )
        for name_of, record in zip(names_of(tuple(records)), records.values(), strict=True)
    ]
    return Study(name, tuple(dialogues), tuple(skipped), controls=tuple(sorted(controls)), notes=tuple(notes))


def _add_ratings(records: dict[Key, Record], apart: Iterable[Record]) -> Iterator[Skipped]:
    """Add separate ratings to conversations; yield those without one."""
    by_id: dict[str, list[Key]] = {}
    for key, record in records.items():
        for name in {record.dialogue_id, record.external_id}:
            by_id.setdefault(name, []).append(key)
    for rated in apart:
        keys = [key for key in by_id.get(rated.external_id, ()) if rated.bot in ("", key[2])]
        if len(keys) == 1:
            known = records[keys[0]]
            records[keys[0]] = replace(known, ratings=(*known.ratings, *rated.ratings))
        else:
            yield Skipped(rated.line, lost_rating("conversation", rated.dialogue_id, rated.bot, by_id))


def lost_rating(target: str, name: str, bot: str, by_id: Mapping[str, Sequence[Key]]) -> str:
    """Explain why a rating belongs to no known conversation or item."""
    bots_text = ", ".join(repr(key[2]) for key in by_id.get(name, ()))
    reason = f"which exists for {bots_text}" if bots_text else "which does not exist or was excluded"
    of_bot = f" of bot {quote(bot)}" if bot else ""
    return f"a rating of {target} {quote(name)}{of_bot}, {reason}"
