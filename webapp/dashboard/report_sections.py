"""Sections of a study's analysis, for pages and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from evaluation.analysis.correlations import HybridCorrelations
from evaluation.analysis.planning import PredictionWorth, prediction_worth
from evaluation.analysis.raters import RaterAnalysis
from webapp.dashboard.filters import left_out_sentence
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.comparisons import (
    comparisons_section,
    headline_sentence,
    powered_section,
    ratings_section,
)
from webapp.dashboard.narrative.correlations import correlations_section
from webapp.dashboard.narrative.hybrid_fits import hybrid_section
from webapp.dashboard.narrative.items import items_section
from webapp.dashboard.narrative.methods import Sources, methods_section, pair_methods_section
from webapp.dashboard.narrative.models import models_section
from webapp.dashboard.narrative.pairs import pairs_section, protocols_section
from webapp.dashboard.narrative.phrases import NamedTable, Section
from webapp.dashboard.narrative.raters import raters_section
from webapp.dashboard.narrative.trajectories import MOST, point_table, trajectories_section
from webapp.dashboard.report_document import Document, Headline, chapter_of, headlines_of, headlines_of_pairs
from webapp.jobs.selectors.analysis_tables import bot_versions
from webapp.jobs.selectors.fits import fit_by_id, fit_leading, fits_newest
from webapp.jobs.selectors.metrics import left_out_sentences, metrics_left_out, versions_used
from webapp.ratings.paired_comparisons import compares_pairs
from webapp.ratings.selectors import study_bots, study_conversations, study_dimensions, study_whole
from webapp.results.bot_means import StudySummary, bot_summary
from webapp.results.compute import StudyComparisons, StudyCorrelations, StudyTrajectories, point_ratings, study_point
from webapp.results.item_results import PairPage, study_pairs
from webapp.results.study_data import Facts, StudyFrame, study_frame
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items


def prediction_of(frame: StudyFrame) -> PredictionWorth | None:
    """Return the ratings saved by the leading fit's predictions, or None without a fit."""
    fit = fit_leading(frame.study, frame.without)
    if fit is None or not fit.result:
        return None
    return prediction_worth(fit.result, study_whole(frame.study))


def raters_part(frame: StudyFrame, found: RaterAnalysis, *, names: bool = True) -> Section:
    """Return the section on the raters.

    Args:
        names: whether to list flagged raters one by one.
    """
    return raters_section(found, frame.all_dimensions, frame.bots, names=names, of_items=judges_items(frame.study))


def hybrid_part(frame: StudyFrame) -> Section:
    """Return the stored fits of the hybrid metric."""
    return hybrid_section(
        fits_newest(frame.study, frame.without),
        study_key=frame.study.key,
        without=frame.without,
        bots=frame.bots,
        dimensions={dimension.key: dimension.title for dimension in frame.dimensions},
        link=frame.link,
    )


def correlations_part(frame: StudyFrame, found: StudyCorrelations) -> Section:
    """Return the section of correlations."""
    fit = fit_by_id(found.fit) if found.fit is not None else None
    result = fit.result if fit is not None else None
    return correlations_section(
        found.dimensions,
        found.metrics,
        found.bots,
        questions=frame.all_dimensions,
        study_key=frame.study.key,
        run=found.run,
        hybrid=HybridCorrelations(result) if result else None,
        fit=found.fit,
        has_controls=bool(frame.controls),
        controls_in_fit=any(
            bot in frame.bots and frame.bots[bot].is_control and of_bot["human_mean"] is not None
            for bot, of_bot in (result or {"bots": {}})["bots"].items()
        ),
        left_out=left_out_sentences(metrics_left_out(study=frame.study)),
    )


def protocols_part(study: Study, found: PairPage) -> Section | None:
    """Return one-turn beside interactive evaluation of the study's bots; None where only one of them is there."""
    if found.compared is None or found.other is None:
        return None
    compares = compares_pairs(study)
    one_turn, interactive = (study, found.other) if compares else (found.other, study)
    return protocols_section(
        found.compared, found.titles, study_bots(interactive), one_turn=one_turn.name, interactive=interactive.name
    )


def pair_methods_part(frame: StudyFrame) -> Section:
    """Return the methods section of paired comparisons."""
    questions = list(frame.study.rubric.dimensions.all())
    sources = Sources(bots=bot_versions(frame.study), metrics=[], fits=[], questions=questions)
    return pair_methods_section(frame, sources)


def methods_part(frame: StudyFrame) -> Section:
    """Return the methods section of the analysis."""
    conversations = study_conversations(frame.study, include_synthetic=frame.include_synthetic, without=frame.without)
    return methods_section(
        frame,
        Sources(
            bots=bot_versions(frame.study),
            metrics=versions_used(conversations),
            fits=fits_newest(frame.study, frame.without),
            questions=list(frame.study.rubric.dimensions.all()),
        ),
    )


