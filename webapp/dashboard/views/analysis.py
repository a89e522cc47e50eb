"""Analysis of a study: pages of bots, agreement, statistics, and pairs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from evaluation.analysis.comparisons import POWER
from evaluation.analysis.planning import RaterPlan
from webapp.conversations.selectors import synthetic_count
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.charts.bots import bots_figure
from webapp.dashboard.charts.distributions import answers_figure
from webapp.dashboard.filters import apply_flag_filter, requested_flags
from webapp.dashboard.forms import BotColumnsForm, PlanForm
from webapp.dashboard.narrative.comparisons import planning_table, powered_section, predictor_title
from webapp.dashboard.narrative.correlations import dimensions_figure
from webapp.dashboard.narrative.pairs import pairs_section
from webapp.dashboard.narrative.phrases import NamedTable
from webapp.dashboard.navigation import requires, staff_only
from webapp.dashboard.report_sections import SECTIONS, point_part, prediction_of, protocols_part
from webapp.dashboard.selectors import study_cards
from webapp.dashboard.views.studies import (
    conversations_link,
    kept_in_address,
    stored_result,
    study_of,
    study_page,
    synthetic_asked,
)
from webapp.ratings.paired_comparisons import compares_pairs
from webapp.ratings.selectors import study_bots
from webapp.results.bot_means import bot_summary
from webapp.results.item_results import study_pairs
from webapp.results.study_data import StudyFrame
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study
from webapp.studies.selectors import chooses_things, judges_items
from webapp.studies.services import bot_columns_store

_TITLES: dict[str, Any] = {
    "comparisons": "Comparisons",
    "items": "Items",
    "models": "Models",
    "raters": "Raters",
    "trajectories": "Trajectories",
    "correlations": "Correlations",
    "powered": "Unrated chats",
}
"""Of the parts of the statistics, in order."""


@require_safe
@staff_only
def bots(request: HttpRequest, key: str) -> HttpResponse:
    """Show the comparison of the study's bots."""
    study = study_of(key)
    synthetic, without = synthetic_asked(request), requested_flags(request)
    failed = request.GET.get("failed") == "1"
    found = stored_result(request, study, "comparisons", failed=failed)
    drawn = None
    # The same number as the cards would count, where it is known.
    n_raters = None
    if found.frame is not None and found.waiting is None and not failed:
        n_raters = found.frame.facts.n_raters
    if found.result is not None:
        summary = bot_summary(
            study,
            include_synthetic=synthetic,
            include_failed=failed,
            without=without,
            found=(found.result.means, found.result.compared),
        )
        drawn = bots_figure(
            summary,
            lambda bot: conversations_link(study, bot=bot.bot.bot_id, synthetic=synthetic, without=without),
        )
    return study_page(
        request,
        "bots_compared.html",
        study,
        "bots",
        leaves_out=True,
        cards=study_cards(study, include_synthetic=synthetic, without=without, n_raters=n_raters),
        n_synthetic=synthetic_count(study),
        failed=failed,
        figure=drawn,
        waiting=found.waiting,
    )


