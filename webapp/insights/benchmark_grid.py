"""Benchmark table: metrics by data sets, from the results of jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from evaluation.agreement.held_out import BAR, NO_STANDING, Standing, metric_known, standing_of
from evaluation.data.result_tables import Cell, PageTable, headers_of, share_cell
from evaluation.metrics.replies import NO_REFERENCE
from evaluation.number_format import figure, share
from evaluation.plots.charts import diverging_class
from evaluation.published.correlations import Published, caveats_of, matching_row, published_of, published_sets
from evaluation.stats.correlation import Method
from webapp.insights.narrative.phrases import reason_text
from webapp.jobs.models import Job, State
from webapp.results.benchmark import BASELINE

_BELOW = -2.0
HELD_OUT, MEAN, RANK, NAME = "", "mean", "rank", "name"
"""Orders of the rows, other than by the column of a data set."""
METHODS: dict[Method, str] = {"spearman": "Spearman", "pearson": "Pearson", "kendall": "Kendall"}


@dataclass(frozen=True, slots=True)
class DataSet:
    """A column: a data set of a job, or one of several sources in its file.

    Attributes:
        origin: name of the data set in the file, even if it is the only one.
        target: the compared dimension; empty if the chosen one was not rated.
        language: code of the most frequent language; empty if unknown.
    """

    job: Job
    title: str
    source: str
    target: str
    n_items: int
    origin: str = ""
    language: str = ""

    @property
    def name(self) -> str:
        """Identifier of the data set in an address, unique within the page."""
        return f"{self.job.pk}-{self.source}" if self.source else str(self.job.pk)

    @property
    def published(self) -> tuple[Published, ...]:
        """Correlations printed in papers for this data set and dimension."""
        return published_of(self.origin, self.target)

    @property
    def published_size(self) -> int | None:
        """Published number of replies; None if unknown or not above ours."""
        published_set = published_sets().get(self.origin) if self.published else None
        return (
            published_set.whole
            if published_set and published_set.whole and published_set.whole > self.n_items
            else None
        )

    def ceiling(self) -> Mapping[str, Any] | None:
        """Return the highest correlation that a perfect metric could reach.

        None if it is unknown.
        """
        parts = (self.part(row["metric"]) for row in self.result["metrics"])
        return next((part["ceiling"] for part in parts if part and part.get("n")), None)

    def remarks(self, metric: str) -> Mapping[str, int]:
        """Return counts of remarks on a metric's replies.

        They cover the whole file or study.
        """
        return self._full_agreement(metric).get("remarks", {})

    def column(self, metric: str) -> str:
        """Return a metric's main column; empty if not computed."""
        return str(self._full_agreement(metric).get("column", ""))

    @property
    def result(self) -> Mapping[str, Any]:
        """Result of the job; empty without one."""
        job_result: Mapping[str, Any] = self.job.result or {}
        return job_result

    def part(self, metric: str) -> Mapping[str, Any] | None:
        """Return a metric's agreement; None if not computed."""
        agreement = self._full_agreement(metric)
        if not self.source or "unavailable" in agreement:
            return agreement or None
        return agreement.get("sources", {}).get(self.source) or None

    def system_test(self, metric: str) -> Mapping[str, Any] | None:
        """Return the test of a metric's soft pairwise accuracy, or None."""
        tests: Mapping[str, Any] = self.result.get("system_tests", {}).get(self.target, {}).get(metric, {})
        return tests.get(self.source)

    def _full_agreement(self, metric: str) -> Mapping[str, Any]:
        """Return a metric's agreement over the whole file or study.

        Empty if it was not computed.
        """
        rows = [row["agreement"] for row in self.result["metrics"] if row["metric"] == metric]
        agreement: Mapping[str, Any] = rows[0].get(self.target) or {} if rows else {}
        return agreement


