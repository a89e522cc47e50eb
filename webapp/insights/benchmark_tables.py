"""Further tables of the benchmark: agreement with preferences, and published correlations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    PageTable,
    count_cell,
    number_cell,
    p_cell,
    page_table,
    share_cell,
    span_cell,
)
from evaluation.number_format import share, span
from evaluation.published.correlations import Published, PublishedSet, caveats_of, published_rows, published_sets
from evaluation.stats.correlation import Method
from webapp.insights.benchmark_grid import METHODS, Grid, GridRow
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import reason_text
from webapp.jobs.models import Job, State
from webapp.results.benchmark import BASELINE


@dataclass(frozen=True, slots=True)
class ChoiceSet:
    """Choices of metrics and judges in a study with paired comparisons."""

    questions: Mapping[str, str]
    table: NamedTable


def choice_sets(jobs: Iterable[Job], target: str) -> list[ChoiceSet]:
    """Arrange the results of finished jobs of pairs.

    Args:
        target: the question, in studies that have it; otherwise the leading question.
    """
    sets = []
    for job in jobs:
        result = job.result
        if job.state != State.DONE or not result or "questions" not in result:
            continue
        questions: dict[str, str] = dict(result["questions"])
        question = target if target in questions else next(iter(questions))
        judge = result["judge"]
        choosers = [] if judge is None else [(f"{judge['title']} (judge)", judge)]
        metrics = sorted(
            result["metrics"], key=lambda metric: (metric["metric"] == BASELINE, -_agreed(metric, question))
        )
        choosers += [(metric["title"], metric) for metric in metrics]
        method = (
            f"{phrases.pairs_text(int(result['n_items']))} of replies, “{questions[question]}”. Same reply as people: "
            "share of agreement among answers that choose a reply; 50 % is chance. Two people: how often two people "
            "choose the same reply of these pairs, as a reference for judges. Cohen’s κ includes ties. A metric "
            "chooses the reply with the better score. Intervals are clustered by rater and by context."
        )
        if judge is None:
            method += (
                " There are no choices by a judge yet. Run “judge_pairs --study … --output judged.csv” and add its "
                "file below."
            )
        title = job.study.name if job.study is not None else job.payload["study"]
        remarks = [*(_biases(judge) if judge is not None else ()), *_left_out(choosers, question)]
        table = _table(choosers, question)
        name = f"Pairwise choices: {title}"
        sets.append(ChoiceSet(questions, NamedTable(f"choices-{job.pk}", name, table, method, remarks=remarks)))
    return sets


def _biases(judge: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on a judge's position and length bias.

    None for older results, which lack them.
    """
    biases = judge.get("biases")
    if not biases or not biases["n"]:
        return
    place, changed, length = biases["position_bias"], biases["changed"], biases["length_bias"]
    yield (
        f"Position bias of {judge['title']}: {_printed(place, 'value')}, the preference for the first reply (−.5 to "
        f".5, 0 is none). Its choice changes with the order in {_printed(changed, 'value')} of {biases['n']} pairs."
    )
    if length["r"] is None:
        yield f"Length bias: undefined, {reason_text(length.get('reason'))}."
    else:
        yield (
            f"Length bias: Spearman {_printed(length, 'r')} between its preference and the difference in length. It "
            "is a bias only as far as it exceeds that of people."
        )


def _printed(estimate: Mapping[str, Any], key: str) -> str:
    return f"{share(estimate[key])} {span(*(estimate['ci95'] or (None, None)), shares=True)}"


def _agreed(chooser: Mapping[str, Any], question: str) -> float:
    choices = chooser["choices"][question]
    value = None if "unavailable" in choices else choices["agreed"]["value"]
    return -1.0 if value is None else float(value)


