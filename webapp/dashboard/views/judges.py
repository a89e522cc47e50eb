"""Judges compared with participants: verdicts, figures, and a form for more."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.forms import JudgesForm
from webapp.dashboard.navigation import form_view, metric_tabs, page, read_view
from webapp.dashboard.render import table_csv
from webapp.dashboard.views.jobs import job_context
from webapp.insights.judge_tables import detail_tables, judge_cards, judges_table, judges_verdict
from webapp.jobs.models import State
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.judges import drift_newest, judges_ask, judges_done, judges_newest, judges_plan


@form_view(to_post=[Right.RUN])
def judges(request: HttpRequest) -> HttpResponse:
    """Show the newest comparison, or the chosen one.

    POST shows the plan of a new one; confirmed, it starts it.
    """
    form = JudgesForm(request.POST or None)
    plan = None
    if request.method == "POST" and form.is_valid():
        try:
            if "sure" in request.POST:
                judges_ask(params=form.to_params(), created_by=request.user)  # type: ignore[arg-type]
                return redirect("dashboard:judges")
            plan = judges_plan(form.to_params())
        except Refused as error:
            form.add_error(None, str(error))
    jobs_settle()
    jobs = judges_newest()
    done = [job for job in jobs if job.state == State.DONE and job.result]
    selected_job = next((job for job in done if str(job.pk) == request.GET.get("job")), done[0] if done else None)
    result = selected_job.result if selected_job is not None else None
    drift = drift_newest(selected_job) if selected_job is not None else None
    return page(
        request,
        "judges.html",
        "metrics",
        metric_tabs=metric_tabs("judges"),
        done=done,
        shown=selected_job,
        result=result,
        verdict=judges_verdict(result) if result else "",
        cards=judge_cards(result) if result else [],
        table=judges_table(result) if result else None,
        details=detail_tables(result) if result else [],
        drift=drift,
        running=[job_context(job, job.kind) for job in [*jobs, *filter(None, [drift])] if not job.is_over],
        broken=jobs[0] if jobs and jobs[0].state in (State.FAILED, State.CANCELLED) else None,
        form=form,
        plan=plan,
        status=400 if form.errors else 200,
    )


@read_view()
def judges_file(request: HttpRequest, pk: int, kind: str) -> HttpResponse:
    """Send a comparison as JSON, or its main table as CSV."""
    job = judges_done(pk)
    if job is None or kind not in ("csv", "json"):
        raise Http404(f"there is no finished comparison {pk}")
    result = job.result or {}
    record(DOWNLOAD, job, file="judges")
    if kind == "json":
        return JsonResponse(result)
    name = {"Content-Disposition": f'attachment; filename="judges-{pk}.csv"'}
    return HttpResponse(table_csv(judges_table(result).table), content_type="text/csv; charset=utf-8", headers=name)
