"""Results, Why: folded parts of the analysis, each with its conclusion.

All results are computed with the comparison of the bots, or requested by this page. A folded section shows the
conclusion of its result; its content is requested when it is opened, from the same address with `part` and `only`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from webapp.conversations.selectors import synthetic_count
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.folded_sections import Choice, FoldedSection
from webapp.dashboard.forms import BotColumnsForm, FormulaForm
from webapp.dashboard.navigation import form_view, read_view
from webapp.dashboard.views.studies import (
    ShownResult,
    analysis_key,
    kept_in_address,
    shown_result,
    stored_result,
    study_page,
)
from webapp.insights.narrative.comparisons import powered_section, predictor_title
from webapp.insights.narrative.phrases import Section
from webapp.insights.narrative.raters import answers_section
from webapp.insights.narrative.trajectories import point_table
from webapp.insights.report_sections import SECTIONS
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.results.cache import AnalysisKey, result_at_hand
from webapp.results.compute import explanation_parts
from webapp.results.study_data import StudyFrame
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.services import bot_columns_store

_QUESTIONS = {
    "items": ("Items", "Which items differ?"),
    "models": ("Models", "Do the bots differ, and what explains it?"),
    "formula": ("Model by formula", "Does your own model explain more?"),
    "raters": ("Raters", "Are the raters careful and consistent?"),
    "agreement": ("Agreement", "Do raters of the same chat agree?"),
    "trajectories": ("Trajectories", "What changes over a conversation?"),
    "correlations": ("Correlations", "What goes together with high ratings?"),
    "powered": ("Unrated chats", "Do unrated chats make the means more precise?"),
}
"""Short titles and questions of the sections, in order."""


def why_parts(study: Study) -> list[str]:
    """Return the ids of the sections that the study has."""
    parts = explanation_parts(study)
    return [name for name in _QUESTIONS if _result_of(name) in parts]


@form_view(to_post=[Right.RUN])
def study_why(request: HttpRequest, study: Study) -> HttpResponse:
    """Show the sections, the requested one open.

    POST stores a table of bots.
    """
    problem, opened, formula = "", request.GET.get("part", ""), None
    if request.method == "POST":
        opened, problem = "correlations", _store(request, study)
        if not problem:
            return redirect(f"{reverse('dashboard:study_why', args=[study.key])}?part={opened}#{opened}")
    parts = why_parts(study)
    if opened and opened not in parts:
        raise Http404
    if opened == "formula":
        formula = FormulaForm(study, request.GET if "terms" in request.GET else None)
    first = analysis_key(request, study, _result_of(parts[0]))
    sections = []
    if first.state.n_ratings:
        shown_parts = [opened] if opened and "only" in request.GET else parts
        bots = tuple(study_bots(study).values())
        sections = [_section(request, first, name, bots, formula, is_open=name == opened) for name in shown_parts]
    return study_page(
        request,
        "why.html",
        study,
        "why",
        leaves_out=True,
        sections=sections,
        waiting=next((section.waiting for section in sections if section.is_open and section.waiting), None),
        computing=None if opened else _computing(sections),  # no reload under the reader's eyes
        form=BotColumnsForm(),
        problem=problem,
        own=BotColumns.from_json(study.bot_columns),
        n_synthetic=synthetic_count(study),
        status=400 if problem or (formula and formula.errors) else 200,
    )


def _result_of(part: str) -> str:
    """Return the part of the analysis that a section shows."""
    return "answers" if part == "agreement" else part


def _section(
    request: HttpRequest,
    first: AnalysisKey,
    name: str,
    bots: tuple[BotInfo, ...],
    formula: FormulaForm | None,
    *,
    is_open: bool,
) -> FoldedSection:
    title, question = _QUESTIONS[name]
    if name == "items" and get_protocol(first.study).marks_errors:
        title, question = "Errors", "Which errors do the bots make?"
    build_fold = partial(
        FoldedSection, name, title, question=question, is_open=is_open, formula_form=formula if is_open else None
    )
    key = first.with_part(_result_of(name))
    if name == "formula" and not is_open:
        return build_fold("Fit a model with your own formula, such as the rating by bot and number of words.")
    if not is_open:
        try:
            return build_fold(_conclusion(key, name, key.state.digest, bots))
        except LookupError:
            shown = shown_result(request, key)
            if shown.frame is None:
                return build_fold(_PENDING[(shown.waiting or {}).get("failed", False)], waiting=shown.waiting)
            return build_fold(_content(name, shown.frame, shown.result, {})[0].in_one_sentence, waiting=shown.waiting)
    if formula is not None and formula.errors:
        return build_fold()
    stored = shown_result(request, first.with_part(key.part, formula.model if formula else None))
    if stored.frame is None:
        return build_fold(waiting=stored.waiting)
    content, choice = _content(name, stored.frame, stored.result, request.GET)
    return build_fold(content.in_one_sentence, content=content, waiting=stored.waiting, choice=choice)


_PENDING = {False: "Being computed.", True: "This could not be computed. Open it for the reason."}
"""Conclusion of a section without a result, by whether its job failed."""


def _computing(sections: Sequence[FoldedSection]) -> dict[str, Any] | None:
    """Return the job of the folded sections that is done last, with their number; None if all are computed."""
    waiting = [section.waiting for section in sections if section.waiting and not section.is_open]
    unfinished = [job for job in waiting if not job["over"]]
    if not unfinished:
        return None
    return {**max(unfinished, key=lambda job: job["job"].pk), "n": len(unfinished)}


@lru_cache(maxsize=1024)
def _conclusion(key: AnalysisKey, name: str, _digest: str, bots: tuple[BotInfo, ...]) -> str:
    """Return the conclusion of a folded section.

    It is cached by the state of the data and the bots' names.

    Raises:
        LookupError: its result is not stored.
    """
    computed = result_at_hand(key)
    if computed is None:
        raise LookupError(name)
    bots_by_id = {bot.bot_id: bot for bot in bots}
    frame = StudyFrame(key.study, key.include_synthetic, bots_by_id, computed.facts, excluded_flags=key.without)
    return _content(name, frame, computed.result, {})[0].in_one_sentence


def _content(name: str, frame: StudyFrame, result: Any, chosen_by: Mapping[str, Any]) -> tuple[Section, Choice | None]:
    """Return a section's text, figures and tables, with its choices."""
    if name == "agreement":
        dimension_key = chosen_by.get("dimension", "")
        chosen = next((d for d in frame.dimensions if d.key == dimension_key), frame.dimensions[0])
        options = [(dimension.key, dimension.title, dimension is chosen) for dimension in frame.dimensions]
        section = answers_section(
            frame, result.answers.get_dimension(chosen.key), chosen, partial(frame.answer_link, chosen)
        )
        return section, Choice("dimension", "Dimension", options)
    if name == "powered":
        predictor = chosen_by.get("by", "")
        predictor = predictor if predictor in result.by else result.first
        options = [
            (known_predictor, predictor_title(known_predictor), known_predictor == predictor)
            for known_predictor in result.by
        ]
        return powered_section(frame, result, predictor or ""), Choice("by", "Predictor", options) if options else None
    return SECTIONS[name](frame, result), None


