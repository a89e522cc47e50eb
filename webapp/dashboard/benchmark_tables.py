"""Further tables of the benchmark: agreement with preferences, and published correlations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.number_format import share, span
from evaluation.published.correlations import Published, PublishedSet, caveats_of, published_rows, published_sets
from evaluation.stats.correlation import Method
from webapp.dashboard.benchmark_grid import METHODS, Grid, GridRow
from webapp.dashboard.charts.figure import Cell, PageTable, headers_of
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import count_cell, reason_text, share_cell, span_cell
from webapp.jobs.models import Job, State
from webapp.results.benchmark import BASELINE


@dataclass(frozen=True, slots=True)
class ChoiceSet:
    """A study whose people compare two replies or chats.

    Attributes:
        question: that people answered, with its title; questions: all of them.
        judge: the name of the judge; empty where no file of its choices was given.
        left_out: why choices are missing, by who lacks them.
        biases: what the judge leans on besides, in words: place and length.
    """

    job: Job
    title: str
    question: str
    questions: Mapping[str, str]
    judge: str
    table: PageTable
    left_out: tuple[str, ...]
    biases: tuple[str, ...] = ()

    @property
    def question_title(self) -> str:
        """The question in words."""
        return self.questions[self.question]

    @property
    def n_pairs(self) -> int:
        """Pairs that there are to choose from."""
        return int((self.job.result or {})["n_items"])


def choice_sets(jobs: Iterable[Job], target: str) -> list[ChoiceSet]:
    """Arrange what finished jobs of pairs found.

    Args:
        target: the question, where a study has it; else its leading one.
    """
    found = []
    for job in jobs:
        result = job.result
        if job.state != State.DONE or not result or "questions" not in result:
            continue
        questions: dict[str, str] = dict(result["questions"])
        question = target if target in questions else next(iter(questions))
        judge = result["judge"]
        choosers = [] if judge is None else [("{judge} (judge)".format(judge=judge["title"]), judge)]
        metrics = [(one["title"], one) for one in result["metrics"]]
        metrics.sort(key=lambda one: (one[1]["metric"] == BASELINE, -_agreed(one[1], question)))
        choosers += metrics
        found.append(
            ChoiceSet(
                job,
                job.study.name if job.study is not None else job.payload["study"],
                question,
                questions,
                judge["title"] if judge is not None else "",
                _table(choosers, question),
                tuple(_left_out(choosers, question)),
                tuple(_biases(judge)) if judge is not None else (),
            )
        )
    return found


def _biases(judge: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on a judge's position and length bias; none for older results without them."""
    found = judge.get("biases")
    if not found or not found["n"]:
        return
    place, changed, length = found["position_bias"], found["changed"], found["length_bias"]
    yield (
        "Position bias of {judge}: {value} {ends}, how much likelier it prefers what stands first (−.5 to .5, 0 is "
        "none); in {share} {of} of {n} pairs its choice changes with the order."
    ).format(
        judge=judge["title"],
        value=share(place["value"]),
        ends=span(*(place["ci95"] or (None, None)), shares=True),
        share=share(changed["value"]),
        of=span(*(changed["ci95"] or (None, None)), shares=True),
        n=found["n"],
    )
    if length["r"] is None:
        yield "Length bias: undefined, {why}.".format(why=reason_text(length.get("reason")))
    else:
        yield (
            "Length bias: Spearman {value} {ends} of its preference with how much longer the first reply is; a bias "
            "as far as people’s does not go with it."
        ).format(value=share(length["r"]), ends=span(*(length["ci95"] or (None, None)), shares=True))


def _agreed(chooser: Mapping[str, Any], question: str) -> float:
    one = chooser["choices"][question]
    value = None if "unavailable" in one else one["agreed"]["value"]
    return -1.0 if value is None else float(value)


