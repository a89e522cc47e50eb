"""Self-play runs, imports and jobs: start, follow, stop, resume."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from evaluation.plots.marks import slots_of
from webapp.bots.models import Spending
from webapp.bots.selectors import spending_spent
from webapp.core.audit_trail import PRIVATE_OPEN, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.rights import Right, may
from webapp.dashboard.builder.base import Plan
from webapp.dashboard.builder.checklist import findings_of, stops
from webapp.dashboard.navigation import page, post_view, read_view
from webapp.jobs.kinds.base import kind_of, kinds
from webapp.jobs.models import Job, JobBase, SelfPlayRun, State
from webapp.jobs.selectors.jobs import job_parts, job_progress, job_title, jobs_broken_off, jobs_in_line, worker_lives
from webapp.jobs.selectors.metrics import conversations_unmeasured, metric_run_of
from webapp.jobs.selectors.selfplay import BotPair, pair_wanted, plan_pairs, selfplay_counts, selfplay_failures
from webapp.jobs.services.jobs import job_cancel, job_prioritise, job_restart, job_settle, jobs_settle
from webapp.pay.platform_status import message_recipients
from webapp.results import cache as results
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import study_found
from webapp.transfer.import_mappings import imported_files
from webapp.transfer.package.import_package import ImportReport

_SHOWN = 200


def imported_context(report: ImportReport, study_key: str) -> dict[str, Any]:
    """Return the context of `_imported.html`: records stored and records skipped.

    Args:
        study_key: key of the study that holds the import; empty, and then not linked, if it no longer exists.
    """
    return {
        "report": report,
        "study_key": study_key,
        "shown": report.skipped[:_SHOWN],
        "n_more": max(report.n_skipped - _SHOWN, 0),
    }


_FAILED_LISTED = 20
_RESULT_MAX = 20_000
_PAGES = {
    "import": ("studies", "imports", "Import"),
    "benchmark": ("metrics", "benchmark", "Benchmark"),
    "explanation": ("metrics", "benchmark", "Benchmark"),
    "judges": ("metrics", "judges", "Judges"),
    "training": ("bots", "bots", "Bots"),
    "metric_training": ("metrics", "metrics", "Metrics"),
    "metric_sweep": ("metrics", "metrics", "Metrics"),
    "bot_sweep": ("bots", "bots", "Bots"),
    "alert": ("settings", "alerts", "Alerts"),
}
"""Kinds of jobs on pages other than a study's or self-play: section, address and title."""


def job_context(job: JobBase, kind: str) -> dict[str, Any]:
    """Return the context of the progress of any job."""
    progress = job_progress(job)
    worker_is = ""
    if progress.waits_for_worker:
        worker_is = "busy" if worker_lives(job) else "missing"
    return {
        "job": job,
        "kind": kind,
        "title": job_title(job),
        "left_s": progress.remaining_s,
        "worker_is": worker_is,
        "live": reverse("dashboard:job_live", args=[kind, job.pk]),
        "now": database_now(),
        "parts": job_parts(job),
    }


@dataclass(frozen=True, slots=True)
class PairCell:
    """Progress of one pair of a run, for the matrix.

    `pill` is its colour, `query` finds its conversations, and `n` counts completed ones, as everywhere on a run's page.
    """

    n: int
    n_failed: int
    pill: str
    query: str


