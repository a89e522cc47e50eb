"""The list of studies, with what needs a person and what runs; and the theme."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from webapp.core.rights import Right, may
from webapp.dashboard import selectors
from webapp.dashboard.access import staff_only
from webapp.dashboard.context import page
from webapp.dashboard.needs import needs
from webapp.dashboard.unfinished import jobs_running
from webapp.dashboard.views.tour import tour_offered
from webapp.runs.services.jobs import jobs_settle
from webapp.studies.models import Study

_YEAR_S = 365 * 24 * 3600


@require_safe
@staff_only
def studies(request: HttpRequest) -> HttpResponse:
    """Show all studies."""
    jobs_settle()
    is_archive = request.GET.get("archived") == "1"
    rows = selectors.study_rows(is_archived=is_archive)
    return page(
        request,
        "studies.html",
        "studies",
        rows=rows,
        tour_of=selectors.tour_study() if tour_offered(request) and not is_archive else None,
        is_archive=is_archive,
        n_archived=selectors.archived_count(),
        n_collecting=sum(row.study.state == Study.State.COLLECTING for row in rows),
        needs=needs(may_pay=may(request.user, Right.PAY)),
        running=[(found, reverse(found.route[0], args=found.route[1])) for found in jobs_running()],
    )


@require_POST
@staff_only
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the chosen theme in a cookie and go back."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = reverse("dashboard:studies")
    response = redirect(back)
    chosen = request.POST.get("theme")
    if chosen in ("light", "dark"):
        response.set_cookie("theme", chosen, max_age=_YEAR_S, samesite="Lax", httponly=True)
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
