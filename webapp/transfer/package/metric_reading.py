"""Import of a data package's metrics: values of each conversation and turn, and reasons for undefined ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from chatbots import Identity
from chatbots.storable import quote
from evaluation.package import Package, PackageError
from webapp.runs.models import MetricResult, MetricVersion
from webapp.studies.models import Study
from webapp.transfer.package.storing import conversations_named

BATCH = 500
_FIELDS = ["values", "turns", "reasons", "language"]
Rows = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """A metric of the package, with the names of its columns in the tables `metrics` and `turn_metrics`."""

    version: MetricVersion
    columns: tuple[str, ...]
    turn_columns: tuple[str, ...]


def metrics_named(package: Package) -> list[MeasuredBy]:
    """Return the metrics whose values the package has; none for a package that does not say whose its columns are.

    Raises:
        PackageError: a metric's key is not that of its identity, or a column is not in the package.
    """
    made_as = package.json("versions.json")
    found = []
    for one in made_as.get("metrics") or ():
        if "columns" not in one:
            continue
        try:
            name, version, key, params = one["name"], one["version"], one["key"], one["params"]
            columns, turn_columns = map(str, one["columns"]), map(str, one["turn_columns"])
            is_it = Identity(name, version, params).key == key
        except (KeyError, TypeError, ValueError) as error:
            raise PackageError(
                f"versions.json lacks what it must say of a metric: {error}"
            ) from None
        if not is_it:
            raise PackageError(
                f"versions.json: {quote(key)} is not the key of metric {quote(name)}, version {quote(version)}, "
                "with these settings"
            )
        row, _made = MetricVersion.objects.get_or_create(
            key=key, defaults={"name": name, "version": version, "params": params}
        )
        found.append(MeasuredBy(row, tuple(columns), tuple(turn_columns)))
    return found


def metrics_read(*, study: Study, package: Package, metrics: list[MeasuredBy]) -> Iterator[int]:
    """Store what the package's tables say of its metrics, what is there already stays. Yields how many rows were read.

    Raises:
        PackageError: a cell is no number, or a column or table is missing.
    """
    if not metrics:
        return
    for batch in _batches(package, "metrics"):
        with transaction.atomic():
            _Batch(study, metrics, batch).values()
        yield len(batch)
    for batch in _batches(package, "undefined"):
        with transaction.atomic():
            _Batch(study, metrics, batch).reasons()
        yield len(batch)
    for batch in _whole(_batches(package, "turn_metrics")):
        with transaction.atomic():
            _Batch(study, metrics, batch).turns()
        yield len(batch)


class _Batch:
    """Rows of a table, and the results of their conversations: those that are stored and those that are new."""

    def __init__(self, study: Study, metrics: list[MeasuredBy], rows: Rows) -> None:
        self.metrics = metrics
        self.rows = rows
        self.chats = conversations_named(study, {_cell(row, "conversation") for row in rows})
        stored = MetricResult.objects.filter(
            conversation__in=list(self.chats.values()),
            metric__in=[one.version.pk for one in metrics],
        )
        self.there = {(one.conversation_id, one.metric_id): one for one in stored}
        self.changed: dict[tuple[Any, int], MetricResult] = {}

    def values(self) -> None:
        """Store the values of conversations."""
        for row in self.rows:
            for metric in self.metrics:
                found = {name: _number(_cell(row, name)) for name in metric.columns}
                if any(value is not None for value in found.values()):
                    self._add(row, metric, "values", found)
        self._store()

    def reasons(self) -> None:
        """Store why values are undefined."""
        by_column = {
            name: metric for metric in self.metrics for name in metric.columns + metric.turn_columns
        }
        for row in self.rows:
            name = _cell(row, "metric")
            metric = by_column.get(name)
            if metric is None:
                continue
            told = _cell(row, "details")
            reason = json.loads(told) if told else _cell(row, "reason")
            result = self._add(row, metric, "reasons", {name: reason})
            if result is None:
                continue
            self._add(row, metric, "values", dict.fromkeys(metric.columns))
            if isinstance(reason, dict) and not result.language:
                result.language = str(reason.get("language", ""))
                self._add(row, metric, "turns", {one: [] for one in metric.turn_columns})
        self._store()

    def turns(self) -> None:
        """Store the values of turns; all turns of a conversation are in the batch."""
        for _chat, found in itertools.groupby(self.rows, lambda row: row["conversation"]):
            rows = sorted(found, key=lambda row: int(_cell(row, "turn")))
            for metric in self.metrics:
                columns = {
                    name: [_number(_cell(row, name)) for row in rows]
                    for name in metric.turn_columns
                }
                if any(value is not None for values in columns.values() for value in values):
                    self._add(rows[0], metric, "turns", columns)
        self._store()

    def _add(
        self, row: Mapping[str, str], metric: MeasuredBy, field: str, found: Mapping[str, Any]
    ) -> MetricResult | None:
        """Add to a result what it does not have yet. Returns it; None for a conversation that is not there."""
        chat = self.chats.get(row["conversation"])
        if chat is None:
            return None
        key = (chat, metric.version.pk)
        result = self.there.get(key)
        if result is None:
            result = MetricResult(conversation_id=chat, metric_id=metric.version.pk)
            self.there[key] = result
        has = getattr(result, field)
        new = {name: value for name, value in found.items() if name not in has}
        if new or result.pk is None:
            has.update(new)
            self.changed[key] = result
        return result

    def _store(self) -> None:
        MetricResult.objects.bulk_create([one for one in self.changed.values() if one.pk is None])
        old = [one for one in self.changed.values() if one.pk is not None]
        MetricResult.objects.bulk_update(old, _FIELDS, batch_size=200)


def _batches(package: Package, table: str) -> Iterator[Rows]:
    rows = package.rows(table)
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch


def _whole(batches: Iterable[Rows]) -> Iterator[Rows]:
    """Yield batches in which the last conversation is there with all of its rows."""
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
        raise PackageError(f"the tables of metrics have no column {quote(name)}") from None


def _number(cell: str) -> float | None:
    if not cell:
        return None
    try:
        return float(cell) if any(c in cell for c in ".eE") else int(cell)
    except ValueError:
        raise PackageError(f"a table of metrics has {quote(cell)}, which is no number") from None
