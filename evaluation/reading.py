"""`read`: conversations and ratings from the files that Confab and others write.

Any file of `evaluation.formats` (JSON Lines, the 2019 CSV files), the exported tables `conversations`, or `messages` or
`items` with `ratings`, as CSV, Parquet or JSON Lines, a folder or zip that holds one of these, and a data package with all
of its tables.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatbots import Conversation, Turn
from evaluation.formats.base import (
    BadRecord,
    Record,
    RecordRating,
    Skipped,
    skip_mixed_control,
    without_clashes,
)
from evaluation.formats.jsonl import record_of
from evaluation.formats.lines import head_of, text_lines
from evaluation.formats.recognition import format_for
from evaluation.formats.spreadsheet import unescaped
from evaluation.package import DESCRIPTOR, Package, PackageError, left_out_of, package_open
from evaluation.study import Dialogue, Study

if TYPE_CHECKING:
    import pandas as pd

_Key = tuple[str, str, str]
"""Of a conversation: its source, its id there and its bot (`Record.key`)."""
_MESSAGE_COLUMNS = {"conversation", "bot", "turn", "speaker", "text"}
_NO_DIMENSIONS = {
    *(
        "rating",
        "conversation",
        "bot",
        "bot_version",
        "rater",
        "n_exchanges",
        "study",
        "is_synthetic",
    ),
    *("comment", "submitted_at", "platform", "external_id", "completion_code"),
    *("target", "turn", "item", "first", "second", "first_bot", "second_bot", "task", "version"),
    *("direction", "reference_score", "kept_both"),
}
"""Columns of exported ratings that are no questions; a question called like one of them is `answer_NAME` there."""
_TABLE_ENDINGS = (".csv", ".parquet", ".jsonl", ".jsonl.gz")
_ITEM_COLUMNS = {"item", "context", "responses"}
_CONVERSATION_COLUMNS = {"dialogue_id", "bot", "turns"}


def read(
    path: str | Path,
    ratings: str | Path | None = None,
    *,
    scale: tuple[float, float] | None = None,
    reversed: Sequence[str] = (),
    device: str = "cpu",
) -> Study:
    """Read a study.

    Args:
        path: a file of conversations, an exported table `messages`, a folder or zip that holds one of them, or a data
            package, which knows its reversed questions and has all its tables in `tables`.
        ratings: the exported table `ratings` that belongs to it, where it is a file of its own. In a folder or zip it
            is found by its name.
        scale: lowest and highest possible answer; None: the smallest and largest there are.
        reversed: questions of which a high answer is a bad one.
        device: where the study's metrics compute ("cpu", "cuda").

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is in no format known here; the message names those that are.
    """
    file = Path(path)
    found = _read(file, Path(ratings) if ratings is not None else None)
    unknown = [name for name in reversed if name not in found.dimensions]
    if unknown:
        raise ValueError(
            f"reversed names {unknown[0]!r}; the study is rated on {', '.join(found.dimensions) or 'nothing'}"
        )
    turned = tuple(reversed) or found.reversed
    return replace(found, scale=scale, reversed=turned, device=device)


def _read(file: Path, ratings: Path | None) -> Study:
    if file.is_dir():
        return _of_folder(file, file.name)
    if zipfile.is_zipfile(file):
        with package_open(file) as package:
            if DESCRIPTOR in package.paths:
                return study_of_package(package)
            with tempfile.TemporaryDirectory(prefix="confab-") as folder:
                package.unpack(Path(folder))
                return _of_folder(Path(folder), file.name)
    if _may_be_table(file):
        table = _table(file)
        if set(table.columns) >= _MESSAGE_COLUMNS:
            return _of_tables(table, None if ratings is None else _table(ratings), file.name)
        if set(table.columns) >= _CONVERSATION_COLUMNS:
            return _of_records(_rows_read(table), file.name)
        if set(table.columns) >= _ITEM_COLUMNS:
            return _of_items(table, None if ratings is None else _table(ratings), file.name)
        if set(table.columns) >= {"conversation", "rater"}:
            raise ValueError(
                f"{file.name} holds ratings without their conversations; read the table of messages, with "
                f"ratings={file.name!r}"
            )
    return _of_records(format_for(file).read(file), file.name)


def _may_be_table(file: Path) -> bool:
    """Return whether a file may hold a table: JSON Lines do where their first line is a row of one."""
    if not file.name.lower().endswith(_TABLE_ENDINGS):
        return False
    if ".jsonl" not in file.name.lower():
        return True
    try:
        first = json.loads(head_of(file, n_bytes=1_000_000).partition("\n")[0])
    except ValueError:
        return False
    if not isinstance(first, dict):
        return False
    return ("turns" not in first and "conversation" in first) or first.keys() >= _ITEM_COLUMNS


def _of_folder(folder: Path, name: str) -> Study:
    """Read the folder's conversations: a file of its own, or the two tables."""
    whole, messages, ratings, items = (
        next(
            (f for ending in _TABLE_ENDINGS for f in sorted(folder.rglob(f"{kind}*{ending}"))), None
        )
        for kind in ("conversations", "messages", "ratings", "items")
    )
    answers = _table(ratings) if ratings is not None else None
    if items is not None and len(judged := _table(items)):
        return _of_items(judged, answers, name)
    if whole is not None:
        return replace(_read(whole, None), name=name)
    if messages is None:
        held = ", ".join(sorted(file.name for file in folder.iterdir())[:8]) or "nothing"
        raise ValueError(
            f"{name} holds neither conversations nor messages as .jsonl, .csv or .parquet; it holds {held}"
        )
    return _of_tables(_table(messages), answers, name)