SECTIONS: dict[str, Callable[[StudyFrame, Any], Section]] = {
    "comparisons": lambda frame, found: comparisons_section(frame, found.compared, found.planned, prediction_of(frame)),
    "items": items_section,
    "models": lambda frame, found: models_section(found, frame.headline, frame.bots, has_controls=bool(frame.controls)),
    "raters": raters_part,
    "trajectories": lambda frame, found: trajectories_section(
        found.best_worst,
        found.by_trait,
        headline=frame.headline,
        study_key=frame.study.key,
        has_controls=bool(frame.controls),
        point_link=frame.point_link,
    ),
    "correlations": correlations_part,
    "powered": powered_section,
}
"""By the name of the part, as in `webapp.results.compute.PARTS`."""


def point_part(
    frame: StudyFrame,
    found: StudyTrajectories,
    kind: str,
    column: str,
    group: int,
    exchange: int,
    link: Callable[[str], str],
) -> NamedTable | None:
    """Return the conversations behind a point of a trajectory; None for no such point.

    Args:
        kind, column, group: which course; the group by its place in the figure.
        exchange: from 1.
        link: address of a conversation.
    """
    counted = {"include_synthetic": frame.include_synthetic, "without": frame.without}
    point = study_point(frame.study, found, kind, column, group, exchange, **counted)  # type: ignore[arg-type]
    if point is None:
        return None
    grouping, values = point
    means = point_ratings(frame.study, list(values)[:MOST], frame.headline.key)
    rated = {pk: (frame.bots[bot], mean) for pk, (bot, mean) in means.items()}
    # Without those that are gone since the courses were computed.
    values = {pk: value for n, (pk, value) in enumerate(values.items()) if n >= MOST or pk in rated}
    return point_table((grouping, values), rated, place=(column, group, exchange), headline=frame.headline, link=link)


ResultOf = Callable[[str], Any]
"""Gives the result of a part of the analysis by its name, as `webapp.results.compute.PARTS` has it."""


@dataclass(frozen=True, slots=True)
class ReportStep:
    """A section of a report that is still to be made: its id, what it is called while it is made, how it is made."""

    id: str
    title: str
    make: Callable[[], Section]


def report_steps(frame: StudyFrame, result: ResultOf) -> Iterator[ReportStep]:
    """Yield the sections to be made, in order, so that whoever makes them can show how far it is."""

    def section(part: str) -> Callable[[], Section]:
        return lambda: SECTIONS[part](frame, result(part))

    yield ReportStep(
        "ratings", "ratings", lambda: ratings_section(frame, _summary(frame, result), result("answers").headline)
    )
    yield ReportStep("comparisons", "comparisons", section("comparisons"))
    if judges_items(frame.study):
        yield ReportStep("items", "items", section("items"))
    told = protocols_part(
        frame.study, study_pairs(frame.study, include_synthetic=frame.include_synthetic, without=frame.without)
    )
    if told is not None:
        yield ReportStep("one-turn", "one turn and chats", lambda: told)
    yield ReportStep("models", "models", section("models"))
    yield ReportStep("raters", "raters", lambda: raters_part(frame, result("raters"), names=False))
    yield ReportStep("hybrid", "hybrid metric", lambda: hybrid_part(frame))
    yield ReportStep("trajectories", "trajectories", section("trajectories"))
    yield ReportStep("correlations", "correlations", section("correlations"))
    if result("powered").by:
        yield ReportStep("powered", "unrated chats", section("powered"))
    yield ReportStep("methods", "methods", lambda: methods_part(frame))


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
    frame: StudyFrame, summary: Sequence[str], headlines: tuple[Headline, ...], sections: Sequence[Section]
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
    of_items = judges_items(frame.study)
    rated = phrases.items_text if of_items else phrases.conversations_text
    first = (
        f"{phrases.people_text(n_people) + ' rated' if n_people or of_items else 'Ratings of'} "
        f"{rated(frame.facts.n_conversations)} {'of' if of_items else 'with'} "
        f"{phrases.bots_text(len(frame.rated_bots))} on {phrases.dimensions_text(len(frame.dimensions))}."
    )
    left = left_out_sentence(frame.study, frame.without)
    return [first, *([left] if left else []), headline_sentence(frame, summary), *compared]


def pair_report(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> Document | None:
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
    return _document(
        frame,
        [section.lead[1], section.lead[0], *section.points, *section.lead[2:], *section.how],
        headlines_of_pairs(results),
        [section, *([together] if together else []), pair_methods_part(frame)],
    )