def run_context(run: SelfPlayRun) -> dict[str, Any]:
    """Return a run's progress by bot.

    By pair, if bots converse with each other.
    """
    counts = selfplay_counts(run)
    n_each = run.plan.get("n_conversations", 0)
    names, pairs = run.plan.get("bots", []), plan_pairs(run.plan)
    under_way = run.state == State.RUNNING
    bots = []
    for slot, bot_id in zip(slots_of(len(names)), names, strict=True):
        bot_pairs = [pair for pair in pairs if pair.bot_id == bot_id and (pair.participant or not pair.partner_id)]
        n, n_failed = (sum(counts.get(pair, (0, 0))[i] for pair in bot_pairs) for i in (0, 1))
        n_wanted = sum(pair_wanted(run.plan, pair) for pair in bot_pairs)
        bots.append((slot, bot_id, *_part_state(n, n_failed, n_wanted, under_way), n, n_failed, n_wanted))
    matrix = []
    if run.plan.get("pairs") == "all":
        for slot, first in zip(slots_of(len(names)), names, strict=True):
            cells = []
            for bot_id in names:
                n, n_failed = counts.get(BotPair(bot_id, "" if first == bot_id else first), (0, 0))
                pill = _part_state(n, n_failed, n_each, under_way)[1]
                cells.append(PairCell(n, n_failed, pill, urlencode({"bot": bot_id, "first": first})))
            matrix.append((slot, first, cells))
    metric_run = metric_run_of(run)
    over = run.is_over and (metric_run is None or metric_run.is_over)
    return {
        **job_context(run, "selfplay"),
        "run": run,
        "next": reverse("dashboard:run", args=[run.pk]),
        "bots": bots,
        "matrix": matrix,
        "wanted": n_each,
        "n_done": sum(n for n, _n_failed in counts.values()),
        "n_failed": sum(n_failed for _n, n_failed in counts.values()),
        "failures": selfplay_failures(run),
        "spent": spending_spent(Spending.Of.RUN, str(run.pk)) if run.is_simulated else 0.0,
        "metric_run": metric_run,
        "n_unmeasured": conversations_unmeasured(run) if over else 0,
        "over": over,
    }


def run_progress(run: SelfPlayRun) -> dict[str, Any]:
    """Return the progress of a run.

    Once it is done, the progress of its metrics.
    """
    metric_run = metric_run_of(run)
    job = metric_run if run.is_over and metric_run is not None else run
    live = reverse("dashboard:job_live", args=["selfplay", run.pk])
    return {**job_context(job, job.kind), "over": job.is_over, "live": f"{live}?brief=1"}


def _part_state(n: int, n_failed: int, n_wanted: int, under_way: bool) -> tuple[str, str]:
    """Return the state of a bot or a pair in a word, and its colour."""
    if n >= n_wanted:
        return "Complete", "good"
    if n + n_failed >= n_wanted:
        return ("Partly failed", "warn") if n else ("Failed", "bad")
    if n + n_failed and under_way:
        return "Running", "info"
    if n + n_failed:
        return "Partly done", "warn"
    return "Waiting", "plain"


_STUDY_PAGES = {
    "metrics": "study_prediction",
    "hybrid": "study_prediction",
    "realism": "study_simulated",
    "export": "study_export",
    "report": "study_report",
    "bot_test": "study_first",
}
"""Kinds of jobs shown on a page of their study."""


def _address(job: JobBase) -> str:
    """Return the address of the page that shows a job.

    It is that of its study or run, if any.
    """
    study, run = getattr(job, "study", None), getattr(job, "run", None)
    if study is not None and job.kind in _STUDY_PAGES:
        return reverse(f"dashboard:{_STUDY_PAGES[job.kind]}", args=[study.key])
    if isinstance(job, SelfPlayRun) or run is not None:
        return reverse("dashboard:run", args=[(run or job).pk])
    return reverse("dashboard:job", args=[job.kind, job.pk])


_RESULT_PAGES = {
    **_STUDY_PAGES,
    "results": "study_results",
    "order": "study_results",
    "flags": "study_people",
    "pay_compare": "study_people",
    "pay_send": "study_people",
    "items": "study_build",
}
"""Page of a study that shows the results of a kind of job."""


def _result_address(job: JobBase) -> str:
    """Return the address of the page that uses a job's result; empty if its own page is the only one."""
    study, run = getattr(job, "study", None), getattr(job, "run", None)
    if job.kind == "items" or job.params.get("scores"):
        study = study_found(job.params["study"])
    if study is not None and job.params.get("scores"):
        return reverse("dashboard:study_prediction", args=[study.key])
    if study is not None and job.kind in _RESULT_PAGES:
        return reverse(f"dashboard:{_RESULT_PAGES[job.kind]}", args=[study.key])
    if isinstance(job, SelfPlayRun) or run is not None:
        return reverse("dashboard:run", args=[(run or job).pk])
    return reverse(f"dashboard:{_PAGES[job.kind][1]}") if job.kind in _PAGES and job.kind != "import" else ""


