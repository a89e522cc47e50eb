"""The whole analysis of a study, part by part, for a page of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from webapp.dashboard import counts
from webapp.dashboard.leaving_out import left_out_sentence
from webapp.dashboard.parts import (
    SECTIONS,
    hybrid_part,
    methods_part,
    pair_methods_part,
    protocols_part,
    raters_part,
)
from webapp.dashboard.reporting.document import Document, Headline, chapter_of
from webapp.dashboard.reporting.headlines import headlines_of, headlines_of_pairs
from webapp.dashboard.wording.comparisons import headline_sentence, ratings_section
from webapp.dashboard.wording.pairs import pairs_section
from webapp.dashboard.wording.sections import Section
from webapp.ratings.pairs import compares_pairs
from webapp.ratings.selectors import study_dimensions
from webapp.results.making import StudyComparisons
from webapp.results.pairs import study_pairs
from webapp.results.study_data import Facts, StudyFrame, study_frame
from webapp.results.summary import StudySummary, bot_summary
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items

ResultOf = Callable[[str], Any]
"""Gives the result of a part of the analysis by its name, as `webapp.results.making.PARTS` has it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A section of a report that is still to be made: its id, what it is called while it is made, how it is made."""

    id: str
    title: str
    make: Callable[[], Section]


def report_steps(frame: StudyFrame, result: ResultOf) -> Iterator[Step]:
    """Yield the sections to be made, in order, so that whoever makes them can show how far it is."""

    def section(part: str) -> Callable[[], Section]:
        return lambda: SECTIONS[part](frame, result(part))

    yield Step(
        "ratings",
        "ratings",
        lambda: ratings_section(frame, _summary(frame, result), result("answers").headline),
    )
    yield Step("comparisons", "comparisons", section("comparisons"))
    if judges_items(frame.study):
        yield Step("items", "items", section("items"))
    told = protocols_part(
        frame.study,
        study_pairs(frame.study, include_synthetic=frame.include_synthetic, without=frame.without),
    )
    if told is not None:
        yield Step("one-turn", "one turn and chats", lambda: told)
    yield Step("models", "models", section("models"))
    yield Step("raters", "raters", lambda: raters_part(frame, result("raters"), names=False))
    yield Step("hybrid", "hybrid metric", lambda: hybrid_part(frame))
    yield Step("trajectories", "trajectories", section("trajectories"))
    yield Step("correlations", "correlations", section("correlations"))
    if result("powered").by:
        yield Step("powered", "unrated chats", section("powered"))
    yield Step("methods", "methods", lambda: methods_part(frame))


def report_of(frame: StudyFrame, result: ResultOf, sections: Sequence[Section]) -> Document:
    """Put the sections under a summary in words and four numbers."""
    found: StudyComparisons = result("comparisons")
    compared = SECTIONS["comparisons"](frame, found).lead
    return _document(
        frame,
        _in_short(frame, _summary(frame, result), compared),
        headlines_of(frame, result("raters").agreement, found.means),
        sections,
    )


def _document(
    frame: StudyFrame,
    summary: Sequence[str],
    headlines: tuple[Headline, ...],
    sections: Sequence[Section],
) -> Document:
    return Document(
        study=frame.study.key,
        name=frame.study.name,
        rubric_version=frame.study.rubric.version,
        made=timezone.now(),
        n_ratings=frame.facts.n_ratings,
        n_conversations=frame.facts.n_conversations,
        summary=tuple(summary),
        headlines=headlines,
        chapters=tuple(chapter_of(section) for section in sections),
    )


def _summary(frame: StudyFrame, result: ResultOf) -> StudySummary:
    found: StudyComparisons = result("comparisons")
    return bot_summary(
        frame.study,
        include_synthetic=frame.include_synthetic,
        without=frame.without,
        found=(found.means, found.compared),
    )


def _in_short(frame: StudyFrame, summary: StudySummary, compared: Sequence[str]) -> list[str]:
    n_people = frame.facts.n_raters
    first = (
        "{people} rated {chats} with {bots} on {dimensions}."
        if n_people
        else "Ratings of {chats} with {bots} on {dimensions}."
    )
    counted = counts.conversations
    if judges_items(frame.study):
        first, counted = "{people} rated {chats} of {bots} on {dimensions}.", counts.items
    first = first.format(
        people=counts.people(n_people),
        chats=counted(frame.facts.n_conversations),
        bots=counts.bots(len(frame.rated_bots)),
        dimensions=counts.dimensions(len(frame.dimensions)),
    )
    left = left_out_sentence(frame.study, frame.without)
    return [first, *([left] if left else []), headline_sentence(frame, summary), *compared]


def pair_report(
    study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()
) -> Document | None:
    """Return the report of a study whose people compare pairs; None where nobody has compared any."""
    found = study_pairs(study, include_synthetic=include_synthetic, without=without)
    results = found.results
    if not compares_pairs(study) or results is None:
        return None
    facts = Facts(
        n_ratings=results.n,
        n_raters=results.n_raters,
        n_conversations=results.n_items,
        rated_bots=tuple(one.bot for one in results.strengths.bots),
        dimensions=tuple(one for one in study_dimensions(study) if one.key in found.titles),
        all_dimensions=tuple(study_dimensions(study)),
    )
    frame = study_frame(study, facts, include_synthetic=include_synthetic, without=without)
    section = pairs_section(results, found.titles, frame.bots)
    together = protocols_part(study, found)
    headline, *more = [*section.points, *section.lead[1:]] or [""]
    return _document(
        frame,
        [section.lead[0], headline, *more],
        headlines_of_pairs(results),
        [section, *([together] if together else []), pair_methods_part(frame)],
    )