@dataclass(frozen=True, slots=True)
class GridCell:
    """Table cell: a number with its interval, or the reason for none.

    Attributes:
        holds_zero: whether the interval includes 0, so that the direction is unknown.
        href: address of its plot.
        published: number that a paper reports for this metric, or for the most similar one, on this data set.
    """

    r: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    reason: str = ""
    href: str = ""
    published: Published | None = None
    method: Method = "spearman"

    @property
    def printed(self) -> str:
        """Published number; empty if there is none."""
        return share(self.published_r) if self.published_r is not None else ""

    @property
    def published_r(self) -> float | None:
        return self.published.values.get(self.method) if self.published else None

    @property
    def number(self) -> str:
        return share(self.r)

    @property
    def ends(self) -> tuple[float | None, float | None]:
        return self.low, self.high

    @property
    def interval(self) -> str:
        return _interval(self.low, self.high)

    @property
    def holds_zero(self) -> bool:
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    @property
    def css(self) -> str:
        return diverging_class(self.r)


@dataclass(frozen=True, slots=True)
class GridRow:
    """A metric with a cell for every data set.

    Attributes:
        rank: mean rank among the metrics with a number; None without any number.
        held_out: median over held-out data sets, next to that of the cosine.
    """

    name: str
    title: str
    under: str
    versions: str
    cells: tuple[GridCell, ...]
    rank: float | None = None
    held_out: Standing = NO_STANDING

    @property
    def is_baseline(self) -> bool:
        return self.name == BASELINE

    @property
    def mean(self) -> float:
        """The mean of its numbers; without any, below all others."""
        known = [cell.r for cell in self.cells if cell.r is not None]
        return sum(known) / len(known) if known else _BELOW

    @property
    def rank_shown(self) -> str:
        """The mean rank, with one digit."""
        return figure(self.rank, 1)


@dataclass(frozen=True, slots=True)
class Grid:
    """The whole table.

    Attributes:
        languages: codes of the languages of all data sets, shown or not.
    """

    sets: tuple[DataSet, ...]
    rows: tuple[GridRow, ...]
    targets: tuple[str, ...]
    languages: tuple[str, ...] = ()

    @property
    def n_items(self) -> int:
        """Items of all data sets."""
        return sum(dataset.n_items for dataset in self.sets)

    @property
    def ceilings(self) -> list[tuple[str, str]]:
        """Highest possible correlation on each data set, with its interval.

        Empty where it is unknown.
        """
        ceilings = []
        for dataset in self.sets:
            ceiling = dataset.ceiling()
            if ceiling is None or ceiling["r"] is None:
                ceilings.append(("", ""))
            else:
                low, high = ceiling["ci95"] or (None, None)
                ceilings.append((share(ceiling["r"]), _interval(low, high)))
        return ceilings

    def table(self) -> PageTable:
        """Return the grid as a plain table for files.

        Each data set is listed as a whole, then by dialogue model.
        """
        headers = headers_of(
            *("Metric", "Data", "Dialogue model", "Dimension", "r#", "95 %#", "p#", "n#", "Contexts#"),
            *("Different replies#", "Ceiling#", "Ceiling, 95 %#", "Version", "Published r#", "Published metric"),
            *("Published by", "Notes", "Language", "Mean rank#", "Median#", "Median of", "Compared with cosine"),
        )
        rows = [
            [
                Cell(row.title), Cell(dataset.title), Cell(model), Cell(dataset.target),
                Cell(cell.number, reason=cell.reason, raw=(cell.r,)),
                Cell(cell.interval, raw=(cell.low, cell.high)),
                Cell(share(cell.p, 3), raw=(cell.p,)), Cell(str(cell.n), raw=(cell.n,)),
                *_of_cell(part),
                Cell(row.versions), Cell(cell.printed, raw=(cell.published_r,)),
                Cell(cell.published.title if cell.published and cell.printed else ""),
                Cell(cell.published.place if cell.published and cell.printed else ""),
                Cell("; ".join(caveats_of([cell.published])) if cell.published and cell.printed else ""),
                Cell(dataset.language), Cell(row.rank_shown, raw=(row.rank,)),
                share_cell(row.held_out.median), Cell(row.held_out.sets), Cell(row.held_out.note),
            ]
            for row in self.rows
            for dataset, overall_cell in zip(self.sets, row.cells, strict=True)
            for model, cell, part in _parts(row, dataset, overall_cell)
        ]  # fmt: skip
        return PageTable(headers, rows)


