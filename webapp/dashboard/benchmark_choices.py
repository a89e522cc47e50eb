"""Judge and metrics beside people's choices of two replies or chats, as the benchmark's page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.printing import share, span
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.reasons import said
from webapp.results.benchmark import BASELINE
from webapp.runs.models import Job, State


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
    table: Table
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
        choosers = (
            [] if judge is None else [("{judge} (judge)".format(judge=judge["title"]), judge)]
        )
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
        yield "Length bias: undefined, {why}.".format(why=said(length.get("reason")))
    else:
        yield (
            "Length bias: Spearman {value} {ends} of its preference with how much longer the first reply is; a bias "
            "as far as people’s does not go with it."
        ).format(
            value=share(length["r"]), ends=span(*(length["ci95"] or (None, None)), shares=True)
        )


def _agreed(chooser: Mapping[str, Any], question: str) -> float:
    one = chooser["choices"][question]
    value = None if "unavailable" in one else one["agreed"]["value"]
    return -1.0 if value is None else float(value)


def _table(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> Table:
    headers = [Header("Who chooses")]
    for text in (
        "Same reply as people", "95 %", "Two people", "95 %", "Cohen’s κ", "95 %",
        "Answers", "Pairs", "Raters", "Only people said “the same”", "Only it said “the same”",
        "Both said “the same”",
    ):  # fmt: skip
        headers.append(Header(text, numeric=True))
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
                *(
                    Cell(f"{n:,}", raw=(n,))
                    for n in (
                        one["n"],
                        one["n_pairs"],
                        one["n_raters"],
                        ties["people_tied"],
                        ties["chooser_tied"],
                        ties["both_tied"],
                    )
                ),
            ]
        )
    return Table(headers, rows)


def _estimate(found: Mapping[str, Any]) -> list[Cell]:
    value, (low, high) = found["value"], found["ci95"] or (None, None)
    why = said(found["reason"])
    return [
        Cell(share(value), why=why if value is None else "", raw=(value,)),
        Cell(span(low, high, shares=True), why=why if low is None else "", raw=(low, high)),
    ]


def _left_out(choosers: Sequence[tuple[str, Mapping[str, Any]]], question: str) -> list[str]:
    """Return sentences on pairs that lack a choice; those that all lack alike are told once."""
    told: dict[tuple[str, int], list[str]] = {}
    for title, chooser in choosers:
        for why, n in chooser["choices"][question].get("skipped", {}).items():
            told.setdefault((why, n), []).append(title)
    return [
        "{pairs} left out: {why} ({who}).".format(
            pairs=counts.pairs(n),
            why=said(why),
            who="all" if len(titles) == len(choosers) else ", ".join(titles),
        )
        for (why, n), titles in told.items()
    ]