def study_of_package(package: Package) -> Study:
    """Return the study of a data package, with all its tables.

    Raises:
        PackageError: it lacks a table or what says of it how to read it.
    """
    import pandas as pd

    descriptor = package.json(DESCRIPTOR)
    try:
        fields = {
            one["name"]: {field["name"]: field["type"] for field in one["schema"]["fields"]}
            for one in descriptor["resources"]
        }
        left_out = left_out_of(descriptor)
        asked = [
            (entry["column"], entry["low"], entry["direction"])
            for entry in package.json("codebook.json")["columns"]
            if entry["table"] == "ratings" and entry["asked"] == "after"
        ]
    except (KeyError, TypeError) as error:
        raise PackageError(f"{package.name} does not say what its tables hold: {error}") from None
    cells = {name: pd.DataFrame(package.rows(name), columns=list(fields[name])) for name in fields}
    scales = [column for column, low, _direction in asked if low is not None]
    answers = cells.get("ratings")
    if answers is not None:
        answers = answers[[name for name in answers if name in _NO_DIMENSIONS or name in scales]]
    items = cells.get("items")
    if items is not None and len(items):
        study = _of_items(items, answers, package.name)
    else:
        if "turns" not in cells:
            raise PackageError(f"{package.name} holds no table of turns")
        study = _of_tables(cells["turns"], answers, package.name)
    turned = [column for column, _low, direction in asked if direction.startswith("lower")]
    keys = {key for one in study.dialogues for rating in one.ratings for key in rating.answers}
    return replace(
        study,
        reversed=tuple(key for column in turned if (key := column.removeprefix("answer_")) in keys),
        tables={
            name: table.apply(lambda one, kinds=fields[name]: _typed(one, kinds[one.name]))
            if len(table.columns)
            else table
            for name, table in cells.items()
        },
        left_out=left_out,
    )


def _typed(cells: pd.Series, kind: str) -> pd.Series:
    """Return a column of texts as its type in Table Schema has it; an empty cell is missing."""
    import pandas as pd

    given = cells.mask(cells == "")
    if kind == "integer":
        return pd.to_numeric(given).astype("Int64")
    if kind == "number":
        return pd.to_numeric(given).astype("float64")
    if kind == "boolean":
        return given.map({"true": True, "false": False}).astype("boolean")
    if kind == "datetime":
        return pd.to_datetime(given, utc=True, format="ISO8601")
    if kind == "any":
        return given.map(json.loads, na_action="ignore")
    return given.astype("string")