def _table(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> PageTable:
    titles = (
        *("Same reply as people", "95 %", "Two people", "95 %", "Cohen’s κ", "95 %", "Answers", "Pairs", "Raters"),
        *("Only people said “the same”", "Only judge or metric said “the same”", "Both said “the same”"),
    )

    def numbers(choices: Mapping[str, Any]) -> list[Cell]:
        if "unavailable" in choices:
            return [Cell("–", reason=f"cannot be computed: {choices['unavailable']}")] * len(titles)
        ties = choices["counts"]
        counts = [choices[name] for name in ("n", "n_pairs", "n_raters")]
        counts += [ties[name] for name in ("people_tied", "chooser_tied", "both_tied")]
        estimates = [cell for name in ("agreed", "people", "kappa") for cell in _estimate(choices[name])]
        return [*estimates, *map(count_cell, counts)]

    return page_table(
        choosers,
        (("Judge or metric"), lambda row: Cell(row[0])),
        (titles, lambda row: numbers(row[1]["choices"][question])),
    )


def _estimate(estimate: Mapping[str, Any]) -> list[Cell]:
    (low, high), reason = estimate["ci95"] or (None, None), reason_text(estimate.get("reason"))
    return [share_cell(estimate["value"], reason=reason), span_cell(low, high, shares=True, reason=reason)]


def _left_out(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> list[str]:
    """Return sentences on pairs without a choice.

    Gaps that all share are stated once.
    """
    titles_by_reason: dict[tuple[str, int], list[str]] = {}
    for title, chooser in choosers:
        for reason, n in chooser["choices"][question].get("skipped", {}).items():
            titles_by_reason.setdefault((reason, n), []).append(title)
    return [
        f"{phrases.pairs_text(n)} excluded: {reason_text(reason)} "
        f"({'all' if len(titles) == len(choosers) else ', '.join(titles)})."
        for (reason, n), titles in titles_by_reason.items()
    ]


@dataclass(frozen=True, slots=True)
class SetPublished:
    """Published results on one data set.

    Attributes:
        name: as judged files give it in `source`.
        ceilings: highest possible correlation by dialogue model, formatted.
    """

    name: str
    published_set: PublishedSet
    table: PageTable
    ceilings: str
    caveats: list[str]


def sets_published() -> list[SetPublished]:
    """Return every set with its published figures."""
    sets = []
    for name, published_set in published_sets().items():
        rows = [row for row in published_rows() if row.set == name]
        ceilings = ", ".join(f"{_in_words(model)} {share(value)}" for model, value in published_set.ceilings.items())
        sets.append(SetPublished(name, published_set, published_table(rows), ceilings, caveats_of(rows)))
    return sets


def published_table(rows: Sequence[Published]) -> PageTable:
    """Return published figures with intervals by r and n, by the three coefficients.

    Columns with equal or empty cells are left out.
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
        *[("Notes", lambda row: Cell(row.note))] * has_notes,
    )


def _in_words(model: str) -> str:
    """Return a dialogue model's name with spaces for line breaks.

    Narrow columns break it there.
    """
    return model.replace("_", " ")


def _with_interval(row: Published, method: Method) -> Cell:
    value = row.values.get(method)
    text = "–" if value is None else f"{share(value)} {span(*row.interval(method), shares=True)}"
    return Cell(text, raw=(value,))


_VERDICTS = {"better_than_chance": "better than chance", "not_shown": "not shown", "not_known": "not known"}


def systems_table(grid: Grid, method: Method) -> NamedTable | None:
    """Tabulate the order of systems by metric.

    One part for each data set with several systems; None without any.
    """
    rows = [
        (row, dataset, part["system_level"], dataset.system_test(row.name))
        for dataset in grid.sets
        for row in grid.rows
        if dataset.target and (part := dataset.part(row.name)) and part.get("system_level")
    ]
    if not rows:
        return None
    table = page_table(
        rows,
        (("Data", "Metric"), lambda row: [Cell(row[1].title), Cell(row[0].title)]),
        (("Systems", "Contexts"), lambda row: [count_cell(row[2]["n_systems"]), count_cell(row[2]["n_contexts"])]),
        ("Order of systems", lambda row: Cell(_VERDICTS[row[2]["verdict"]])),
        ((METHODS[method], "95 %"), lambda row: _estimate(row[2][method])),
        (("Pairwise accuracy", "95 %"), lambda row: _estimate(row[2]["pairwise_accuracy"])),
        (("Soft pairwise accuracy", "95 %"), lambda row: _estimate(row[2]["soft_pairwise_accuracy"])),
        ("p against baseline", lambda row: _tested(row[3])),
        (("acc_eq", "ε"), lambda row: _ties(row[2]["ties"])),
    )
    words = (
        "Pairwise accuracy: share of system pairs that the metric orders like people. Soft: 1 minus the mean "
        "difference between the p-values of people and metric (Thompson et al. 2024). Intervals by resampling "
        f"contexts, for these systems. p: permutation test of soft pairwise accuracy against {_bar_title(grid)}. "
        "acc_eq: share of reply pairs with the same order or a tie in both, where differences up to ε are ties of "
        "the metric; ε is optimised on these replies (Deutsch et al. 2023). Order of systems: better than chance if "
        "a random assignment of systems reaches this accuracy in at most 5 % of cases, otherwise not shown; not "
        "known with fewer than five systems."
    )
    return NamedTable("systems", "System ranking by metric", table, words)


def _bar_title(grid: Grid) -> str:
    """Name the values that metrics are tested against."""
    bars = {str(dataset.result.get("system_bar", "")) for dataset in grid.sets}
    titles = [row.title for row in grid.rows if row.name in bars]
    return phrases.listed(titles) or "the baseline"


def _tested(test: Mapping[str, Any] | None) -> Cell:
    if not test:
        return Cell("–")
    return p_cell(test["p"], reason_text(test.get("reason")))


def _ties(ties: Mapping[str, Any]) -> list[Cell]:
    reason = reason_text(ties.get("reason"))
    return [share_cell(ties["acc_eq"], reason=reason), number_cell(ties["epsilon"], 3, reason)]


def beside_ours(grid: Grid, method: Method) -> NamedTable | None:
    """Compare published results with those of the grid.

    None if nothing is published. Only metrics are shown that are computed here or have a form that is; the others have
    their own page.
    """
    pairs = list(_pairs(grid, method))
    if not pairs:
        return None
    table = page_table(
        pairs,
        (("Data", "Published metric"), lambda pair: [Cell(pair[0]), Cell(pair[1].title)]),
        (("r", "95 %"), lambda pair: _cells(pair[1].values[method], *pair[1].interval(method))),
        ("n", lambda pair: Cell(str(pair[1].n or ""), raw=(pair[1].n,))),
        ("Published by", lambda pair: Cell(pair[1].place)),
        ("Here", lambda pair: Cell(pair[2].title, href=pair[2].cells[pair[3]].href)),
        (("r", "95 %"), lambda pair: _cells(pair[2].cells[pair[3]].r, *pair[2].cells[pair[3]].ends)),
        ("n", lambda pair: count_cell(pair[2].cells[pair[3]].n)),
        ("Same formula", lambda pair: Cell("yes" if pair[1].is_same else "no")),
    )
    parts = [
        f"{dataset.title}: {dataset.n_items} of {dataset.published_size} replies are included."
        for dataset in grid.sets
        if dataset.published_size
    ]
    words = (
        "The papers give no intervals; those shown are computed from r and n, assuming independent replies. “Same "
        "formula”: exactly the published metric, verified to three decimals; otherwise the most similar one."
    )
    remarks = [*parts, *caveats_of([row for _t, row, _o, _k in pairs])]
    return NamedTable("beside", "Comparison with published figures", table, words, remarks=remarks)


def _cells(value: float | None, low: float | None, high: float | None) -> list[Cell]:
    return [share_cell(value), span_cell(low, high, shares=True)]


def _pairs(grid: Grid, method: Method) -> Iterator[tuple[str, Published, GridRow, int]]:
    """Return published rows over all dialogue models, with ours.

    Each comes with the row and the number of our cell.
    """
    for k, dataset in enumerate(grid.sets):
        for row in dataset.published:
            if row.system or method not in row.values:
                continue
            for ours in grid.rows:
                if dataset.column(ours.name) in row.ours and ours.cells[k].r is not None:
                    yield dataset.title, row, ours, k
