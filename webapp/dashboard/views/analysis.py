"""Analysis of a study: pages of bots, comparisons, and pairs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from evaluation.analysis.comparisons import POWER
from evaluation.analysis.planning import RaterPlan
from webapp.conversations.selectors import synthetic_count
from webapp.dashboard.charts.bots import bots_figure
from webapp.dashboard.filters import apply_flag_filter, requested_flags
from webapp.dashboard.forms import PlanForm
from webapp.dashboard.narrative.comparisons import planning_table
from webapp.dashboard.narrative.pairs import pairs_section
from webapp.dashboard.narrative.phrases import NamedTable
from webapp.dashboard.navigation import staff_only
from webapp.dashboard.report_sections import SECTIONS, prediction_of, protocols_part
from webapp.dashboard.selectors import study_cards
from webapp.dashboard.views.studies import (
    conversations_link,
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
def comparisons(request: HttpRequest, key: str) -> HttpResponse:
    """Show which bots differ significantly, and the raters that other differences need."""
    study = study_of(key)
    found = stored_result(request, study, "comparisons")
    plan_form, plan = PlanForm(request.GET or None), None
    if found.frame is not None and plan_form.is_valid():
        plan = _plan(found.frame, found.result.planned, plan_form)
    return study_page(
        request,
        "comparisons.html",
        study,
        "comparisons",
        leaves_out=True,
        analysis=None if found.frame is None else SECTIONS["comparisons"](found.frame, found.result),
        waiting=found.waiting,
        plan_form=plan_form,
        plan=plan,
        n_synthetic=synthetic_count(study),
    )


def _plan(frame: StudyFrame, planned: RaterPlan | None, form: PlanForm) -> NamedTable | None:
    asked = form.cleaned_data
    if asked.get("difference") is None or planned is None:
        return None
    power = asked["power"] or POWER
    chosen = planned.for_differences([asked["difference"]], power=power)
    return planning_table(frame, chosen, prediction_of(frame))


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
