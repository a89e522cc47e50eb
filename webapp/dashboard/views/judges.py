"""Judges compared with people: verdicts, a form for more, and checks for drift."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.forms import styled
from webapp.dashboard.judge_tables import detail_tables, judges_table
from webapp.dashboard.navigation import form_view, page, read_view
from webapp.dashboard.render import table_csv
from webapp.dashboard.views.jobs import job_context
from webapp.jobs.models import SelfPlayRun, State
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.benchmark import benchmark_uploads
from webapp.results.judges import JudgesParams, judge_list, judges_ask, judges_done, judges_newest
from webapp.studies.models import Study


class JudgesForm(forms.Form):
    """A gold set and judges."""

    gold = forms.ChoiceField(
        label="Rated by people", help_text="A study, or a file of “Metrics against human ratings”."
    )
    question = forms.CharField(label="Question", required=False, help_text="Its key; empty: the usual one.")
    expertise = forms.ChoiceField(
        label="The raters are",
        choices=[("expert", "experts"), ("skilled", "skilled"), ("crowd", "a crowd")],
        initial="skilled",
        help_text="A judge, which costs less, may be worse than experts by .2, skilled people by .15, a crowd by .1.",
    )
    most = forms.IntegerField(label="Instances", min_value=30, max_value=10_000, initial=300)
    run = forms.ChoiceField(label="Also score a run", required=False, help_text="To see what scores of it are worth.")
    judges = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple, help_text="Judges of metrics.yaml (kind: judge), and bots made of a model."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        studies = [(f"study:{key}", name) for key, name in Study.objects.order_by("name").values_list("key", "name")]
        files = [(f"file:{one.file}", one.title) for one in benchmark_uploads()]
        runs = [(str(run.pk), str(run)) for run in SelfPlayRun.objects.order_by("-pk")[:50]]
        usable = [(one.name, one.title) for one in judge_list() if one.unavailable_reason() is None]
        for name, choices in {"gold": studies + files, "run": [("", "none"), *runs], "judges": usable}.items():
            self.fields[name].choices = choices  # type: ignore[attr-defined]
        styled(self)

    def asked(self) -> JudgesParams:
        """Return the request."""
        data = dict(self.cleaned_data)
        gold = data.pop("gold")
        kind, _colon, name = gold.partition(":")
        title = dict(self.fields["gold"].choices)[gold] if kind == "file" else ""  # type: ignore[attr-defined]
        return JudgesParams.model_validate({**data, kind: name, "title": title, "run": int(data["run"] or 0) or None})


@form_view(to_post=[Right.RUN])
def judges(request: HttpRequest) -> HttpResponse:
    """Show the newest comparison, or the chosen one; POST starts one."""
    form = JudgesForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            judges_ask(asked=form.asked(), created_by=request.user)  # type: ignore[arg-type]
        except Refused as error:
            form.add_error(None, str(error))
        else:
            return redirect("dashboard:judges")
    jobs_settle()
    jobs = judges_newest()
    done = [job for job in jobs if job.state == State.DONE and job.result]
    shown = next((job for job in done if str(job.pk) == request.GET.get("job")), done[0] if done else None)
    result = shown.result if shown is not None else None
    return page(
        request,
        "judges.html",
        "metrics",
        done=done,
        shown=shown,
        result=result,
        table=judges_table(result) if result else None,
        details=detail_tables(result) if result else [],
        running=[job_context(job, job.kind) for job in jobs if not job.is_over],
        broken=jobs[0] if jobs and jobs[0].state in (State.FAILED, State.CANCELLED) else None,
        form=form,
        status=400 if form.errors else 200,
    )


@read_view()
def judges_file(request: HttpRequest, pk: int, kind: str) -> HttpResponse:
    """Send a comparison as JSON, or its main table as CSV."""
    job = judges_done(pk)
    if job is None or kind not in ("csv", "json"):
        raise Http404(f"there is no finished comparison {pk}")
    result = job.result or {}
    if kind == "json":
        return JsonResponse(result)
    name = {"Content-Disposition": f'attachment; filename="judges-{pk}.csv"'}
    return HttpResponse(table_csv(judges_table(result).table), content_type="text/csv; charset=utf-8", headers=name)
