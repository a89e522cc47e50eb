"""Page of a study's simulated participants, compared with real ones."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.http import content_disposition_header

from webapp.conversations.selectors import simulated_chats
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.forms import SimulationForm
from webapp.dashboard.navigation import form_view, read_view, study_of
from webapp.dashboard.render import table_csv
from webapp.dashboard.views.jobs import job_context, run_progress
from webapp.dashboard.views.studies import study_page
from webapp.insights.narrative.realism import realism_section
from webapp.jobs.models import Job, SelfPlayRun
from webapp.jobs.services.jobs import jobs_settle
from webapp.ratings.selectors import study_bots
from webapp.results.realism import REALISM_KIND, realism_ask, realism_newest, realism_of, simulation_plan
from webapp.studies.models import Study


@form_view(to_post=[Right.RUN])
def simulated(request: HttpRequest, study: Study) -> HttpResponse:
    """Compare a run of simulated participants with real ones.

    The newest run by default; POST starts one.
    """
    form = SimulationForm(request.POST or None, studies=[study])
    started = form.create_run(request.user) if request.method == "POST" else None
    if started is not None:
        return redirect(f"{reverse('dashboard:study_simulated', args=[study.key])}?run={started.pk}")
    jobs_settle()
    runs = list(study.simulations.order_by("-pk"))
    run_id = request.GET.get("run", "")
    run = next((simulation for simulation in runs if str(simulation.pk) == run_id or not run_id), None)
    if run_id and run is None:
        raise Http404(f"the study has no run {run_id}")
    return study_page(
        request,
        "simulated.html",
        study,
        "replacement",
        page_title="Simulated participants",
        form=form,
        plan=simulation_plan(study),
        form_open=bool(form.errors) or request.GET.get("new") == "1" or not runs,
        runs=runs,
        chosen=run,
        samples=simulated_chats(run.pk, 2) if run is not None else [],
        status=400 if form.errors else 200,
        **(_result_context(request, run) if run is not None else {}),
    )


def _result_context(request: HttpRequest, run: SelfPlayRun) -> dict[str, Any]:
    """Return the progress of a run and its metrics, then its results."""
    progress = run_progress(run)
    if not progress["over"]:
        return progress
    try:
        results = [_result(request, run, name) for name in run.plan["participants"]]
    except Refused as refused:
        return {**progress, "refused": refused.message}
    return {**progress, "results": results, "next": request.get_full_path()}


def _result(request: HttpRequest, run: SelfPlayRun, participant: str) -> dict[str, Any]:
    """Return the newest comparison with its files, and a pending job."""
    assert run.study is not None
    job = realism_ask(run, participant, request.user)  # type: ignore[arg-type]
    newest = realism_newest(run.study, run=run.pk, participant=participant)
    context: dict[str, Any] = {}
    if newest is None or newest[0].pk != job.pk:
        context["job"] = {**job_context(job, job.kind), "over": job.is_over}
    if newest is not None:
        section = realism_section(newest[1], study_bots(run.study))
        names = {"JSON": "result.json"} | {
            f"{named_table.title}, CSV": f"{named_table.id}.csv" for named_table in section.tables
        }
        address = [run.study.key, newest[0].pk]
        context["files"] = [
            (title, reverse("dashboard:study_simulated_file", args=[*address, name])) for title, name in names.items()
        ]
        context["section"] = section
    return context


@read_view()
def simulated_file(request: HttpRequest, key: str, pk: int, name: str) -> HttpResponse:
    """Send a comparison as JSON, or one of its tables as CSV."""
    job = get_object_or_404(Job, pk=pk, kind=REALISM_KIND, study__key=key)
    comparison = realism_of(job)
    if comparison is None:
        raise Http404("the comparison has no result")
    if name == "result.json":
        response = HttpResponse(json.dumps(comparison.to_json(), ensure_ascii=False), content_type="application/json")
    else:
        tables = realism_section(comparison, study_bots(study_of(key))).tables
        table = next((named_table for named_table in tables if f"{named_table.id}.csv" == name), None)
        if table is None:
            raise Http404("the comparison has no such table")
        response = HttpResponse(table_csv(table.table), content_type="text/csv; charset=utf-8")
    record(DOWNLOAD, job, file="simulated_file")
    response["Content-Disposition"] = content_disposition_header(True, f"{key}-{pk}-{name}") or ""
    response["X-Content-Type-Options"] = "nosniff"
    return response