def _of_records(read: Iterable[Record | Skipped], name: str) -> Study:
    """Return the study of records as a format reads them, ratings that stand apart beside their conversations."""
    records: dict[_Key, Record] = {}
    skipped: list[Skipped] = []
    for item in without_clashes(read):
        if isinstance(item, Skipped):
            skipped.append(item)
        elif item.ratings_only:
            skipped.append(
                Skipped(item.line, f"a rating of {item.dialogue_id}, which is not in the file")
            )
        elif known := records.get(item.key):
            more = tuple(rating for rating in item.ratings if rating not in known.ratings)
            records[item.key] = replace(known, ratings=(*known.ratings, *more))
        else:
            records[item.key] = item
    if not records and skipped:
        first = skipped[0]
        raise ValueError(
            f"no conversation could be read from {name}; line {first.line}: {first.reason}"
        )
    # A bot that stands for itself, too, is no control: what degraded it is left out.
    real = {record.bot for record in records.values() if not record.is_control}
    controls = {record.bot for record in records.values() if record.is_control} - real
    for key, record in list(records.items()):
        if record.is_control and record.bot in real:
            skipped.append(skip_mixed_control(records.pop(key)))
    dialogues = [
        Dialogue(
            Conversation(name_of, record.turns),
            record.bot,
            record.source,
            record.ratings,
            record.flags,
        )
        for name_of, record in zip(_names(tuple(records)), records.values(), strict=True)
    ]
    return Study(name, tuple(dialogues), tuple(skipped), controls=tuple(sorted(controls)))


def _names(keys: Sequence[_Key]) -> list[str]:
    """Name each conversation by its id, with its source and then its bot where ids repeat."""
    ids = [dialogue for _source, dialogue, _bot in keys]
    sourced = [f"{source}/{dialogue}" if source else dialogue for source, dialogue, _bot in keys]
    with_bots = [f"{name}/{key[2]}" for name, key in zip(sourced, keys, strict=True)]
    for names in (ids, sourced, with_bots):
        if len(set(names)) == len(names):
            return names
    return [f"{name}#{number}" for number, name in enumerate(with_bots, start=1)]


def _rows_read(table: pd.DataFrame) -> Iterator[Record | Skipped]:
    """Yield the conversations of the exported table of that name, whose turns and ratings are JSON texts."""
    names = [
        name
        for name in ("dialogue_id", "bot", "source", "turns", "ratings", "flags")
        if name in table
    ]
    for number, row in enumerate(table[names].to_dict("records"), start=1):
        try:
            for name in ("turns", "ratings", "flags"):
                if isinstance(row.get(name), str):
                    row[name] = json.loads(row[name])
            yield record_of({str(key): value for key, value in row.items()}, line=number)
        except (BadRecord, ValueError) as error:
            yield Skipped(number, str(error))


def _table(file: Path) -> pd.DataFrame:
    """Return an exported table; texts as they were before they were made safe for spreadsheets."""
    import pandas as pd

    if file.suffix.lower() == ".parquet":
        return pd.read_parquet(file)
    if ".jsonl" in file.name.lower():
        lines = [line for line in text_lines(file) if not isinstance(line, Skipped)]
        return pd.DataFrame([json.loads(text) for _number, text in lines], dtype=object)
    table = pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    for name in table.columns:
        table[name] = table[name].map(unescaped)
    return table


def _of_tables(messages: pd.DataFrame, ratings: pd.DataFrame | None, name: str) -> Study:
    """Return the study of the two exported tables; a conversation's key is its id and bot."""
    turns: dict[_Key, dict[int, tuple[int, Turn]]] = {}
    clashes: dict[_Key, Skipped] = {}
    for number, row in enumerate(messages.to_dict("records"), start=1):
        key = ("", str(row["conversation"]), str(row["bot"]))
        turn = Turn(row["speaker"], str(row["text"]), int(_number(row.get("vote")) or 0))
        there = turns.setdefault(key, {}).setdefault(int(row["turn"]), (number, turn))
        if there[1] != turn and key not in clashes:
            clashes[key] = Skipped(
                number,
                f"conversation {key[1]!r} of bot {key[2]!r} has another turn {row['turn']} in row "
                f"{there[0]} than in row {number}",
            )
    told = {
        key: tuple(turn for _at, (_row, turn) in sorted(said.items()))
        for key, said in turns.items()
        if key not in clashes
    }
    return _rated_apart(told, ratings, "conversation", name, tuple(clashes.values()))


