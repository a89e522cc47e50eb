"""Development of judges: versions of the prompt, disagreements with people, corrections, and drift."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.forms import CorrectionForm, DevelopmentForm, VersionForm
from webapp.dashboard.navigation import form_view, metric_tabs, page, post_view
from webapp.dashboard.views.jobs import job_context
from webapp.insights.judge_versions import DevelopmentPage, VersionState
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.judge_versions import (
    correction_save,
    development_of,
    development_start,
    developments,
    version_add,
    version_check,
    version_numbered,
)
from webapp.results.judges import drift_ask, judges_done
from webapp.results.models import JudgeDevelopment


@form_view(to_post=[Right.RUN])
def judge_developments(request: HttpRequest) -> HttpResponse:
    """List the judges in development; POST starts one."""
    form = DevelopmentForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            development = development_start(**form.to_arguments(), created_by=request.user)  # type: ignore[arg-type]
            return redirect("dashboard:judge_development", development.pk)
        except Refused as error:
            form.add_error(None, str(error))
    return page(
        request,
        "judge_developments.html",
        "metrics",
        metric_tabs=metric_tabs("judges"),
        developments=developments(),
        form=form,
        status=400 if form.errors else 200,
    )


@form_view(to_post=[Right.RUN])
def judge_development(request: HttpRequest, pk: int) -> HttpResponse:
    """Show versions side by side and their disagreements with people.

    POST adds a version, checks one, or stores a correction.
    """
    if (development := development_of(pk)) is None:
        raise Http404
    try:
        if request.method == "POST" and (problem := _change(request, development)):
            messages.error(request, problem)
        elif request.method == "POST":
            return redirect(request.get_full_path())
        jobs_settle()
        details = DevelopmentPage.from_development(development)
    except Refused as error:
        messages.error(request, error.message)
        return redirect("dashboard:judge_developments")
    before, after = _chosen(request, details.versions)
    return page(
        request,
        "judge_development.html",
        "metrics",
        details=details,
        before=before,
        after=after,
        comparison=details.compare(before, after) if before.version != after.version else None,
        gaps=details.gaps(after),
        running=[job_context(job, job.kind) for state in details.versions for job in state.running],
        form=VersionForm(development, after.version, request.POST if request.POST.get("action") == "version" else None),
        status=400 if request.method == "POST" else 200,
    )


def _change(request: HttpRequest, development: JudgeDevelopment) -> str:
    """Execute the action of a POST; return the reason if it is refused."""
    action, user = request.POST.get("action", ""), request.user
    try:
        if action == "version":
            form = VersionForm(development, None, request.POST)
            if not form.is_valid():
                return form.first_error()
            version_add(development, **form.cleaned_data, created_by=user)  # type: ignore[arg-type]
        elif action == "correct":
            correction = CorrectionForm(request.POST)
            if not correction.is_valid():
                return correction.first_error()
            correction_save(development, **correction.cleaned_data, user=user)  # type: ignore[arg-type]
        elif action in ("development", "test"):
            text = request.POST.get("number", "")
            number = int(text) if text.isdecimal() and len(text) < 9 else 0
            version_check(version_numbered(development, number), action, created_by=user)  # type: ignore[arg-type]
        else:
            return "Unknown action."
    except Refused as error:
        return error.message
    return ""


def _chosen(request: HttpRequest, versions: Sequence[VersionState]) -> tuple[VersionState, VersionState]:
    """Return the two versions that the address names, or the last two."""
    by_number = {str(state.version.number): state for state in versions}
    after = by_number.get(request.GET.get("after", ""), versions[-1])
    earlier = [state for state in versions if state.version.number < after.version.number]
    return by_number.get(request.GET.get("before", ""), earlier[-1] if earlier else after), after


@post_view(Right.RUN)
def judges_drift(request: HttpRequest, pk: int) -> HttpResponse:
    """Check the judges of a finished comparison for drift."""
    comparison = judges_done(pk)
    if comparison is None:
        raise Http404
    drift_ask(comparison, created_by=request.user)  # type: ignore[arg-type]
    return redirect("dashboard:judges")