def result_context(job: JobBase) -> dict[str, Any]:
    """Return the context of `_job_result.html`: the result of a finished job in sentences, or in a table.

    A kind of a plug-in without sentences gets the table.
    """
    result = getattr(job, "result", None)
    if job.state != State.DONE or (isinstance(job, Job) and result is None):
        return {}
    sentences = kind_of(job).describe_result(job, result)
    result_tables = kind_of(job).result_tables(job, result)
    return {
        "sentences": sentences,
        "values": [] if sentences else result_table(result),
        "result_tables": result_tables,
        "result_address": "" if result_tables else _result_address(job),
        "raw": json.dumps(result, indent=2, ensure_ascii=False)[:_RESULT_MAX] if result is not None else "",
    }


def result_table(result: Any) -> list[tuple[str, str]]:
    """Return the names and values of a result that its kind does not describe."""
    if isinstance(result, dict):
        return [(str(name).replace("_", " ").capitalize(), _say_value(value)) for name, value in result.items()]
    return [("Result", _say_value(result))]


def _say_value(value: Any) -> str:
    """Write a value of a result in a line."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_say_value(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_say_value, value)) or "none"
    if value is None or isinstance(value, bool):
        return "none" if value is None else "yes" if value else "no"
    return str(value)


@dataclass(frozen=True, slots=True)
class JobRow:
    """A waiting or running job.

    Attributes:
        left_s: estimated seconds until it is done; None if unknown.
        place: position in its queue, from 1; 0 if it is running.
        before: title of the project's last job before it; empty if there is none.
        n_of_others: number of jobs of other projects before it.
    """

    job: JobBase
    title: str
    href: str
    left_s: float | None
    place: int
    before: str
    n_of_others: int


def job_rows() -> list[JobRow]:
    """Return the waiting and running jobs, in the order of their queues."""
    return [
        JobRow(
            row.job,
            job_title(row.job),
            _address(row.job),
            job_progress(row.job).remaining_s,
            row.place,
            job_title(row.ahead[-1]) if row.ahead else "",
            row.n_of_others,
        )
        for row in jobs_in_line()
    ]


@read_view()
def jobs(request: HttpRequest) -> HttpResponse:
    """Show running, waiting, failed and interrupted jobs."""
    jobs_settle()
    broken_off = [(job_title(job), job) for job in jobs_broken_off(_FAILED_LISTED)]
    return page(request, "jobs.html", "home", rows=job_rows(), broken_off=broken_off)


@read_view()
def jobs_live(request: HttpRequest) -> HttpResponse:
    """Send the table of running jobs, for polling."""
    response = render(request, "dashboard/_jobs.html", {"rows": job_rows()})
    response["Cache-Control"] = "no-store"
    return response


@post_view(to_post=[Right.RUN])
def job_move(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Move a job before or after the others of its queue."""
    to = request.POST.get("to", "")
    if to not in ("-1", "0", "1"):
        return HttpResponseBadRequest("to must be -1, 0 or 1")
    job_prioritise(job=_job(kind, pk), priority=int(to))
    return _back(request)


def _job(kind: str, pk: int) -> JobBase:
    if kind not in kinds:
        raise Http404
    model = kinds.get(kind).model
    which = {"pk": pk, "kind": kind} if issubclass(model, Job) else {"pk": pk}
    return job_settle(job=get_object_or_404(model, **which))


