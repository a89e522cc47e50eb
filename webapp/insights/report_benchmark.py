"""Benchmarks in the layouts of GRADE, PONE, RADE and DialogEntailment."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.agreement.paper_tables import layout_tables
from evaluation.published.papers import Paper, papers
from webapp.core.clock import database_now
from webapp.core.language import plural
from webapp.insights.narrative.phrases import Section
from webapp.insights.report_document import Document, chapter_of
from webapp.jobs.selectors.metrics import metrics_all
from webapp.results.paper_benchmarks import paper_benchmarks
from webapp.studies.models import Study


def benchmark_report(paper_name: str, studies: Sequence[Study] | None = None) -> Document:
    """Return the newest benchmarks in the layout of a paper.

    Args:
        paper_name: one of `evaluation.agreement.paper_tables.BENCHMARK_PAPERS`.
        studies: only the benchmarks of these studies; None for all data sets.
    """
    paper, benchmarks = papers()[paper_name], paper_benchmarks(studies)
    chapters = []
    for name, tables in layout_tables(paper_name, benchmarks.sets, metrics_all()).items():
        item = paper.get_item(name)
        by_hand = [f"By hand: {item.by_hand.replace('`', '')}."] if item.by_hand else []
        section = Section(item.id, f"{name}. {item.title}", by_hand)
        section.tables.extend(tables)
        labels = [name] if len(tables) == 1 else [f"{name}, part {number}" for number in range(1, len(tables) + 1)]
        chapters.append(chapter_of(section, labels))
    n = sum(rated_set.judged is not None for rated_set in benchmarks.sets)
    data_sets = plural(n, "1 data set", "%(n)d data sets") % {"n": n}
    work = f"“{paper.work}” ({paper.source})"
    return Document(
        study="",
        name=f"Benchmark, laid out as in {paper.title}",
        rubric_version=0,
        made=database_now(),
        n_ratings=benchmarks.n_replies,
        n_conversations=0,
        summary=(
            f"The tables of {work} show the published values next to those of {data_sets} with "
            f"{benchmarks.n_replies:,} rated replies."
            if n
            else f"No data set has been compared yet, so the tables of {work} show the published values only.",
            _elsewhere(paper),
            *benchmarks.notes,
        ),
        headlines=(),
        chapters=tuple(chapters),
        like=paper_name,
    )


def _elsewhere(paper: Paper) -> str:
    """Name the items that are reproduced by other pages and commands."""
    items = [item for item in paper.items if item.kind in ("page", "command")]
    names = "; ".join(f"{item.item} ({item.where.replace('*', '').replace('`', '')})" for item in items)
    return f"Reproduced elsewhere: {names}."
