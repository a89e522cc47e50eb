"""Sections of a study's analysis, for pages and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.core.clock import database_now
from webapp.insights.data_quality import left_out_sentence
from webapp.insights.narrative import phrases
from webapp.insights.narrative.comparisons import (
    comparisons_section,
    headline_sentence,
    powered_section,
    ratings_section,
)
from webapp.insights.narrative.conditions import conditions_section
from webapp.insights.narrative.correlations import correlations_section
from webapp.insights.narrative.formula import formula_section
from webapp.insights.narrative.helped import helped_section
from webapp.insights.narrative.hybrid_fits import hybrid_section
from webapp.insights.narrative.items import items_section
from webapp.insights.narrative.methods import methods_section, pair_methods_section
from webapp.insights.narrative.models import models_section
from webapp.insights.narrative.pairs import pairs_section, protocols_section
from webapp.insights.narrative.phrases import Section
from webapp.insights.narrative.plan import plan_section
from webapp.insights.narrative.population import population_section
from webapp.insights.narrative.raters import raters_section
from webapp.insights.narrative.realism import realism_section
from webapp.insights.narrative.replacement import replacement_section
from webapp.insights.narrative.trajectories import trajectories_section
from webapp.insights.report_document import Document, Headline, chapter_of, headlines_of, headlines_of_pairs
from webapp.ratings.selectors import study_dimensions
from webapp.results.bot_means import StudySummary, bot_summary
from webapp.results.compute import StudyComparisons, has_backgrounds
from webapp.results.item_results import study_pairs
from webapp.results.realism import realism_newest
from webapp.results.study_data import Facts, StudyFrame, study_frame
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

SECTIONS: dict[str, Callable[[StudyFrame, Any], Section]] = {
    "comparisons": comparisons_section,
    "conditions": conditions_section,
    "population": population_section,
    "helped": helped_section,
    "items": items_section,
    "models": models_section,
    "formula": formula_section,
    "raters": raters_section,
    "trajectories": trajectories_section,
    "correlations": correlations_section,
    "powered": powered_section,
    "replacement": replacement_section,
}
"""Sections by the name of the part, as in `webapp.results.compute.PARTS`."""


ResultOf = Callable[[str], Any]
"""Callable that returns the result of a part of the analysis.

Parts are named as in `webapp.results.compute.PARTS`.
"""


@dataclass(frozen=True, slots=True)
class ReportStep:
    """Section of a report that is still to be made: its id and maker."""

    id: str
    make: Callable[[], Section]


def report_steps(frame: StudyFrame, result: ResultOf, *, formula: bool = False) -> Iterator[ReportStep]:
    """Yield the sections in order, so that the caller can report progress.

    Args:
        formula: whether there is a result of a model by a formula.
    """

    def step(part: str) -> ReportStep:
        return ReportStep(part, lambda: SECTIONS[part](frame, result(part)))

    yield ReportStep("ratings", lambda: ratings_section(frame, _summary(frame, result), result("answers").headline))
    yield step("comparisons")
    if frame.study.values.conditions.factors:
        yield step("conditions")
    if has_backgrounds(frame.study):
        yield step("population")
    if frame.study.helpers.exists():
        yield step("helped")
    if get_protocol(frame.study).judges_items or get_protocol(frame.study).marks_errors:
        yield step("items")
    one_turn_section = protocols_section(frame.study, study_pairs(frame.study, **frame.counted_work))
    if one_turn_section is not None:
        yield ReportStep("one-turn", lambda: one_turn_section)
    yield step("models")
    if formula:
        yield step("formula")
    yield ReportStep("raters", lambda: raters_section(frame, result("raters"), names=False))
    yield ReportStep("hybrid", lambda: hybrid_section(frame))
    compared = realism_newest(frame.study)
    if compared is not None:
        yield ReportStep("simulated", lambda: realism_section(compared[1], frame.bots, texts=False))
    if result("replacement").is_tested:
        yield step("replacement")
    yield step("trajectories")
    yield step("correlations")
    if result("powered").by:
        yield step("powered")
    if not frame.study.is_imported:
        yield ReportStep("plan", lambda: plan_section(frame))
    yield ReportStep("methods", lambda: methods_section(frame))


def report_of(frame: StudyFrame, result: ResultOf, sections: Sequence[Section]) -> Document:
    """Assemble the report: summary, four numbers, and sections."""
    comparisons: StudyComparisons = result("comparisons")
    compared = SECTIONS["comparisons"](frame, comparisons).lead
    return _document(
        frame,
        _in_short(frame, _summary(frame, result), compared),
        headlines_of(frame, result("raters").agreement, comparisons.means),
        sections,
    )


def _document(
    frame: StudyFrame, summary: Sequence[str], headlines: tuple[Headline, ...], sections: Sequence[Section]
) -> Document:
    return Document(
        study=frame.study.key,
        name=frame.study.name,
        rubric_version=frame.study.rubric.version,
        made=database_now(),
        n_ratings=frame.facts.n_ratings,
        n_conversations=frame.facts.n_conversations,
        summary=tuple(summary),
        headlines=headlines,
        chapters=tuple(chapter_of(section) for section in sections),
    )


def _summary(frame: StudyFrame, result: ResultOf) -> StudySummary:
    comparisons: StudyComparisons = result("comparisons")
    return bot_summary(
        frame.study, **frame.counted_work, means_and_comparisons=(comparisons.means, comparisons.compared)
    )


def _in_short(frame: StudyFrame, summary: StudySummary, compared: Sequence[str]) -> list[str]:
    n_people = frame.facts.n_raters
    of_items = get_protocol(frame.study).judges_items
    rated = phrases.items_text if of_items else phrases.conversations_text
    first = (
        f"{phrases.people_text(n_people) + ' rated' if n_people or of_items else 'Ratings of'} "
        f"{rated(frame.facts.n_conversations)} {'of' if of_items else 'with'} "
        f"{phrases.bots_text(len(frame.rated_bots))} on {phrases.dimensions_text(len(frame.dimensions))}."
    )
    exclusion_sentence = left_out_sentence(frame.study, frame.excluded_flags)
    return [
        *compared[:1],
        first,
        *([exclusion_sentence] if exclusion_sentence else []),
        headline_sentence(frame, summary),
        *compared[1:],
    ]


def pair_report(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> Document | None:
    """Return the report of a study with paired comparisons.

    None without any.
    """
    pairs = study_pairs(study, include_synthetic=include_synthetic, without=without)
    results = pairs.results
    if not get_protocol(study).compares_pairs or results is None:
        return None
    facts = Facts(
        n_ratings=results.n,
        n_raters=results.n_raters,
        n_conversations=results.n_items,
        rated_bots=tuple(bot.bot for bot in results.strengths.bots),
        dimensions=tuple(dimension for dimension in study_dimensions(study) if dimension.key in pairs.titles),
        all_dimensions=tuple(study_dimensions(study)),
    )
    frame = study_frame(study, facts, include_synthetic=include_synthetic, without=without)
    section = pairs_section(frame.study, results, pairs.titles, frame.bots)
    together = protocols_section(study, pairs)
    return _document(
        frame,
        [*section.lead[:2], *section.points, *section.lead[2:], *section.methods],
        headlines_of_pairs(results),
        [
            section,
            *([together] if together else []),
            *([] if study.is_imported else [plan_section(frame)]),
            pair_methods_section(frame),
        ],
    )