def _of_items(items: pd.DataFrame, ratings: pd.DataFrame | None, name: str) -> Study:
    """Return items with one reply as conversations that end with it, said by the model."""
    told: dict[_Key, tuple[Turn, ...]] = {}
    rows: dict[_Key, int] = {}
    clashes: dict[_Key, Skipped] = {}
    compared: set[str] = set()
    for number, row in enumerate(items.to_dict("records"), start=1):
        context, responses = (_listed(row[name]) for name in ("context", "responses"))
        if len(responses) != 1:
            compared.add(str(row["item"]))
            continue
        said = [*context, *responses]
        turns = tuple(
            Turn("bot" if (len(said) - place) % 2 else "human", text)
            for place, text in enumerate(said)
        )
        key = ("", str(row["item"]), "" if _blank(row.get("bot")) else str(row["bot"]))
        if told.setdefault(key, turns) != turns and key not in clashes:
            clashes[key] = Skipped(
                number,
                f"item {key[1]!r} of {key[2]!r} has other texts in row {rows[key]} than in row {number}",
            )
        rows.setdefault(key, number)
    kept = {key: turns for key, turns in told.items() if key not in clashes}
    return _rated_apart(kept, ratings, "item", name, tuple(clashes.values()), compared)


def _rated_apart(
    told: Mapping[_Key, tuple[Turn, ...]],
    ratings: pd.DataFrame | None,
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
    by_id: dict[str, list[_Key]] = {}
    for key in told:
        by_id.setdefault(key[1], []).append(key)
    answers: dict[_Key, list[RecordRating]] = {key: [] for key in told}
    lost: list[Skipped] = []
    for number, bot, rated, rating in _answers(ratings, target):
        keys = [key for key in by_id.get(rated, ()) if bot in ("", key[2])]
        if len(keys) == 1:
            answers[keys[0]].append(rating)
        elif rated not in passed_over:
            held = ", ".join(repr(key[2]) for key in by_id.get(rated, ()))
            why = f"which is there for {held}" if held else "which is not there or was left out"
            of_bot = f" of bot {bot!r}" if bot else ""
            lost.append(Skipped(number, f"a rating of {target} {rated!r}{of_bot}, {why}"))
    dialogues = tuple(
        Dialogue(Conversation(id=named, turns=turns), key[2], ratings=tuple(answers[key]))
        for named, (key, turns) in zip(_names(tuple(told)), told.items(), strict=True)
    )
    return Study(name, dialogues, (*skipped, *lost))


def _listed(cell: Any) -> list[str]:
    found = json.loads(cell) if isinstance(cell, str) else cell
    return [str(text) for text in found]


def _answers(
    ratings: pd.DataFrame | None, target: str
) -> Iterator[tuple[int, str, str, RecordRating]]:
    """Yield row, bot, target and rating of an exported table's ratings of such targets."""
    if ratings is None:
        return
    dimensions = [name for name in ratings.columns if name not in _NO_DIMENSIONS]
    for number, row in enumerate(ratings.to_dict("records"), start=1):
        if row.get("target", "conversation") == target:
            bot = "" if _blank(row.get("bot")) else str(row["bot"])
            yield number, bot, str(row[target]), _rating(row, dimensions)


def _rating(row: Mapping[Any, Any], dimensions: list[str]) -> RecordRating:
    given = {name.removeprefix("answer_"): _number(row[name]) for name in dimensions}
    return RecordRating(
        {name: value for name, value in given.items() if value is not None},
        rater="" if _blank(row.get("rater")) else str(row["rater"]),
        comment="" if _blank(row.get("comment")) else str(row["comment"]),
    )


def _number(cell: Any) -> float | None:
    return None if _blank(cell) else float(cell)


def _blank(cell: Any) -> bool:
    return cell is None or cell != cell or cell == ""
