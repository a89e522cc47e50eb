"""`read`: conversations and ratings from the files that Confab and others write.

Any file of `evaluation.formats` (JSON Lines, the 2019 CSV files), the exported tables `conversations`, or
`messages` or `items` with `ratings`, as CSV, Parquet or JSON Lines, a folder or zip that holds one of these, and a
data package with all of its tables.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chatbots import Conversation
from chatbots.compressed_files import is_zip
from chatbots.text import quote
from evaluation.exported_tables import (
    CONVERSATION_COLUMNS,
    ITEM_COLUMNS,
    MESSAGE_COLUMNS,
    NO_DIMENSIONS,
    Key,
    names_of,
    question_of,
    rows_read,
    study_of_items,
    study_of_tables,
)
from evaluation.formats.base import Record, Skipped, skip_mixed_control, without_clashes
from evaluation.formats.scales import FileScales, Scale
from evaluation.formats.tables import TABLE_ENDINGS, FileTable, header_of, table_read
from evaluation.formats.text_files import format_for, text_lines
from evaluation.package import DESCRIPTOR, Package, PackageError, left_out_of, package_open
from evaluation.study import Study, StudyDialogue

if TYPE_CHECKING:
    import pandas as pd

_TABLES = (MESSAGE_COLUMNS, CONVERSATION_COLUMNS, ITEM_COLUMNS, ("conversation", "rater"))


def read(
    path: str | Path,
    ratings: str | Path | None = None,
    *,
    scale: Scale | Mapping[str, Scale] | None = None,
    reversed: Sequence[str] = (),
    device: str = "cpu",
) -> Study:
    """Read a study.

    Args:
        path: a file of conversations, an exported table `messages`, a folder or zip that holds one of them, or a data
            package, which knows its reversed questions and has all its tables in `tables`.
        ratings: the exported table `ratings` that belongs to it, where it is a file of its own. In a folder or zip it
            is found by its name.
        scale: lowest and highest possible answer, or by question, such as `{"fun": (0, 1), "": (1, 5)}`, "" for all
            others. An answer beyond its scale is left out and listed in `skipped`. Without a scale, the smallest and
            largest answer stand in, which bound no interval.
        reversed: questions of which a high answer is a bad one.
        device: where the study's metrics compute ("cpu", "cuda").

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is in no format known here; the message names those that are. Or for a scale that is none.
    """
    file, scales = Path(path), FileScales.read(scale)
    found = _read(file, Path(ratings) if ratings is not None else None).within(scales)
    unknown = [name for name in reversed if name not in found.dimensions]
    if unknown:
        raise ValueError(
            f"reversed names {quote(unknown[0])}; the study is rated on {', '.join(found.dimensions) or 'nothing'}"
        )
    turned = tuple(reversed) or found.reversed
    return replace(found, scale=scale if scales else found.scale, reversed=turned, device=device)


def _read(file: Path, ratings: Path | None) -> Study:
    if file.is_dir():
        return _of_folder(file, file.name)
    if file.is_file() and is_zip(file):
        with package_open(file) as package:
            if DESCRIPTOR in package.paths:
                return study_of_package(package)
            with tempfile.TemporaryDirectory(prefix="confab-") as folder:
                package.unpack(Path(folder))
                return _of_folder(Path(folder), file.name)
    if _may_be_table(file):
        table = table_read(file)
        there = set(table.columns)
        apart = None if ratings is None else table_read(ratings)
        if there.issuperset(MESSAGE_COLUMNS):
            return study_of_tables(table, apart, file.name)
        if there.issuperset(CONVERSATION_COLUMNS):
            return _of_records(rows_read(table), file.name)
        if there.issuperset(ITEM_COLUMNS):
            return study_of_items(table, apart, file.name)
        if there.issuperset(("conversation", "rater")):
            raise ValueError(
                f"{file.name} holds ratings without their conversations; read the table of messages, with "
                f"ratings={quote(file.name)}"
            )
        if file.suffix.lower() == ".parquet":
            raise ValueError(f"{file.name} holds no conversations: it has the columns {', '.join(table.columns)}")
    return _of_records(format_for(file).read(file), file.name)


def _may_be_table(file: Path) -> bool:
    """Return True if a file may hold a table; JSON Lines do if their first line is a row of one."""
    if not file.name.lower().endswith(TABLE_ENDINGS):
        return False
    if file.suffix.lower() == ".parquet":
        return True
    if ".json" not in file.name.lower():
        header = set(header_of(file))
        return any(header.issuperset(columns) for columns in _TABLES)
    first = next(iter(text_lines(file)), None)
    if first is None or isinstance(first, Skipped):
        return False
    try:
        row = json.loads(first[1])
    except (ValueError, RecursionError):
        return False
    if not isinstance(row, dict):
        return False
    return ("turns" not in row and "conversation" in row) or row.keys() >= set(ITEM_COLUMNS)


def _of_folder(folder: Path, name: str) -> Study:
    """Read the folder's conversations: a file of its own, or the two tables."""
    whole, messages, ratings, items = (
        next((f for ending in TABLE_ENDINGS for f in sorted(folder.rglob(f"{kind}*{ending}"))), None)
        for kind in ("conversations", "messages", "ratings", "items")
    )
    if items is not None:
        judged = table_read(items)
        if judged.rows and set(judged.columns).issuperset(ITEM_COLUMNS):
            return study_of_items(judged, None if ratings is None else table_read(ratings), name)
    if whole is not None:
        return replace(_read(whole, None), name=name)
    if messages is not None:
        answers = None if ratings is None else table_read(ratings)
        return study_of_tables(table_read(messages), answers, name)
    held = ", ".join(sorted(file.name for file in folder.iterdir())[:8]) or "nothing"
    raise ValueError(f"{name} holds neither conversations nor messages as .jsonl, .csv or .parquet; it holds {held}")


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
            (entry["column"], entry["low"], entry["high"], entry["direction"])
            for entry in package.json("codebook.json")["columns"]
            if entry["table"] == "ratings" and entry["asked"] == "after"
        ]
        inferred = {
            entry["column"] for entry in package.json("codebook.json")["columns"] if entry.get("scale_inferred")
        }
    except (KeyError, TypeError) as error:
        raise PackageError(f"{package.name} does not say what its tables hold: {error}") from None
    cells = {name: FileTable(name, tuple(fields[name]), tuple(package.rows(name))) for name in fields}
    scales = [column for column, low, _high, _direction in asked if low is not None]
    answers = cells.get("ratings")
    if answers is not None:
        kept = (name for name in answers.columns if name in NO_DIMENSIONS or name in scales)
        answers = replace(answers, columns=tuple(kept))
    items = cells.get("items")
    if items is not None and items.rows:
        study = study_of_items(items, answers, package.name)
    else:
        if "turns" not in cells:
            raise PackageError(f"{package.name} holds no table of turns")
        study = study_of_tables(cells["turns"], answers, package.name)
    turned = [column for column, _low, _high, told in asked if told.startswith("lower")]
    keys = {key for one in study.dialogues for rating in one.ratings for key in rating.answers}
    given = {
        question_of(column): (float(low), float(high))
        for column, low, high, _direction in asked
        if low is not None and column not in inferred
    }
    return replace(
        study,
        scale={key: ends for key, ends in given.items() if key in keys} or None,
        reversed=tuple(key for column in turned if (key := question_of(column)) in keys),
        tables={
            name: pd.DataFrame(table.rows, columns=list(table.columns), dtype=object).apply(
                lambda one, kinds=fields[name]: _typed(one, kinds[one.name])
            )
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
    """Return the study of records as a format reads them, ratings that stand apart next to their conversations."""
    records: dict[Key, Record] = {}
    skipped: list[Skipped] = []
    for item in without_clashes(read):
        if isinstance(item, Skipped):
            skipped.append(item)
        elif item.ratings_only:
            skipped.append(Skipped(item.line, f"a rating of {item.dialogue_id}, which is not in the file"))
        elif known := records.get(item.key):
            more = tuple(rating for rating in item.ratings if rating not in known.ratings)
            records[item.key] = replace(known, ratings=(*known.ratings, *more))
        else:
            records[item.key] = item
    if not records and skipped:
        first = skipped[0]
        raise ValueError(f"no conversation could be read from {name}; line {first.line}: {first.reason}")
    # A bot that stands for itself, too, is no control: what degraded it is left out.
    real = {record.bot for record in records.values() if not record.is_control}
    controls = {record.bot for record in records.values() if record.is_control} - real
    for key, record in list(records.items()):
        if record.is_control and record.bot in real:
            skipped.append(skip_mixed_control(records.pop(key)))
    dialogues = [
        StudyDialogue(
            Conversation(name_of, record.turns), record.bot, record.source, record.ratings, record.flags, record.line
        )
        for name_of, record in zip(names_of(tuple(records)), records.values(), strict=True)
    ]
    return Study(name, tuple(dialogues), tuple(skipped), controls=tuple(sorted(controls)))
