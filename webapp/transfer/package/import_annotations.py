"""Import of a package's metric results and readers' notes.

Metric results are imported by conversation and by turn, undefined values with their reasons. Stars, tags and notes are
imported without an author, because the same user name may belong to another person here.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatbots import Identity
from chatbots.text import quote
from evaluation.data.package import Package, PackageError
from webapp.core.clock import database_now
from webapp.core.column_bounds import check_rows
from webapp.core.errors import Refused
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.search.models import Note
from webapp.search.services import note_checked, tag_checked
from webapp.studies.models import Study
from webapp.transfer.package.import_checks import time_of
from webapp.transfer.package.import_rows import PackageBatch, conversations_named
from webapp.transfer.package.row_checks import BATCH, read_whole_number, store_rows

_FIELDS = ["values", "turns", "reasons", "language"]
Rows = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """Metric of the package, with its columns in `metrics` and `turn_metrics`."""

    version: MetricVersion
    columns: tuple[str, ...]
    turn_columns: tuple[str, ...]


def metrics_named(package: Package) -> list[MeasuredBy]:
    """Return the package's metrics.

    None if it does not name its columns' metrics.

    Raises:
        PackageError: a metric's key does not match its identity, or a column is missing.
    """
    made_as = package.json("versions.json")
    measured_metrics = []
    for metric in made_as.get("metrics") or ():
        if "columns" not in metric:
            continue
        try:
            name, version, key, params = metric["name"], metric["version"], metric["key"], metric["params"]
            columns, turn_columns = map(str, metric["columns"]), map(str, metric["turn_columns"])
            is_it = Identity(name, version, params).key == key
        except (KeyError, TypeError, ValueError) as error:
            raise PackageError(f"versions.json lacks required information on a metric: {error}") from None
        if not is_it:
            raise PackageError(
                f"versions.json: {quote(key)} is not the key of metric {quote(name)}, version {quote(version)}, "
                "with these settings"
            )
        row, _is_new = MetricVersion.objects.get_or_create(
            key=key, defaults={"name": name, "version": version, "params": params}
        )
        measured_metrics.append(MeasuredBy(row, tuple(columns), tuple(turn_columns)))
    return measured_metrics


def metrics_read(*, study: Study, package: Package, metrics: list[MeasuredBy]) -> Iterator[int]:
    """Store the package's metric results, keeping existing ones.

    Yields the number of rows read.

    Raises:
        PackageError: a cell is not a number, or a column or table is missing.
    """
    if not metrics:
        return
    stores: dict[str, Callable[[Sequence[dict[str, str]]], None]] = {
        "metrics": lambda rows: _Batch(study, metrics, rows).values(),
        "undefined": lambda rows: _Batch(study, metrics, rows).reasons(),
        "turn_metrics": lambda rows: _Batch(study, metrics, rows).turns(),
    }
    for table, store in stores.items():
        number = 1
        batches = _batches(package, table)
        for batch in _group_whole_chats(batches) if table == "turn_metrics" else batches:
            store_rows(table, number, batch, store)
            number += len(batch)
            yield len(batch)


class _Batch:
    """Batch of rows with the stored and new results of their conversations."""

    def __init__(self, study: Study, metrics: list[MeasuredBy], rows: Sequence[dict[str, str]]) -> None:
        self.metrics = metrics
        self.rows = rows
        self.chats = conversations_named(study, {_cell(row, "conversation") for row in rows})
        stored = MetricResult.objects.filter(
            conversation__in=list(self.chats.values()), metric__in=[metric.version.pk for metric in metrics]
        )
        self.results = {(result.conversation_id, result.metric_id): result for result in stored}
        self.changed: dict[tuple[Any, int], MetricResult] = {}

    def values(self) -> None:
        """Store the values of conversations."""
        for row in self.rows:
            for metric in self.metrics:
                cell_values = {name: _number(_cell(row, name)) for name in metric.columns}
                if any(value is not None for value in cell_values.values()):
                    self._add(row, metric, "values", cell_values)
        self._store()

    def reasons(self) -> None:
        """Store why values are undefined."""
        by_column = {name: metric for metric in self.metrics for name in metric.columns + metric.turn_columns}
        for row in self.rows:
            name = _cell(row, "metric")
            metric = by_column.get(name)
            if metric is None:
                continue
            details_text = _cell(row, "details")
            reason = json.loads(details_text) if details_text else _cell(row, "reason")
            result = self._add(row, metric, "reasons", {name: reason})
            if result is None:
                continue
            self._add(row, metric, "values", dict.fromkeys(metric.columns))
            if isinstance(reason, dict) and not result.language:
                result.language = str(reason.get("language", ""))
                self._add(row, metric, "turns", {column: [] for column in metric.turn_columns})
        self._store()

    def turns(self) -> None:
        """Store the values of turns.

        All turns of a conversation are in the batch.
        """
        for _chat, chat_rows in itertools.groupby(self.rows, lambda row: row["conversation"]):
            rows = sorted(chat_rows, key=lambda row: read_whole_number(_cell(row, "turn")))
            for metric in self.metrics:
                columns = {name: [_number(_cell(row, name)) for row in rows] for name in metric.turn_columns}
                if any(value is not None for values in columns.values() for value in values):
                    self._add(rows[0], metric, "turns", columns)
        self._store()

    def _add(
        self, row: Mapping[str, str], metric: MeasuredBy, field: str, new_values: Mapping[str, Any]
    ) -> MetricResult | None:
        """Add missing values to a result and return it.

        None if the conversation does not exist.
        """
        chat = self.chats.get(row["conversation"])
        if chat is None:
            return None
        key = (chat, metric.version.pk)
        result = self.results.get(key)
        if result is None:
            result = MetricResult(conversation_id=chat, metric_id=metric.version.pk)
            self.results[key] = result
        has = getattr(result, field)
        new = {name: value for name, value in new_values.items() if name not in has}
        if new or result.pk is None:
            has.update(new)
            self.changed[key] = result
        return result

    def _store(self) -> None:
        check_rows(self.changed.values())
        MetricResult.objects.bulk_create([result for result in self.changed.values() if result.pk is None])
        old = [result for result in self.changed.values() if result.pk is not None]
        MetricResult.objects.bulk_update(old, _FIELDS, batch_size=200)


def _batches(package: Package, table: str) -> Iterator[Rows]:
    rows = package.rows(table)
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch


def _group_whole_chats(batches: Iterable[Rows]) -> Iterator[Rows]:
    """Yield batches that never split a conversation's rows."""
    rest: Rows = []
    for batch in batches:
        rows = rest + batch
        last = rows[-1]["conversation"]
        first = next(i for i, row in enumerate(rows) if row["conversation"] == last)
        rest = rows[first:]
        if first:
            yield rows[:first]
    if rest:
        yield rest