@require_safe
@staff_only
def agreement(request: HttpRequest, key: str) -> HttpResponse:
    """Show how answers spread, which dimensions move together, and whether raters agree."""
    study = study_of(key)
    found = stored_result(request, study, "answers")
    context: dict[str, Any] = {"waiting": found.waiting}
    if found.frame is not None:
        frame, result = found.frame, found.result
        asked = request.GET.get("dimension", "")
        dimension = next((d for d in frame.dimensions if d.key == asked), frame.dimensions[0])
        titles = {dimension.key: dimension.title for dimension in frame.dimensions}
        answers = result.answers.of(dimension.key)
        context |= {
            "dimensions": frame.dimensions,
            "shown": dimension,
            "shared": answers.shared,
            "spread": answers_figure(
                answers,
                dimension,
                frame.bots,
                lambda bot, answer: conversations_link(
                    study,
                    bot=bot,
                    synthetic=frame.include_synthetic,
                    without=frame.without,
                    question=dimension.key,
                    answer=answer,
                ),
            ),
            "heat": dimensions_figure(result.together, titles, has_controls=bool(frame.controls))
            if result.together
            else None,
        }
    return study_page(
        request,
        "agreement.html",
        study,
        "agreement",
        leaves_out=True,
        **context,
        n_synthetic=synthetic_count(study),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@requires(to_post=[Right.RUN])
def statistics(request: HttpRequest, key: str, part: str = "") -> HttpResponse:
    """Show one part of the analysis; POST on "correlations" takes a table of bots."""
    study = study_of(key)
    part = part or ("items" if chooses_things(study) else "comparisons")
    titles = {name: title for name, title in _TITLES.items() if is_part_of(study, name)}
    if part not in titles:
        raise Http404
    form, problem = BotColumnsForm(), ""
    if request.method == "POST" and part == "correlations":
        problem = _store(request, study)
        if not problem:
            return redirect("dashboard:study_statistics_part", key, part)
    found = stored_result(request, study, part)
    section, predictors = None, []
    if found.frame is not None and part == "powered":
        by = request.GET.get("by", "")
        section = powered_section(found.frame, found.result, by)
        chosen = by if by in found.result.by else found.result.first
        predictors = [(name, predictor_title(name), name == chosen) for name in found.result.by]
    elif found.frame is not None:
        section = SECTIONS[part](found.frame, found.result)
    plan_form, plan = PlanForm(request.GET or None), None
    if found.frame is not None and part == "comparisons" and plan_form.is_valid():
        plan = _plan(found.frame, found.result.planned, plan_form)
    suffix = kept_in_address(request)
    return study_page(
        request,
        "statistics.html",
        study,
        "statistics",
        leaves_out=True,
        part=part,
        parts=[
            (name, title, reverse("dashboard:study_statistics_part", args=[key, name]) + suffix)
            for name, title in titles.items()
        ],
        analysis=section,
        waiting=found.waiting,
        plan_form=plan_form,
        plan=plan,
        predictors=predictors,
        form=form,
        problem=problem,
        own=BotColumns.from_json(study.bot_columns),
        n_synthetic=synthetic_count(study),
        status=400 if problem else 200,
    )


def is_part_of(study: Study, part: str) -> bool:
    """Return True if the study has this part.

    Studies of chats have no items; studies of items have no trajectories and no metrics.
    """
    return part not in ({"trajectories", "powered"} if judges_items(study) else {"items"})


@require_safe
@staff_only
def point(request: HttpRequest, key: str, figure: str, column: str, group: int, exchange: int) -> HttpResponse:
    """Show the conversations behind a point of a trajectory."""
    study = study_of(key)
    found = stored_result(request, study, "trajectories")
    if found.frame is None and found.waiting is None:
        raise Http404
    table = None
    if found.frame is not None:
        table = point_part(
            found.frame,
            found.result,
            figure,
            column,
            group,
            exchange,
            lambda pk: reverse("dashboard:conversation", args=[pk]),
        )
        if table is None:
            raise Http404
    back = reverse("dashboard:study_statistics_part", args=[key, "trajectories"])
    return study_page(
        request,
        "trajectory_point.html",
        study,
        "statistics",
        leaves_out=True,
        table=table,
        waiting=found.waiting,
        back=f"{back}{kept_in_address(request)}#figure-{figure}",
    )


def _plan(frame: StudyFrame, planned: RaterPlan | None, form: PlanForm) -> NamedTable | None:
    asked = form.cleaned_data
    if asked.get("difference") is None or planned is None:
        return None
    power = asked["power"] or POWER
    chosen = planned.for_differences([asked["difference"]], power=power)
    return planning_table(frame, chosen, prediction_of(frame))


def _store(request: HttpRequest, study: Study) -> str:
    """Take the table of bots that was sent, or take the stored one away; why not, if it is refused."""
    if request.POST.get("clear"):
        bot_columns_store(study=study, columns=BotColumns())
        messages.success(request, "The table of bots is taken away.")
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
        f"{file.name} is stored: {len(columns.metrics)} columns of numbers, {len(columns.factors)} of words, "
        f"{len(columns.control)} controls.",
    )
    return ""


@require_safe
@staff_only
def pairs(request: HttpRequest, key: str) -> HttpResponse:
    """Show what judgements of pairs say."""
    study = study_of(key)
    compares = compares_pairs(study)
    found = study_pairs(
        study,
        beside=request.GET.get("with", ""),
        include_synthetic=synthetic_asked(request),
        without=apply_flag_filter(request, study),
    )
    sections = []
    if compares and found.results is not None:
        sections.append(pairs_section(found.results, found.titles, study_bots(study)))
    told = protocols_part(study, found)
    if told is not None:
        sections.append(told)
    return study_page(
        request,
        "pairs.html",
        study,
        "pairs",
        leaves_out=True,
        sections=sections,
        n_synthetic=synthetic_count(study),
        beside=found.beside,
        other=found.other,
        compares=compares,
    )