def _store(request: HttpRequest, study: Study) -> str:
    """Store or remove the table of bots.

    Return the reason if it is refused.
    """
    if request.POST.get("clear"):
        bot_columns_store(study=study, columns=BotColumns())
        messages.success(request, "The table of bots was removed.")
        return ""
    form = BotColumnsForm(request.POST, request.FILES)
    if not form.is_valid():
        return " ".join(str(error) for errors in form.errors.values() for error in errors)
    file = form.cleaned_data["file"]
    try:
        columns = bot_columns_read(file.read(), list(study_bots(study)), file.name)
    except Refused as error:
        return error.message
    bot_columns_store(study=study, columns=columns)
    messages.success(
        request,
        f"{file.name} was saved: {len(columns.metrics)} numeric columns, {len(columns.factors)} text columns, "
        f"{len(columns.control)} controls.",
    )
    return ""


@read_view()
def point(request: HttpRequest, study: Study, figure: str, column: str, group: int, exchange: int) -> HttpResponse:
    """Show the conversations behind a point of a trajectory."""
    trajectories: ShownResult = stored_result(request, study, "trajectories")
    if trajectories.frame is None and trajectories.waiting is None:
        raise Http404
    table = None
    if trajectories.frame is not None:
        table = point_table(trajectories.frame, trajectories.result, figure, column, group, exchange)
        if table is None:
            raise Http404
    return study_page(
        request,
        "trajectory_point.html",
        study,
        "why",
        leaves_out=True,
        table=table,
        waiting=trajectories.waiting,
        back=f"{reverse('dashboard:study_why', args=[study.key])}{kept_in_address(request)}#trajectories",
    )