def _cell(row: Mapping[str, str], name: str) -> str:
    try:
        return row[name]
    except KeyError:
        raise PackageError(f"the metric tables have no column {quote(name)}") from None


def _number(cell: str) -> float | None:
    if not cell:
        return None
    try:
        return float(cell) if any(c in cell for c in ".eE") else read_whole_number(cell)
    except ValueError:
        raise ValueError(f"{quote(cell)} is not a number") from None


TABLE = "reader_notes"
Row = Mapping[str, str]


def notes_read(*, study: Study, package: Package) -> Iterator[PackageBatch]:
    """Store new stars, tags and notes; early packages have none.

    Stars and tags are matched by text, notes by creation time, because retention may have emptied their text. Yields
    the result of each batch.

    Raises:
        PackageError: a row has an unknown kind or invalid content.
    """
    if TABLE not in package.tables():
        return
    rows = enumerate(package.rows(TABLE), start=1)
    while batch := list(itertools.islice(rows, BATCH)):
        yield store_rows(TABLE, batch[0][0], batch, functools.partial(_store, study))


def _store(study: Study, batch: Sequence[tuple[int, Row]]) -> PackageBatch:
    stored = PackageBatch()
    ids = conversations_named(study, {row.get("conversation", "") for _number, row in batch})
    read: dict[tuple[Any, ...], Note] = {}
    for number, row in batch:
        note = _note(number, row)
        if row["conversation"] in ids:
            note.conversation_id = ids[row["conversation"]]
            read.setdefault(_name(note), note)
        else:
            location = f"conversation {quote(row['conversation'])}"
            stored.left_out.append((location, f"a {note.kind} refers to it, but it is not in the package"))
    stored_names = {_name(note) for note in Note.objects.filter(conversation__in=ids.values())}
    new = {name: note for name, note in read.items() if name not in stored_names}
    written_at = [note.created_at for note in new.values()]
    check_rows(new.values())
    Note.objects.bulk_create(new.values())  # which sets the current time
    for note, created_at in zip(new.values(), written_at, strict=True):
        note.created_at = created_at
    Note.objects.bulk_update(new.values(), ["created_at"], batch_size=200)
    stored.n_new = len(new)
    return stored


def _note(number: int, row: Row) -> Note:
    """Return the row's note, not yet linked to a conversation."""
    location = f"data/{TABLE}.csv, row {number}"
    missing = {"conversation", "kind", "text", "created_at"} - row.keys()
    if missing:
        raise PackageError(f"{location}: there is no column {quote(min(missing))}")
    kind, text = row["kind"], row["text"]
    try:
        if kind not in Note.Kind.values:
            raise ValueError(f"kind {quote(kind)} is unknown; it must be star, tag or note")
        if kind == Note.Kind.TAG:
            text = tag_checked(text)
        elif kind == Note.Kind.NOTE and text:  # empty if retention has emptied it
            text = note_checked(text)
        created_at = time_of(row["created_at"]) or database_now()
    except (ValueError, Refused) as error:
        raise PackageError(f"{location}: {error}") from None
    return Note(kind=kind, text="" if kind == Note.Kind.STAR else text, created_at=created_at)


def _name(note: Note) -> tuple[Any, ...]:
    """Return the fields that identify a star, tag or note."""
    identity = note.created_at if note.kind == Note.Kind.NOTE else note.text
    return note.conversation_id, note.kind, identity
