"""Further tables of the benchmark: agreement with preferences, and published correlations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.number_format import share, span
from evaluation.published.correlations import Published, PublishedSet, caveats_of, published_rows, published_sets
from evaluation.stats.correlation import Method
from webapp.dashboard.benchmark_grid import METHODS, Grid, GridRow
from webapp.dashboard.charts.figure import Cell, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import NamedTable, count_cell, page_table, reason_text, share_cell, span_cell
from webapp.jobs.models import Job, State
from webapp.results.benchmark import BASELINE


@dataclass(frozen=True, slots=True)
class ChoiceSet:
    """Choices in a study whose people compare two replies or chats: its questions, and choices beside people's."""

    questions: Mapping[str, str]
    table: NamedTable


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
        choosers = [] if judge is None else [(f"{judge['title']} (judge)", judge)]
        metrics = sorted(result["metrics"], key=lambda one: (one["metric"] == BASELINE, -_agreed(one, question)))
        choosers += [(one["title"], one) for one in metrics]
        method = (
            f"{phrases.pairs_text(int(result['n_items']))} of replies, “{questions[question]}”. Of the answers that "
            "chose a reply: the share that chose the same one as people; half would be the same by chance. Two people: "
            "how often two of them choose the same reply of these pairs, beside which a judge is to be read. Cohen’s κ "
            "counts ties. A metric chooses the reply with the better score. Intervals are clustered by rater and by "
            "context."
        )
        if judge is None:
            method += (
                " No judge has chosen yet: have “judge_pairs --study … --output judged.csv” judge the pairs, and add "
                "its file below."
            )
        title = job.study.name if job.study is not None else job.payload["study"]
        remarks = [*(_biases(judge) if judge is not None else ()), *_left_out(choosers, question)]
        table = _table(choosers, question)
        name = f"Which of two is better: {title}"
        found.append(ChoiceSet(questions, NamedTable(f"choices-{job.pk}", name, table, method, remarks=remarks)))
    return found


