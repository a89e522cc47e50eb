"""A study's statistics, a page for each part of the analysis, and the report of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from evaluation.analysis.comparisons import POWER
from evaluation.analysis.planning import plan_raters
from webapp.conversations.selectors import synthetic_count
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.analysis.study_data import StudyData, study_data
from webapp.dashboard.forms import BotColumnsForm, PlanForm
from webapp.dashboard.parts import (
    correlations_part,
    models_part,
    point_part,
    raters_part,
    trajectories_part,
)
from webapp.dashboard.report import report_html, report_of, report_steps
from webapp.dashboard.views.study import conversations_link, study_of, study_page, synthetic_asked
from webapp.dashboard.wording.comparisons import compared, comparisons_section, planning_table
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.ratings.bots import study_bots
from webapp.ratings.summary import bot_summary
from webapp.runs.selectors.analysed import analysed_counts, analysis_stamp
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store

_CACHE_S = 3600

PARTS: dict[str, tuple[Any, Callable[[StudyData], Section]]] = {
    "comparisons": (
        gettext_lazy("Comparisons"),
        lambda data: comparisons_section(
            data,
            compared(data, bot_summary(data.study, include_synthetic=data.include_synthetic)),
        ),
    ),
    "models": (gettext_lazy("Models"), models_part),
    "raters": (gettext_lazy("Raters"), raters_part),
    "trajectories": (gettext_lazy("Trajectories"), trajectories_part),
    "correlations": (gettext_lazy("Correlations"), correlations_part),
}


def _data(request: HttpRequest, study: Study) -> StudyData | None:
    synthetic = synthetic_asked(request)
    suffix = _suffix(request)
    return study_data(
        study,
        include_synthetic=synthetic,
        link=lambda bot: conversations_link(study, bot=bot, synthetic=synthetic),
        point_link=lambda *point: (
            reverse("dashboard:study_point", args=[study.key, *point]) + suffix
        ),
    )


def _suffix(request: HttpRequest) -> str:
    return "?synthetic=1" if synthetic_asked(request) else ""


def _section(request: HttpRequest, study: Study, part: str) -> Section | None:
    """Return the part, from the cache where nothing it is made of has changed; None without a rating."""
    key = f"analysis:{part}:{analysis_stamp(study, include_synthetic=synthetic_asked(request))}"
    found: Section | None = cache.get(key)
    if found is None:
        data = _data(request, study)
        if data is None:
            return None
        found = PARTS[part][1](data)
        cache.set(key, found, _CACHE_S)
    return found


@require_http_methods(["GET", "HEAD", "POST"])
@needs(to_post=[Right.RUN])
def statistics(request: HttpRequest, key: str, part: str = "comparisons") -> HttpResponse:
    """Show one part of the analysis; POST on "correlations" takes a table of bots."""
    if part not in PARTS:
        raise Http404
    study = study_of(key)
    form, problem = BotColumnsForm(), ""
    if request.method == "POST" and part == "correlations":
        problem = _store(request, study)
        if not problem:
            return redirect("dashboard:study_statistics_part", key, part)
    section = _section(request, study, part)
    plan_form, plan = PlanForm(request.GET or None), None
    if section is not None and part == "comparisons" and plan_form.is_valid():
        plan = _plan(request, study, plan_form)
    suffix = _suffix(request)
    return study_page(
        request,
        "statistics.html",
        study,
        "statistics",
        part=part,
        parts=[
            (name, title, reverse("dashboard:study_statistics_part", args=[key, name]) + suffix)
            for name, (title, _make) in PARTS.items()
        ],
        analysis=section,
        plan_form=plan_form,
        plan=plan,
        form=form,
        problem=problem,
        own=BotColumns.from_json(study.bot_columns),
        n_synthetic=synthetic_count(study),
        status=400 if problem else 200,
    )


@require_safe
@staff_only
def point(
    request: HttpRequest, key: str, figure: str, column: str, group: int, exchange: int
) -> HttpResponse:
    """Show the conversations behind a point of a trajectory."""
    study = study_of(key)
    data = _data(request, study)
    if data is None:
        raise Http404
    table = point_part(
        data,
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
        table=table,
        back=f"{back}{_suffix(request)}#figure-{figure}",
    )


def _plan(request: HttpRequest, study: Study, form: PlanForm) -> NamedTable | None:
    asked = form.cleaned_data
    if asked.get("difference") is None:
        return None
    data = _data(request, study)
    assert data is not None
    plan = plan_raters(data.ratings, [asked["difference"]], power=asked["power"] or POWER)
    return planning_table(data, plan)


def _store(request: HttpRequest, study: Study) -> str:
    """Take the table of bots that was sent, or take the stored one away; why not, if it is refused."""
    if request.POST.get("clear"):
        bot_columns_store(study=study, columns=BotColumns())
        messages.success(request, _("The table of bots is taken away."))
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
        _(
            "{file} is stored: {numbers} columns of numbers, {factors} of words, {controls} controls."
        ).format(
            file=file.name,
            numbers=len(columns.metrics),
            factors=len(columns.factors),
            controls=len(columns.control),
        ),
    )
    return ""


@require_safe
@staff_only
def report(request: HttpRequest, key: str) -> HttpResponse:
    """Show what the report holds, and the button that makes it."""
    study = study_of(key)
    counts = analysed_counts(study, include_synthetic=synthetic_asked(request))
    return study_page(
        request,
        "report.html",
        study,
        "report",
        n_ratings=counts.n_ratings,
        n_measured=counts.n_measured,
        n_fits=counts.n_fits,
    )


@require_safe
@staff_only
def report_file(request: HttpRequest, key: str) -> HttpResponse:
    """Send the report as `manage.py report` writes it."""
    study = study_of(key)
    data = study_data(study, include_synthetic=synthetic_asked(request))
    if data is None:
        raise Http404
    page = report_html(report_of(data, [make() for _title, make in report_steps(data)]))
    # To be kept, not shown here: it brings its own policy, and the site's would take its style away.
    return HttpResponse(
        page,
        content_type="text/html; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{key}-report.html"'},
    )