def _parts(row: GridRow, dataset: DataSet, overall_cell: GridCell) -> Iterator[tuple[str, GridCell, Mapping[str, Any]]]:
    """Yield displayed and full values of a cell, then of each dialogue model."""
    part = dataset.part(row.name) or {}
    yield "", overall_cell, part
    for model, model_part in part.get("models", {}).items():
        low, high = model_part[overall_cell.method]["ci95"] or (None, None)
        published = matching_row(dataset.published, dataset.column(row.name), model)
        r, p = model_part[overall_cell.method]["r"], model_part[overall_cell.method]["p"]
        yield model, GridCell(r, low, high, p, model_part["n"], "", "", published, overall_cell.method), model_part


def _of_cell(part: Mapping[str, Any]) -> list[Cell]:
    """Return a cell's contexts, distinct replies and highest correlation.

    The last is what a perfect metric could reach, with its interval.
    """
    contexts, replies = part.get("n_contexts"), part.get("n_responses")
    ceiling = part.get("ceiling") or {"r": None, "ci95": None}
    low, high = ceiling["ci95"] or (None, None)
    return [
        Cell("" if contexts is None else str(contexts), raw=(contexts,)),
        Cell("" if replies is None else str(replies), raw=(replies,)),
        Cell(share(ceiling["r"]), raw=(ceiling["r"],)),
        Cell(_interval(low, high), raw=(low, high)),
    ]


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "no interval"
    return f"{share(low)} to {share(high)}"


def grid_of(jobs: Sequence[Job], *, method: Method, target: str, language: str = "", sort: str = MEAN) -> Grid:
    """Arrange the results of these jobs in a grid.

    Args:
        jobs: finished jobs, one for each data set; jobs of pairs are ignored.
        target: the dimension to compare; empty: each data set's usual one.
        language: of the data sets; empty: all.
        sort: `HELD_OUT`, `MEAN`, `RANK`, `NAME` or the name of a data set; unknown values mean `HELD_OUT`. The baseline
            stays last.
    """
    done = [job for job in jobs if job.state == State.DONE and job.result and "questions" not in job.result]
    all_sets = [dataset for job in done for dataset in _sets(job, target)]
    languages = tuple(sorted({dataset.language for dataset in all_sets if dataset.language}))
    sets = tuple(dataset for dataset in all_sets if not language or dataset.language == language)
    shown_jobs = [job for job in done if any(dataset.job.pk == job.pk for dataset in sets)]
    titles: dict[str, dict[str, Any]] = {}
    for job in shown_jobs:
        for metric_result in (job.result or {})["metrics"]:
            titles.setdefault(metric_result["metric"], metric_result)
    rows = [
        GridRow(
            name,
            metric_result["title"],
            "baseline" if name == BASELINE else f"version {metric_result['version']}",
            ", ".join(sorted(set(_versions(shown_jobs, name)))),
            tuple(_cell(dataset, name, method, target) for dataset in sets),
        )
        for name, metric_result in titles.items()
    ]
    signs = {name: -1.0 if metric_result.get("lower_is_better") else 1.0 for name, metric_result in titles.items()}
    bar = next(([cell.r for cell in row.cells] for row in rows if row.name == BAR), None)
    rows = [
        replace(row, rank=_mean_rank(row, rows), held_out=_compute_held_out(row, sets, signs[row.name], bar))
        for row in rows
    ]
    places = {dataset.name: place for place, dataset in enumerate(sets)}
    rows.sort(key=lambda row: (row.is_baseline, *_order(row, sort, places), row.title))
    targets = dict.fromkeys(name for job in done for name in (job.result or {})["targets"])
    return Grid(sets, tuple(rows), tuple(targets), languages)


