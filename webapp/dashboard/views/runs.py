"""Views of self-play runs: list, single run, and comparison."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from chatbots.registry import UnknownName
from evaluation.metrics.registry import metric_defaults
from evaluation.plots.marks import slots_of
from webapp.bots.selectors import bot_entry_list
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.forms import SelfPlayForm, SimulationForm
from webapp.dashboard.navigation import form_view, page, post_view, read_view
from webapp.dashboard.views.jobs import run_context
from webapp.insights.narrative.run_means import means_table, run_title, settings_table
from webapp.insights.selectors import studies_simulated, studies_talking
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.selfplay import runs_newest, selfplay_failed_counts
from webapp.jobs.services.fits import metric_run_create
from webapp.jobs.services.jobs import job_settle, jobs_settle
from webapp.jobs.services.selfplay import run_create
from webapp.search.run_comparison import MOST_COLUMNS, MOST_RUNS, RunComparisonParams, runs_compared
from webapp.transfer.exporters.base import run_exporters

_LISTED = 100


@form_view(to_post=[Right.RUN])
def runs(request: HttpRequest) -> HttpResponse:
    """Show the list of self-play runs and the form for a new one."""
    jobs_settle()
    entries = bot_entry_list()
    talking = {study.key: study for study in studies_talking()}
    chosen_study = talking.get(request.GET.get("study", ""))
    form = SelfPlayForm(
        request.POST or None,
        entries=entries,
        studies=[(key, study.name or key) for key, study in talking.items()],
        initial={"study": chosen_study.key, "bots": chosen_study.bots} if chosen_study is not None else None,
    )
    form_open = request.method == "POST" or request.GET.get("new") == "1"
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            run = run_create(
                bots=data["bots"],
                pairs=data["pairs"],
                n_conversations=data["n_conversations"],
                n_turns=data["n_turns"],
                seed=data["seed"],
                openers=data["openers"],
                study=talking.get(data["study"]),
                metrics=[metric.name for metric in metric_defaults()] if data["metrics"] else (),
                name=data["name"],
                created_by=request.user,  # type: ignore[arg-type]
            )
        except (Refused, UnknownName) as error:
            form.add_error(None, str(error))
        else:
            return redirect("dashboard:run", run.pk)
    listed = runs_newest(_LISTED, simulated=True)
    n_failed = selfplay_failed_counts(listed)
    return page(
        request,
        "runs.html",
        "bots",
        rows=[(run, run.n_done - n_failed.get(run.pk, 0), n_failed.get(run.pk, 0)) for run in listed],
        form=form,
        form_open=form_open or not listed,
        unavailable=[entry for entry in entries if not entry.available],
        status=400 if form.errors else 200,
    )


@form_view(Right.RUN)
def simulate(request: HttpRequest) -> HttpResponse:
    """Show the form for simulated participants, and start the run.

    Any study with chats or bots can be simulated.
    """
    form = SimulationForm(request.POST or None, studies=studies_simulated())
    run = form.create_run(request.user) if request.method == "POST" else None
    if run is not None and run.study is not None:
        return redirect(f"{reverse('dashboard:study_simulated', args=[run.study.key])}?run={run.pk}")
    return page(request, "simulate.html", "bots", form=form, status=400 if form.errors else 200)


@read_view()
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show one self-play run.

    It shows progress, bots, the frozen plan, and tables; the address can contain a search.
    """
    selected_run = job_settle(job=get_object_or_404(SelfPlayRun, pk=run_id))
    search = " ".join(request.GET.get("q", "").split())
    tables = [
        (exporter.name, exporter.title)
        for exporter in run_exporters()
        if not search or hasattr(exporter, "is_searched")
    ]
    return page(request, "run.html", "bots", tables=tables, search=search, **run_context(selected_run))


@post_view(to_post=[Right.RUN])
def run_measure(request: HttpRequest, run_id: int) -> HttpResponse:
    """Request the missing metrics of a run's conversations."""
    selected_run = get_object_or_404(SelfPlayRun, pk=run_id)
    try:
        metric_run_create(run=selected_run, created_by=request.user)  # type: ignore[arg-type]
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, "A worker is computing the metrics.")
    return redirect("dashboard:run", selected_run.pk)


@read_view()
def runs_compare(request: HttpRequest) -> HttpResponse:
    """Show the means of chosen metrics by bot and run.

    By default of the newest runs.
    """
    jobs_settle()
    params = RunComparisonParams(
        runs=list(filter(None, request.GET.getlist("run"))),
        bots=list(filter(None, request.GET.getlist("bot"))),
        columns=list(filter(None, request.GET.getlist("column"))),
    )
    comparison = runs_compared(params)
    chosen = {measure.name for measure in comparison.measures}
    listed_measures = [
        *comparison.every_measure,
        *(m for m in comparison.measures if m not in comparison.every_measure),
    ]
    measures = [(measure, measure.name in chosen) for measure in listed_measures]
    return page(
        request,
        "runs_compared.html",
        "bots",
        found=comparison,
        table=means_table(comparison) if comparison.sides else None,
        settings_table=settings_table(comparison) if comparison.runs else None,
        chosen=[(run, run_title(run)) for run in comparison.runs],
        runs=[(run, run_title(run), run in comparison.runs) for run in comparison.every_run],
        bots=[
            (slot, bot, bot in params.bots)
            for slot, bot in zip(slots_of(len(comparison.every_bot)), comparison.every_bot, strict=True)
        ],
        measures=[choice for choice in measures if choice[0].is_first or choice[1]],
        more=[choice for choice in measures if not (choice[0].is_first or choice[1])],
        most_runs=MOST_RUNS,
        most_columns=MOST_COLUMNS,
    )