def _biases(judge: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on a judge's position and length bias; none for older results without them."""
    found = judge.get("biases")
    if not found or not found["n"]:
        return
    place, changed, length = found["position_bias"], found["changed"], found["length_bias"]
    yield (
        f"Position bias of {judge['title']}: {_printed(place, 'value')}, how much likelier it prefers what stands "
        f"first (−.5 to .5, 0 is none); in {_printed(changed, 'value')} of {found['n']} pairs its choice changes with "
        "the order."
    )
    if length["r"] is None:
        yield f"Length bias: undefined, {reason_text(length.get('reason'))}."
    else:
        yield (
            f"Length bias: Spearman {_printed(length, 'r')} of its preference with how much longer the first reply is; "
            "a bias as far as people’s does not go with it."
        )


def _printed(found: Mapping[str, Any], key: str) -> str:
    return f"{share(found[key])} {span(*(found['ci95'] or (None, None)), shares=True)}"


def _agreed(chooser: Mapping[str, Any], question: str) -> float:
    one = chooser["choices"][question]
    value = None if "unavailable" in one else one["agreed"]["value"]
    return -1.0 if value is None else float(value)


def _table(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> PageTable:
    titles = (
        *("Same reply as people", "95 %", "Two people", "95 %", "Cohen’s κ", "95 %", "Answers", "Pairs", "Raters"),
        *("Only people said “the same”", "Only it said “the same”", "Both said “the same”"),
    )

    def numbers(one: Mapping[str, Any]) -> list[Cell]:
        if "unavailable" in one:
            return [Cell("–", reason=f"cannot be computed here: {one['unavailable']}")] * len(titles)
        ties = one["counts"]
        counts = [one[name] for name in ("n", "n_pairs", "n_raters")]
        counts += [ties[name] for name in ("people_tied", "chooser_tied", "both_tied")]
        estimates = [cell for name in ("agreed", "people", "kappa") for cell in _estimate(one[name])]
        return [*estimates, *map(count_cell, counts)]

    return page_table(
        choosers, ("Who chooses", lambda row: Cell(row[0])), (titles, lambda row: numbers(row[1]["choices"][question]))
    )


def _estimate(found: Mapping[str, Any]) -> list[Cell]:
    (low, high), why = found["ci95"] or (None, None), reason_text(found.get("reason"))
    return [share_cell(found["value"], reason=why), span_cell(low, high, shares=True, reason=why)]


def _left_out(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> list[str]:
    """Return sentences on pairs that lack a choice; those that all lack alike are told once."""
    told: dict[tuple[str, int], list[str]] = {}
    for title, chooser in choosers:
        for why, n in chooser["choices"][question].get("skipped", {}).items():
            told.setdefault((why, n), []).append(title)
    return [
        f"{phrases.pairs_text(n)} left out: {reason_text(why)} "
        f"({'all' if len(titles) == len(choosers) else ', '.join(titles)})."
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
        ceilings = ", ".join(f"{_in_words(model)} {share(value)}" for model, value in one.ceilings.items())
        found.append(SetPublished(name, one, published_table(rows), ceilings, caveats_of(rows)))
    return found


def published_table(rows: Sequence[Published]) -> PageTable:
    """Return published figures with intervals by r and n, by the three coefficients.

    A column in which all rows say the same, or none says anything, is left out.
    """
    has_dimensions = len({row.dimension for row in rows}) > 1
    methods = [method for method in METHODS if any(row.values.get(method) is not None for row in rows)]
    has_notes = any(row.note for row in rows)
    return page_table(
        rows,
        ("Metric", lambda row: Cell(row.title)),
        ("Dialogue model", lambda row: Cell(_in_words(row.system) or "all")),
        *[("Dimension", lambda row: Cell(row.dimension))] * has_dimensions,
        ([METHODS[method] for method in methods], lambda row: [_with_interval(row, method) for method in methods]),
        ("n", lambda row: Cell(str(row.n or ""), raw=(row.n,))),
        ("Published by", lambda row: Cell(row.place)),
        *[("Mind", lambda row: Cell(row.note))] * has_notes,
    )


def _in_words(model: str) -> str:
    """Return a dialogue model's name with spaces, at which a narrow column can break it."""
    return model.replace("_", " ")


def _with_interval(row: Published, method: Method) -> Cell:
    value = row.values.get(method)
    shown = "–" if value is None else f"{share(value)} {span(*row.interval(method), shares=True)}"
    return Cell(shown, raw=(value,))


_VERDICTS = {"better_than_chance": "better than chance", "not_shown": "not shown", "not_known": "not known"}


def systems_table(grid: Grid, method: Method) -> NamedTable | None:
    """Tabulate the order of systems by metric, for each data set with several; None without one."""
    found = [
        (row, one, part["system_level"], one.system_test(row.name))
        for one in grid.sets
        for row in grid.rows
        if one.target and (part := one.part(row.name)) and part.get("system_level")
    ]
    if not found:
        return None
    table = page_table(
        found,
        (("Data", "Metric"), lambda one: [Cell(one[1].title), Cell(one[0].title)]),
        (("Systems", "Contexts"), lambda one: [count_cell(one[2]["n_systems"]), count_cell(one[2]["n_contexts"])]),
        ("Order of systems", lambda one: Cell(_VERDICTS[one[2]["verdict"]])),
        ((METHODS[method], "95 %"), lambda one: _estimate(one[2][method])),
        (("Pairwise accuracy", "95 %"), lambda one: _estimate(one[2]["pairwise_accuracy"])),
        (("Soft pairwise accuracy", "95 %"), lambda one: _estimate(one[2]["soft_pairwise_accuracy"])),
        ("p beside the bar", lambda one: _tested(one[3])),
        (("acc_eq", "ε"), lambda one: _ties(one[2]["ties"])),
    )
    words = (
        "Pairwise accuracy: the share of pairs of systems that the metric orders as people do. Soft: 1 less the mean "
        "difference of the p-values of people and metric (Thompson et al. 2024). Intervals by resampled contexts, of "
        f"these systems. p: soft pairwise accuracies of the metric and of {_bar_title(grid)}, by scores swapped at "
        "random. acc_eq: the share of pairs of replies that both order or both tie, where the metric ties what differs "
        "by ε or less; ε is the best one on these very replies (Deutsch et al. 2023). Order of systems: better "
        "than chance where systems dealt out at random come so near in 5 % of cases at most; else not shown; not known "
        "with fewer than five systems."
    )
    return NamedTable("systems", "Which metric orders the systems as people do?", table, words)


def _bar_title(grid: Grid) -> str:
    """Name what metrics are tested against."""
    bars = {str(one.result.get("system_bar", "")) for one in grid.sets}
    titles = [row.title for row in grid.rows if row.name in bars]
    return phrases.listed(titles) or "the bar"


def _tested(found: Mapping[str, Any] | None) -> Cell:
    if not found:
        return Cell("–")
    return phrases.p_cell(found["p"], reason_text(found.get("reason")))


def _ties(found: Mapping[str, Any]) -> list[Cell]:
    why = reason_text(found.get("reason"))
    return [share_cell(found["acc_eq"], reason=why), phrases.number_cell(found["epsilon"], 3, why)]


def beside_ours(grid: Grid, method: Method) -> NamedTable | None:
    """Set what is published of the grid's data sets beside its own figures; None where nothing is.

    Shown are the metrics that are computed here or have a form that is; the others have a page of their own.
    """
    found = list(_pairs(grid, method))
    if not found:
        return None
    table = page_table(
        found,
        (("Data", "Published metric"), lambda one: [Cell(one[0]), Cell(one[1].title)]),
        (("r", "95 %"), lambda one: _cells(one[1].values[method], *one[1].interval(method))),
        ("n", lambda one: Cell(str(one[1].n or ""), raw=(one[1].n,))),
        ("Published by", lambda one: Cell(one[1].place)),
        ("Here", lambda one: Cell(one[2].title, href=one[2].cells[one[3]].href)),
        (("r", "95 %"), lambda one: _cells(one[2].cells[one[3]].r, *one[2].cells[one[3]].ends)),
        ("n", lambda one: count_cell(one[2].cells[one[3]].n)),
        ("Same formula", lambda one: Cell("yes" if one[1].is_same else "no")),
    )
    parts = [f"{one.title}: {one.n_items} of {one.whole} replies are here." for one in grid.sets if one.whole]
    words = (
        "Papers print no intervals; theirs are by r and n, as if replies were independent. “Same formula”: the "
        "published metric itself, checked to three decimals; else the one that ours is nearest to."
    )
    remarks = [*parts, *caveats_of([row for _t, row, _o, _k in found])]
    return NamedTable("beside", "Published figures beside these", table, words, remarks=remarks)


def _cells(value: float | None, low: float | None, high: float | None) -> list[Cell]:
    return [share_cell(value), span_cell(low, high, shares=True)]


def _pairs(grid: Grid, method: Method) -> Iterator[tuple[str, Published, GridRow, int]]:
    """Return each published row of all dialogue models with the row and the cell's number of ours."""
    for k, one in enumerate(grid.sets):
        for row in one.published:
            if row.system or method not in row.values:
                continue
            for ours in grid.rows:
                if one.column(ours.name) in row.ours and ours.cells[k].r is not None:
                    yield one.title, row, ours, k