def _above(job: JobBase) -> tuple[str, list[tuple[str, str]]]:
    """Return a job's navigation section and parent pages.

    Pages have a title and an address.
    """
    study = None if isinstance(job, SelfPlayRun) else getattr(job, "study", None)
    if job.kind in _PAGES:
        section, route, title = _PAGES[job.kind]
        return section, [(title, reverse(f"dashboard:{route}"))]
    if study is None:
        return "home", [("Jobs", reverse("dashboard:jobs"))]
    pages = [
        ("Studies", reverse("dashboard:studies")),
        (study.name or study.key, reverse("dashboard:study", args=[study.key])),
    ]
    if job.kind == "rehearsal" and study.state == Study.State.DRAFT:
        pages.append(("Check and open", reverse("dashboard:study_build_step", args=[study.key, "check"])))
    return "studies", pages


def rehearsal_context(study: Study) -> dict[str, Any]:
    """Return the context of the buttons after a rehearsal: the study, and what keeps it closed."""
    return {
        "study": study,
        "missing": stops(findings_of(Plan(study))) if study.state == Study.State.DRAFT else [],
        "has_chats": get_protocol(study).talks_to_bots,
    }


@read_view()
def job(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Show a job of any kind: its state, and its result in sentences."""
    selected_job = _job(kind, pk)
    section, above = _above(selected_job)
    result = getattr(selected_job, "result", None)
    context = result_context(selected_job)
    if isinstance(selected_job, Job) and selected_job.kind == "import" and result:
        key = selected_job.payload["study"]
        study = study_found(key)
        context["origins"] = imported_files(study, selected_job.payload.get("name", "")) if study else []
        if selected_job.payload.get("scores"):
            context |= {"shown": result["skipped"], "n_more": result["n_skipped"] - len(result["skipped"])}
        else:
            context |= imported_context(ImportReport.read(result), key if study else "")
    elif isinstance(selected_job, Job) and selected_job.kind == "pay_message" and result:
        sees_private = may(request.user, Right.PRIVATE)
        if sees_private:
            record(PRIVATE_OPEN, selected_job.study, page="message_recipients")
        people = message_recipients(selected_job, with_ids=sees_private)
        n_failed = sum(bool(recipient.error) for recipient in people)
        context |= {"people": people, "n_failed": n_failed, "n_sent": len(people) - n_failed}
    elif selected_job.kind == "rehearsal" and isinstance(selected_job, Job) and selected_job.study is not None:
        context |= rehearsal_context(selected_job.study)
    return page(
        request,
        "job.html",
        section,
        above=above,
        **job_context(selected_job, kind),
        over=selected_job.is_over,
        back=request.path,
        **context,
    )


@read_view()
def job_live(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Send the progress part of a job's page, for polling."""
    job = _job(kind, pk)
    if isinstance(job, SelfPlayRun) and "brief" in request.GET:
        response = render(request, "dashboard/_job_live.html", run_progress(job))
    elif isinstance(job, SelfPlayRun):
        response = render(request, "dashboard/_run_live.html", run_context(job))
    else:
        # A page with an older result does not change while it is read.
        show = kind == results.RESULTS_KIND and job.state == State.DONE
        context = {**job_context(job, kind), "over": job.is_over, "show": show}
        response = render(request, "dashboard/_job_live.html", context)
    response["Cache-Control"] = "no-store"
    return response


@post_view(to_post=[Right.RUN])
def job_stop(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Ask a job to stop, or dismiss a failed or interrupted one.

    Its results so far are kept.
    """
    job = _job(kind, pk)
    was_over = job.is_over
    job = job_cancel(job=job)
    if was_over and job.state == State.CANCELLED:
        messages.info(request, "The job was dismissed and is no longer shown as a problem.")
    elif not job.is_over:
        messages.info(request, "The job stops after the current batch. Its results so far are kept.")
    return _back(request)


@post_view(to_post=[Right.RUN])
def job_go_on(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Resume a job that failed, was stopped or lost its process."""
    job = _job(kind, pk)
    try:
        job_restart(job=job, enqueue=True)
    except Refused as refused:
        messages.warning(request, refused.message)
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = reverse("dashboard:jobs")
    return redirect(back)