def _compute_held_out(
    row: GridRow, sets: Sequence[DataSet], sign: float, bar: Sequence[float | None] | None
) -> Standing:
    scores = [None if cell.r is None else sign * cell.r for cell in row.cells]
    return standing_of(
        metric_known(row.name), [dataset.origin for dataset in sets], scores, None if row.name == BAR else bar
    )


def _order(row: GridRow, sort: str, places: Mapping[str, int]) -> tuple[float, ...]:
    """Return a row's sort key, lowest first."""
    if sort == NAME:
        return ()
    if sort == RANK:
        return (row.rank if row.rank is not None else math.inf,)
    if sort in places:
        r = row.cells[places[sort]].r
        return (-(_BELOW if r is None else r),)
    return (-row.mean,) if sort == MEAN else (row.held_out.place,)


def _mean_rank(row: GridRow, rows: Sequence[GridRow]) -> float | None:
    """Return a row's mean rank on the data sets where it has a number.

    Equal numbers share their ranks.
    """
    places = []
    for k, cell in enumerate(row.cells):
        if cell.r is not None:
            all_scores = [other_row.cells[k].r for other_row in rows if other_row.cells[k].r is not None]
            above = sum(r > cell.r for r in all_scores if r is not None)
            same = sum(r == cell.r for r in all_scores)
            places.append(above + (same + 1) / 2)
    return sum(places) / len(places) if places else None


def _versions(jobs: Sequence[Job], metric: str) -> Iterator[str]:
    for job in jobs:
        for metric_result in (job.result or {})["metrics"]:
            if metric_result["metric"] == metric:
                yield f"{metric_result['version']} {metric_result['identity'][:8]}"


def _sets(job: Job, target: str) -> Iterator[DataSet]:
    result = job.result or {}
    chosen = target or result["target"]
    title = job.payload["title"].partition(".jsonl")[0]
    title = job.study.name if job.study is not None else title
    sources: dict[str, int] = {}
    for row in result["metrics"]:
        for agreement in row["agreement"].values():
            sources.update(dict.fromkeys(agreement.get("sources", {}), 0))
    if chosen not in result["targets"]:
        chosen = ""
    if not sources:
        [origin, *further_origins] = dict.fromkeys(result["sources"]) or [""]
        language = _most_common_language(result.get("languages", {}).values())
        origin = "" if further_origins else origin
        yield DataSet(job, title, "", chosen, result["n_items"], origin, language)
    for source in sources:
        # Jobs of large data sets store a sample of items for plots; its share estimates that of all items.
        share_of = result["sources"].count(source) / max(len(result["sources"]), 1)
        yield DataSet(
            job,
            source.rpartition("/")[2] or source,
            source,
            chosen,
            round(share_of * result["n_items"]),
            source,
            result.get("languages", {}).get(source, ""),
        )


def _most_common_language(languages: Iterable[str]) -> str:
    """Return the most frequent language of a data set's sources.

    Empty if none is known.
    """
    most_common = Counter(languages).most_common(1)
    return most_common[0][0] if most_common else ""


def _cell(dataset: DataSet, metric: str, method: Method, target: str) -> GridCell:
    if not dataset.target:
        return GridCell(reason="not rated on this dimension")
    part = dataset.part(metric)
    if part is None:
        return GridCell(reason="not computed")
    if "unavailable" in part:
        return GridCell(reason="cannot be computed")
    query = {"source": dataset.source, "target": dataset.target}
    address = reverse("dashboard:benchmark_cell", args=[dataset.job.pk, metric])
    href = f"{address}?{urlencode({k: v for k, v in query.items() if v})}"
    correlation, n = part[method], part["n"]
    if correlation["r"] is None:
        skipped = part["skipped"]
        if not n and skipped:
            reason = max(skipped, key=skipped.get)
            return GridCell(reason="no reference" if reason == NO_REFERENCE else reason, href=href)
        return GridCell(n=n, reason=reason_text(correlation.get("reason")), href=href)
    low, high = correlation["ci95"] or (None, None)
    published = matching_row(dataset.published, dataset.column(metric))
    return GridCell(correlation["r"], low, high, correlation["p"], n, "", href, published, method)
