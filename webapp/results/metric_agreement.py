"""Agreement of metrics with people, from the comparisons stored on this server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.data.ratings import MEAN_KEY
from evaluation.metrics.base import Metric
from webapp.jobs.models import Job, State
from webapp.results.benchmark import BENCHMARK_KIND
from webapp.results.cache import RESULTS_KIND

MOST_JOBS = 50
"""Number of the newest comparisons of each kind that are read."""


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Spearman's correlation of a metric with human ratings.

    Attributes:
        low, high: ends of the 95 % interval; None if it was not computed.
        unit: `chats` or `replies`.
        question: key of the rated question; empty for the mean of all.
        source: study or file with the ratings.
    """

    r: float
    low: float | None
    high: float | None
    n: int
    unit: str
    question: str
    source: str


def metric_agreements(metrics: list[Metric]) -> dict[str, MetricAgreement]:
    """Return the agreement of each metric from the most ratings, by the metric's name.

    The first column with a value stands for a metric, so that no column is picked for its agreement.
    """
    columns = {column.name: (metric.name, n) for metric in metrics for n, column in enumerate(metric.columns)}
    best: dict[str, tuple[int, int, MetricAgreement]] = {}
    candidates = [(*columns[column], agreement) for column, agreement in _of_chats() if column in columns] + [
        (name, 0, agreement) for name, agreement in _of_replies()
    ]
    for name, place, agreement in candidates:
        rank = (place, -agreement.n, agreement)
        if name not in best or rank[:2] < best[name][:2]:
            best[name] = rank
    return {name: agreement for name, (_place, _n, agreement) in best.items()}


def _of_chats() -> Iterator[tuple[str, MetricAgreement]]:
    """Yield columns with their correlation over rated chats, from each study's newest analysis."""
    jobs = Job.objects.filter(
        kind=RESULTS_KIND, state=State.DONE, payload__part="correlations", payload__include_synthetic=False
    )
    seen: set[int | None] = set()
    for job in jobs.select_related("study").order_by("-ended_at")[:MOST_JOBS]:
        if job.study is None or job.study_id in seen:
            continue
        seen.add(job.study_id)
        matrix = ((job.result or {}).get("result") or {}).get("metrics") or {}
        cells = {tuple(place): cell for place, cell in matrix.get("cells", ())}
        question = next(iter(matrix.get("columns", ())), "")
        for n, row in enumerate(matrix.get("rows", ())):
            cell = cells.get((n, 0))
            if row["source"] == "chats" and cell:
                yield from _agreement(row["name"], cell, "chats", question, job.study.name)


def _of_replies() -> Iterator[tuple[str, MetricAgreement]]:
    """Yield metrics with their correlation over rated replies, from the newest benchmarks."""
    jobs = Job.objects.filter(kind=BENCHMARK_KIND, state=State.DONE).select_related("study").order_by("-pk")
    for job in jobs[:MOST_JOBS]:
        result = job.result or {}
        source = job.study.name if job.study is not None else job.payload.get("title", "")
        for row in result.get("metrics", ()):
            agreement = (row.get("agreement") or {}).get(result.get("target")) or {}
            cell = {**(agreement.get("spearman") or {}), "n": agreement.get("n", 0)}
            yield from _agreement(row["metric"], cell, "replies", str(result.get("target") or ""), source)


def _agreement(
    name: str, cell: Mapping[str, Any], unit: str, question: str, source: str
) -> Iterator[tuple[str, MetricAgreement]]:
    if cell.get("r") is not None:
        question = "" if question == MEAN_KEY else question
        yield name, MetricAgreement(cell["r"], cell.get("low"), cell.get("high"), cell["n"], unit, question, source)
