"""Benchmark of metrics: results, a form for more, and plots."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from evaluation.agreement.paper_tables import BENCHMARK_PAPERS
from evaluation.data.result_tables import Cell, NamedTable, count_cell, declared_table, p_cell, share_cell, span_cell
from evaluation.number_format import share, span
from evaluation.published.correlations import caveats_of
from evaluation.published.papers import papers
from evaluation.stats.correlation import Method
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.forms import UPLOAD_LIMIT_MB, BenchmarkForm
from webapp.dashboard.navigation import Link, form_view, metric_tabs, page, post_view, read_view
from webapp.dashboard.render import body_html, report_html, table_csv
from webapp.dashboard.views.jobs import job_context
from webapp.insights.benchmark_grid import HELD_OUT, MEAN, METHODS, NAME, RANK, Grid, grid_of
from webapp.insights.benchmark_tables import (
    ChoiceSet,
    beside_ours,
    choice_sets,
    published_table,
    sets_published,
    systems_table,
)
from webapp.insights.charts.scatter import items_figure
from webapp.insights.report_benchmark import benchmark_report
from webapp.jobs.models import Job, State
from webapp.jobs.selectors.metrics import language_name
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.benchmark import (
    BENCHMARK_KIND,
    benchmark_again,
    benchmark_ask,
    benchmark_done,
    benchmark_example,
    benchmark_file_remove,
    benchmark_metrics,
    benchmark_stale,
    benchmark_uploads,
    benchmarks_newest,
)
from webapp.results.benchmark_data import OF_JUDGE, benchmark_upload_keep, judged_file_keep, written
from webapp.studies.selectors import study_found


@form_view(to_post=[Right.RUN])
def benchmark(request: HttpRequest) -> HttpResponse:
    """Show the table and what is being computed.

    POST asks for a data set.
    """
    metrics = benchmark_metrics()
    if "example" in request.POST:
        try:
            benchmark_example(created_by=request.user)  # type: ignore[arg-type]
        except Refused as error:
            messages.error(request, error.message)
        return redirect("dashboard:benchmark")
    form = BenchmarkForm(request.POST or None, request.FILES or None, metrics=metrics)
    if request.method == "POST" and form.is_valid():
        try:
            _ask(form, request.user)
        except Refused as error:
            form.add_error(None, str(error))
        else:
            return redirect("dashboard:benchmark")
    jobs_settle()
    jobs = benchmarks_newest()
    grid, method, chosen = _grid(request, jobs)
    choices = choice_sets(jobs, chosen["target"])
    return page(
        request,
        "benchmark.html",
        "metrics",
        grid=grid,
        metric_tabs=metric_tabs("benchmark"),
        methods=[Link(title, _build_address(chosen, by=name), name == chosen["by"]) for name, title in METHODS.items()],
        targets=[
            Link(name or "Overall, or the first", _build_address(chosen, target=name), name == chosen["target"])
            for name in ("", *_targets(grid, choices))
        ],
        choices=choices,
        languages=[(code, language_name(code)) for code in grid.languages],
        only_language=language_name(grid.languages[0]) if _is_of_one_language(grid) else "",
        sorts=[
            (HELD_OUT, "held-out median"),
            (MEAN, "mean correlation"),
            (RANK, "mean rank"),
            (NAME, "name"),
            *((dataset.name, dataset.title) for dataset in grid.sets),
        ],
        download=f"{reverse('dashboard:benchmark_csv')}?{urlencode(chosen)}",
        systems=systems_table(grid, method),
        systems_download=f"{reverse('dashboard:benchmark_csv')}?{urlencode({**chosen, 'table': 'systems'})}",
        beside=beside_ours(grid, method),
        stale=benchmark_stale(jobs, metrics),
        uploads=benchmark_uploads(),
        running=[job_context(job, BENCHMARK_KIND) for job in jobs if not job.is_over],
        broken=[job for job in jobs if job.state in (State.FAILED, State.CANCELLED)],
        form=form,
        form_open=bool(form.errors),
        unavailable=[metric for metric in metrics if metric.reason],
        limit_mb=UPLOAD_LIMIT_MB,
        **chosen,
        status=400 if form.errors else 200,
    )


@post_view(to_post=[Right.RUN])
def benchmark_renew(request: HttpRequest, pk: int) -> HttpResponse:
    """Repeat a comparison with the current data and metrics."""
    job = benchmark_done(pk)
    if job is None:
        raise Http404
    try:
        benchmark_again(job=job, created_by=request.user)  # type: ignore[arg-type]
    except Refused as error:
        messages.error(request, str(error))
    return redirect("dashboard:benchmark")


@post_view(to_post=[Right.RUN])
def benchmark_remove(request: HttpRequest) -> HttpResponse:
    """Remove an uploaded file and its results."""
    try:
        benchmark_file_remove(file=request.POST.get("file", ""), user=request.user)  # type: ignore[arg-type]
    except Refused as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The file and its results have been removed.")
    return redirect("dashboard:benchmark")


@read_view()
def benchmark_published(request: HttpRequest) -> HttpResponse:
    """Show all published results by data set, with notes."""
    layouts = [(name, papers()[name]) for name in BENCHMARK_PAPERS]
    return page(request, "benchmark_published.html", "metrics", sets=sets_published(), layouts=layouts)


@read_view()
def benchmark_paper(request: HttpRequest, paper: str) -> HttpResponse:
    """Show the newest benchmarks in the layout of a paper, or send them as a file."""
    if paper not in BENCHMARK_PAPERS:
        raise Http404(f"Unknown paper “{paper}”. Choose from {', '.join(BENCHMARK_PAPERS)}.")
    document = benchmark_report(paper)
    if "file" in request.GET:
        record(DOWNLOAD, file="benchmark")
        return HttpResponse(
            report_html(document),
            content_type="text/html; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{paper}.html"'},
        )
    return page(
        request, "benchmark_paper.html", "metrics", paper=papers()[paper], report=body_html(document, (), level=1)
    )


@read_view()
def benchmark_csv(request: HttpRequest) -> HttpResponse:
    """Send the table as shown, or the table of systems.

    It has all digits.
    """
    grid, method, _chosen = _grid(request, benchmarks_newest())
    table, name = grid.table(), str(method)
    if request.GET.get("table") == "systems":
        systems = systems_table(grid, method)
        if systems is None:
            raise Http404
        table, name = systems.table, f"systems-{method}"
    record(DOWNLOAD, file="benchmark")
    response = HttpResponse(table_csv(table), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="benchmark-{name}.csv"'
    return response


@read_view()
def benchmark_cell(request: HttpRequest, pk: int, metric: str) -> HttpResponse:
    """Show the details of a cell.

    They are a plot of the replies, coefficients, dialogue models, and exclusions.
    """
    job = benchmark_done(pk)
    if job is None:
        raise Http404
    target, source = request.GET.get("target", ""), request.GET.get("source", "")
    grid = grid_of([job], method="spearman", target=target)
    dataset = next((dataset for dataset in grid.sets if dataset.source == source and dataset.target), None)
    part = dataset.part(metric) if dataset is not None else None
    row = next((row for row in grid.rows if row.name == metric), None)
    if dataset is None or row is None or part is None or "unavailable" in part:
        raise Http404
    result = dataset.result
    column = dataset.column(metric)
    published = [row for row in dataset.published if column in row.ours]
    scores = next(scored["scores"] for scored in result["metrics"] if scored["metric"] == metric)
    points = [
        (x, y)
        for x, y, reply_source in zip(scores, result["means"][dataset.target], result["sources"], strict=True)
        if x is not None and y is not None and (not source or reply_source == source)
    ]
    figure = items_figure(
        points,
        id="cell",
        title=f"{row.title} against human {dataset.target}",
        method=(
            f"{dataset.title}: each point is a reply with the mean of its raters. Intervals in the table assume "
            "independent replies."
        ),
        x=row.title,
        y=dataset.target,
        note=(
            f"{part['n']} replies ({part['n_responses']} different ones) to {part['n_contexts']} contexts. Intervals "
            "by the jackknife over contexts."
        ),
    )
    tables = [_coefficients(part), *_models(part)]
    if published:
        method = "For the whole data set. Intervals computed from r and n, assuming independent replies."
        title, remarks = "Published on the same data", caveats_of(published)
        tables.append(NamedTable("published", title, published_table(published), method, remarks=remarks))
    return page(
        request,
        "benchmark_cell.html",
        "metrics",
        figure=figure,
        row=row,
        one=dataset,
        replies_query=urlencode({"metric": metric, "target": target, "source": source}),
        n_shown=len(points),
        n=part["n"],
        tables=tables,
        counted=[
            ("Excluded", part["skipped"], ""),
            ("Scored on fewer replies", dataset.remarks(metric), "From all replies of the file or study."),
        ],
        version=row.versions,
    )


def _coefficients(part: Any) -> NamedTable:
    return declared_table(
        "coefficients",
        "Coefficients",
        METHODS.items(),
        ("Coefficient", lambda method: Cell(method[1])),
        ("r", lambda method: share_cell(part[method[0]]["r"], 3)),
        ("95 %", lambda method: span_cell(*_ends(part[method[0]]), shares=True)),
        method="Intervals by the jackknife over contexts.",
    )


def _ends(coefficient: Any) -> tuple[float | None, float | None]:
    return coefficient["ci95"] or (None, None)


def _models(part: Any) -> list[NamedTable]:
    def coefficients(model: Any) -> list[Cell]:
        return [
            Cell(f"{share(model[m]['r'])} {span(*_ends(model[m]), shares=True)}", raw=(model[m]["r"],)) for m in METHODS
        ]

    if not part.get("models"):
        return []
    return [
        declared_table(
            "models",
            "By dialogue model",
            part["models"].items(),
            ("Dialogue model", lambda model: Cell(model[0])),
            ("n", lambda model: count_cell(model[1]["n"])),
            ([*METHODS.values()], lambda model: coefficients(model[1])),
            ("p (Spearman)", lambda model: p_cell(model[1]["spearman"]["p"])),
        )
    ]


def _grid(request: HttpRequest, jobs: list[Job]) -> tuple[Grid, Method, dict[str, str]]:
    method_name = request.GET.get("by", "")
    method: Method = next((known_method for known_method in METHODS if known_method == method_name), "spearman")
    choices = {name: request.GET.get(name, "") for name in ("target", "language", "sort")}
    grid = grid_of(jobs, method=method, **choices)
    if choices["language"] not in grid.languages:  # of a deleted data set
        choices["language"] = ""
        grid = grid_of(jobs, method=method, **choices)
    return grid, method, {"by": str(method), **choices}


def _targets(grid: Grid, choices: list[ChoiceSet]) -> list[str]:
    """Return the dimensions and questions to choose from."""
    return list(dict.fromkeys([*grid.targets, *(name for choice in choices for name in choice.questions)]))


def _is_of_one_language(grid: Grid) -> bool:
    """Return True if all data sets have the same, known language."""
    return len(grid.languages) == 1 and all(dataset.language for dataset in grid.sets)


def _build_address(chosen: dict[str, str], **changes: str) -> str:
    parameters = {name: value for name, value in {**chosen, **changes}.items() if value}
    return f"{reverse('dashboard:benchmark')}?{urlencode(parameters)}"


def _ask(form: BenchmarkForm, user: Any) -> Job:
    data = form.cleaned_data
    upload, of_judge, judged = data["file"], data["judged"], ""
    if of_judge is not None:
        with written(of_judge, OF_JUDGE) as path:
            judged = judged_file_keep(path)
    file = benchmark_upload_keep(upload) if upload is not None else ""
    return benchmark_ask(
        metrics=data["metrics"],
        study=study_found(data["study"]) if not file else None,
        file=file,
        title=upload.name if file else "",
        judged=judged,
        judged_title=of_judge.name if judged else "",
        created_by=user,
    )
