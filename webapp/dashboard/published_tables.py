"""Published correlations as tables: beside ours on the benchmark's pages, and all of them by set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluation.printing import share, span
from evaluation.published.rows import (
    Published,
    PublishedSet,
    caveats_of,
    published_rows,
    published_sets,
)
from evaluation.stats.correlation import Method
from webapp.dashboard.benchmark_grid import METHODS, Grid, GridRow
from webapp.dashboard.plots.figure import Cell, Header, Table


@dataclass(frozen=True, slots=True)
class SetPublished:
    """All that is published of one set.

    Attributes:
        name: as judged files give it in `source`.
        ceilings: by dialogue model what a perfect metric could reach, in words.
    """

    name: str
    found: PublishedSet
    table: Table
    ceilings: str
    caveats: list[str]


def sets_published() -> list[SetPublished]:
    """Return every set with its published figures."""
    found = []
    for name, one in published_sets().items():
        rows = [row for row in published_rows() if row.set == name]
        found.append(
            SetPublished(name, one, published_table(rows), _ceilings(one), caveats_of(rows))
        )
    return found


def _ceilings(one: PublishedSet) -> str:
    return ", ".join(f"{_in_words(model)} {share(value)}" for model, value in one.ceilings.items())


def published_table(rows: Sequence[Published]) -> Table:
    """Return published figures with intervals by r and n, by the three coefficients.

    A column in which all rows say the same, or none says anything, is left out.
    """
    has_dimensions = len({row.dimension for row in rows}) > 1
    methods = [
        method for method in METHODS if any(row.values.get(method) is not None for row in rows)
    ]
    has_notes = any(row.note for row in rows)
    headers = [Header("Metric"), Header("Dialogue model")]
    headers += [Header("Dimension")] * has_dimensions
    headers += [Header(METHODS[method], numeric=True) for method in methods]
    headers += [Header("n", numeric=True), Header("Published by")]
    headers += [Header("Mind")] * has_notes
    return Table(
        headers,
        [
            [
                Cell(row.title),
                Cell(_in_words(row.system) or "all"),
                *[Cell(row.dimension)] * has_dimensions,
                *(Cell(_with_interval(row, method), raw=_raw(row, method)) for method in methods),
                Cell(str(row.n or ""), raw=(row.n,)),
                Cell(row.place),
                *[Cell(row.note)] * has_notes,
            ]
            for row in rows
        ],
    )


def _in_words(model: str) -> str:
    """Return a dialogue model's name with spaces, at which a narrow column can break it."""
    return model.replace("_", " ")


def _raw(row: Published, method: Method) -> tuple[float | None, ...]:
    return (row.values.get(method),)


def _with_interval(row: Published, method: Method) -> str:
    value = row.values.get(method)
    if value is None:
        return "–"
    return f"{share(value)} {span(*row.interval(method), shares=True)}"


@dataclass(frozen=True, slots=True)
class BesideOurs:
    """Published figures beside ours on the same data sets.

    Attributes:
        caveats: what to mind of the published ones.
        parts: data sets of which fewer replies are here, in words.
    """

    table: Table
    caveats: list[str]
    parts: list[str]


def beside_ours(grid: Grid, method: Method) -> BesideOurs | None:
    """Set what is published of the grid's data sets beside its own figures; None where nothing is.

    Shown are the metrics that are computed here or have a form that is; the others have a page of their own.
    """
    found = list(_pairs(grid, method))
    if not found:
        return None
    headers = [Header("Data"), Header("Published metric"), Header("r", numeric=True)]
    headers += [Header("95 %", numeric=True), Header("n", numeric=True), Header("Published by")]
    headers += [Header("Here"), Header("r", numeric=True), Header("95 %", numeric=True)]
    headers += [Header("n", numeric=True), Header("Same formula")]
    rows = []
    for title, row, ours, k in found:
        cell = ours.cells[k]
        value, (low, high) = row.values[method], row.interval(method)
        rows.append([
            Cell(title), Cell(row.title), Cell(share(value), raw=(value,)),
            Cell(span(low, high, shares=True), raw=(low, high)), Cell(str(row.n or ""), raw=(row.n,)),
            Cell(row.place), Cell(ours.title, href=cell.href), Cell(cell.number, raw=(cell.r,)),
            Cell(span(cell.low, cell.high, shares=True), raw=(cell.low, cell.high)),
            Cell(str(cell.n), raw=(cell.n,)), Cell("yes" if row.is_same else "no"),
        ])  # fmt: skip
    parts = [
        f"{one.title}: {one.n_items} of {one.whole} replies are here."
        for one in grid.sets
        if one.whole
    ]
    return BesideOurs(Table(headers, rows), caveats_of([row for _t, row, _o, _k in found]), parts)


def _pairs(grid: Grid, method: Method) -> Iterator[tuple[str, Published, GridRow, int]]:
    """Return each published row of all dialogue models with the row and the cell's number of ours."""
    for k, one in enumerate(grid.sets):
        for row in one.published:
            if row.system or method not in row.values:
                continue
            for ours in grid.rows:
                if one.column(ours.name) in row.ours and ours.cells[k].r is not None:
                    yield one.title, row, ours, k
