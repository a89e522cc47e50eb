"""Single replies of a benchmark: where a metric and people disagree, and one reply with all its scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.navigation import form_view, page, read_view
from webapp.dashboard.views.jobs import job_context
from webapp.insights.benchmark_grid import DataSet, grid_of
from webapp.insights.benchmark_replies import PAGE, SIDES, has_replies, reply_cases, reply_page
from webapp.insights.charts.keywords import keyword_figure
from webapp.jobs.models import State
from webapp.jobs.services.jobs import job_settle
from webapp.results.benchmark import benchmark_done
from webapp.results.kinds.explanations import EXPLANATION_KIND, explanation_ask, explanation_of, explanations_read


@read_view()
def benchmark_replies(request: HttpRequest, pk: int) -> HttpResponse:
    """List the replies on which a metric and people disagree most."""
    dataset = _dataset(request, pk)
    metrics = [
        (row["metric"], row["title"])
        for row in dataset.result["metrics"]
        if row["scores"] and "unavailable" not in (dataset.part(row["metric"]) or {"unavailable": ""})
    ]
    chosen = {name: request.GET.get(name, "") for name in ("metric", "target", "source", "model", "side")}
    known = dict(metrics)
    if not known:
        raise Http404
    chosen["metric"] = chosen["metric"] if chosen["metric"] in known else metrics[0][0]
    chosen["side"] = chosen["side"] if chosen["side"] in SIDES else ""
    context: dict[str, Any] = {}
    if has_replies(dataset):
        number = request.GET.get("page", "")
        page_number = int(number) if number.isdecimal() and len(number) < 7 else 1
        replies = reply_cases(dataset, chosen["metric"], model=chosen["model"], side=chosen["side"], page=page_number)
        context = {
            "replies": replies,
            "first": (replies.page - 1) * PAGE + 1,
            "earlier": _address(pk, chosen, page=replies.page - 1) if replies.page > 1 else "",
            "later": _address(pk, chosen, page=replies.page + 1) if replies.page < replies.n_pages else "",
            "reply_query": urlencode({name: chosen[name] for name in ("target", "source") if chosen[name]}),
            "n_sampled": len(dataset.result["replies"]),
        }
    return page(
        request,
        "benchmark_replies.html",
        "metrics",
        job=dataset.job,
        dataset=dataset,
        metrics=metrics,
        metric_title=known[chosen["metric"]],
        sides=SIDES.items(),
        chosen=chosen,
        **context,
    )


@form_view(to_post=[Right.RUN])
def benchmark_reply(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Show a reply with its context, ratings, scores and explanations.

    POST asks a worker for the explanations.
    """
    dataset = _dataset(request, pk)
    if not 0 <= number < len(dataset.result.get("replies", ())):
        raise Http404
    if request.method == "POST":
        try:
            explanation_ask(dataset.job, number, created_by=request.user)
        except Refused as error:
            messages.error(request, error.message)
        return redirect(request.get_full_path())
    reply = reply_page(dataset, number)
    job = explanation_of(dataset.job, number)
    if job is not None:
        job = job_settle(job=job)
    explanations = []
    for name, title, explanation in explanations_read(job) if job is not None and job.state == State.DONE else ():
        tables = [replace(table, id=f"{name}-{table.id}") for table in explanation.tables]
        figure = None
        if explanation.graph is not None:
            figure = keyword_figure(explanation.graph, id=f"graph-{name}", title=f"Keyword graph of {title}")
        explanations.append((title, figure, tables))
    query = urlencode({name: request.GET[name] for name in ("metric", "target", "source") if request.GET.get(name)})
    return page(
        request,
        "benchmark_reply.html",
        "metrics",
        dataset=dataset,
        reply=reply,
        back=f"{reverse('dashboard:benchmark_replies', args=[pk])}?{query}",
        explanations=explanations,
        is_explained=job is not None and job.state == State.DONE,
        running=job_context(job, EXPLANATION_KIND) if job is not None and not job.is_over else None,
        failed=job if job is not None and job.state in (State.FAILED, State.CANCELLED) else None,
    )


def _dataset(request: HttpRequest, pk: int) -> DataSet:
    """Return the data set of a finished benchmark that the address names, or its first.

    Raises:
        Http404: there is no such benchmark or data set, or it compares pairs.
    """
    job = benchmark_done(pk)
    if job is None:
        raise Http404
    grid = grid_of([job], method="spearman", target=request.GET.get("target", ""))
    source = request.GET.get("source")
    for dataset in grid.sets:
        if dataset.target and source in (None, dataset.source):
            return dataset
    raise Http404


def _address(pk: int, chosen: dict[str, str], **changes: Any) -> str:
    parameters = {name: value for name, value in {**chosen, **changes}.items() if value}
    return f"{reverse('dashboard:benchmark_replies', args=[pk])}?{urlencode(parameters)}"