def _table(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> PageTable:
    headers = headers_of(
        *("Who chooses", "Same reply as people#", "95 %#", "Two people#", "95 %#", "Cohen’s κ#", "95 %#", "Answers#"),
        *("Pairs#", "Raters#", "Only people said “the same”#", "Only it said “the same”#", "Both said “the same”#"),
    )
    rows = []
    for title, chooser in choosers:
        one = chooser["choices"][question]
        if "unavailable" in one:
            blank = Cell("–", why="cannot be computed here: {why}".format(why=one["unavailable"]))
            rows.append([Cell(title), *[blank] * (len(headers) - 1)])
            continue
        ties = one["counts"]
        rows.append(
            [
                Cell(title),
                *_estimate(one["agreed"]),
                *_estimate(one["people"]),
                *_estimate(one["kappa"]),
                *map(count_cell, (one["n"], one["n_pairs"], one["n_raters"])),
                *(count_cell(ties[name]) for name in ("people_tied", "chooser_tied", "both_tied")),
            ]
        )
    return PageTable(headers, rows)


def _estimate(found: Mapping[str, Any]) -> list[Cell]:
    (low, high), why = found["ci95"] or (None, None), reason_text(found["reason"])
    return [share_cell(found["value"], why=why), span_cell(low, high, shares=True, why=why)]


def _left_out(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> list[str]:
    """Return sentences on pairs that lack a choice; those that all lack alike are told once."""
    told: dict[tuple[str, int], list[str]] = {}
    for title, chooser in choosers:
        for why, n in chooser["choices"][question].get("skipped", {}).items():
            told.setdefault((why, n), []).append(title)
    return [
        "{pairs} left out: {why} ({who}).".format(
            pairs=phrases.pairs_text(n),
            why=reason_text(why),
            who="all" if len(titles) == len(choosers) else ", ".join(titles),
        )
        for (why, n), titles in told.items()
    ]


@dataclass(frozen=True, slots=True)
class SetPublished:
    """All that is published of one set.

    Attributes:
        name: as judged files give it in `source`.
        ceilings: by dialogue model what a perfect metric could reach, in words.
    """

    name: str
    found: PublishedSet
    table: PageTable
    ceilings: str
    caveats: list[str]


def sets_published() -> list[SetPublished]:
    """Return every set with its published figures."""
    found = []
    for name, one in published_sets().items():
        rows = [row for row in published_rows() if row.set == name]
        found.append(SetPublished(name, one, published_table(rows), _ceilings(one), caveats_of(rows)))
    return found


def _ceilings(one: PublishedSet) -> str:
    return ", ".join(f"{_in_words(model)} {share(value)}" for model, value in one.ceilings.items())


def published_table(rows: Sequence[Published]) -> PageTable:
    """Return published figures with intervals by r and n, by the three coefficients.

    A column in which all rows say the same, or none says anything, is left out.
    """
    has_dimensions = len({row.dimension for row in rows}) > 1
    methods = [method for method in METHODS if any(row.values.get(method) is not None for row in rows)]
    has_notes = any(row.note for row in rows)
    headers = headers_of(
        "Metric",
        "Dialogue model",
        *["Dimension"] * has_dimensions,
        *(f"{METHODS[method]}#" for method in methods),
        *("n#", "Published by"),
        *["Mind"] * has_notes,
    )
    return PageTable(
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

    table: PageTable
    caveats: list[str]
    parts: list[str]


def beside_ours(grid: Grid, method: Method) -> BesideOurs | None:
    """Set what is published of the grid's data sets beside its own figures; None where nothing is.

    Shown are the metrics that are computed here or have a form that is; the others have a page of their own.
    """
    found = list(_pairs(grid, method))
    if not found:
        return None
    headers = headers_of(
        *("Data", "Published metric", "r#", "95 %#", "n#", "Published by", "Here", "r#", "95 %#", "n#", "Same formula")
    )
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
    parts = [f"{one.title}: {one.n_items} of {one.whole} replies are here." for one in grid.sets if one.whole]
    return BesideOurs(PageTable(headers, rows), caveats_of([row for _t, row, _o, _k in found]), parts)


def _pairs(grid: Grid, method: Method) -> Iterator[tuple[str, Published, GridRow, int]]:
    """Return each published row of all dialogue models with the row and the cell's number of ours."""
    for k, one in enumerate(grid.sets):
        for row in one.published:
            if row.system or method not in row.values:
                continue
            for ours in grid.rows:
                if one.column(ours.name) in row.ours and ours.cells[k].r is not None:
                    yield one.title, row, ours, k
