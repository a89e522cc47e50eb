"""Routes of self-play runs and their conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router, Status

from chatbots.participants.base import ParticipantProfile
from chatbots.registry import UnknownName
from chatbots.validation import ValuesError
from evaluation.stats.constants import SCORE_LEVEL
from webapp.api.errors import BODY_FAILURES, FAILURES, Token
from webapp.api.routes.conversations import conversation_page
from webapp.api.routes.jobs import TO_RUN, get_run
from webapp.api.schemas import AskRun, AskSimulation, JobOut, Part, SearchedTable, TableOut, file_described, table_line
from webapp.api.schemas_conversations import (
    ComparedRuns,
    ConversationPage,
    RunDetail,
    RunMeanOut,
    RunPage,
    RunsComparedOut,
    Searched,
    SideOut,
)
from webapp.bots.models import Spending
from webapp.bots.selectors import spending_spent
from webapp.insights.narrative.phrases import reason_text
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.selectors.metrics import metric_run_of
from webapp.jobs.selectors.selfplay import plan_pairs, selfplay_counts, selfplay_failed_counts, selfplay_failures
from webapp.jobs.services.jobs import job_settle, jobs_settle
from webapp.jobs.services.selfplay import run_create
from webapp.jobs.services.simulation import simulation_create
from webapp.search.fields import Numbers
from webapp.search.pagination import conversations_of_run
from webapp.search.run_comparison import RunComparisonParams, RunMeasure, Side, runs_compared
from webapp.studies.selectors import study_by_key
from webapp.transfer.exporters.base import ExportOptions, run_exporters, table_of_run
from webapp.transfer.job_files import export_record
from webapp.transfer.writers import Format, sent, stream

router = Router(tags=["runs"], auth=Token())


@router.get("/runs", response={200: RunPage, **FAILURES}, operation_id="runs")
def runs(request: HttpRequest, part: Query[Part]) -> Any:
    """List runs of self-play and of simulated participants, newest first."""
    jobs_settle()
    listed_runs = list(SelfPlayRun.objects.all()[part.offset : part.offset + part.limit])
    failed = selfplay_failed_counts(listed_runs)
    return {
        "items": [_describe_run(run, failed.get(run.pk, 0)) for run in listed_runs],
        "count": SelfPlayRun.objects.count(),
    }


@router.post("/runs", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="run_start")
def run_start(request: HttpRequest, params: AskRun) -> Any:
    """Start a run in which bots converse with themselves or each other."""
    run = run_create(
        bots=params.bots,
        pairs=params.pairs,
        n_conversations=params.conversations,
        n_turns=params.turns,
        seed=params.seed,
        openers=params.openers,
        metrics=params.metrics,
        study=study_by_key(params.study) if params.study else None,
        name=params.name,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, run)


@router.post(
    "/studies/{key}/simulations", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="simulation_start"
)
def simulation_start(request: HttpRequest, key: str, params: AskSimulation) -> Any:
    """Start chats of simulated participants with a study's bots."""
    run = simulation_create(
        study=study_by_key(key),
        participants=params.participants,
        bots=params.bots,
        n_conversations=params.conversations,
        n_exchanges=params.exchanges,
        may_leave=params.may_leave,
        seed=params.seed,
        profiles=[ParticipantProfile(**profile.model_dump()) for profile in params.profiles],
        max_cost=params.max_cost,
        metrics=params.metrics,
        name=params.name,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, run)


@router.get("/runs/compare", response={200: RunsComparedOut, **FAILURES}, operation_id="runs_compare")
def runs_compare(request: HttpRequest, compared: Query[ComparedRuns]) -> Any:
    """Compare runs by mean metrics of bots' conversations with themselves.

    Means have intervals.
    """
    jobs_settle()
    comparison = runs_compared(
        RunComparisonParams(*(_split_names(part) for part in (compared.runs, compared.bots, compared.columns)))
    )
    if comparison.wrong:
        raise ValuesError(comparison.wrong)
    return {
        "level": SCORE_LEVEL,
        "runs": comparison.runs,
        "columns": comparison.measures,
        "sides": [_side(side, comparison.measures) for side in comparison.sides],
        "differ": comparison.differ,
        "versions_differ": comparison.versions_differ,
        "repeated": comparison.repeated,
    }


@router.get("/runs/{id}", response={200: RunDetail, **FAILURES}, operation_id="run")
def run(request: HttpRequest, id: int) -> Any:
    """Return a self-play run.

    It has the plan, the progress of each pair of bots, and reasons of failures.
    """
    selected_run = job_settle(job=get_run(id))
    counts = selfplay_counts(selected_run)
    measured = metric_run_of(selected_run)
    return {
        **_describe_run(selected_run, sum(n_failed for _n, n_failed in counts.values())),
        "openers": selected_run.plan.get("openers") or [],
        "max_cost": selected_run.plan.get("max_cost"),
        "spent": spending_spent(Spending.Of.RUN, str(selected_run.pk)),
        "metrics": selected_run.plan.get("metrics") or [],
        "by_pair": [
            {"first": pair.first, "bot": pair.bot_id, "n_done": n, "n_failed": n_failed}
            for pair in plan_pairs(selected_run.plan)
            for n, n_failed in [counts.get(pair, (0, 0))]
        ],
        "failures": selfplay_failures(selected_run),
        "metrics_job": measured,
    }


@router.get("/runs/{id}/conversations", response={200: ConversationPage, **FAILURES}, operation_id="run_conversations")
def run_conversations(request: HttpRequest, id: int, searched: Query[Searched]) -> Any:
    """Search a run's conversations, for example with `bot:eliza sort:-repetition`."""
    selected_run = get_run(id)
    return conversation_page(
        conversations_of_run(selected_run), searched, Numbers([]), bots=tuple(selected_run.plan.get("bots", []))
    )


@router.get("/run-tables", response={200: list[TableOut], **FAILURES}, operation_id="run_tables")
def run_tables(request: HttpRequest) -> Any:
    """List the tables that every self-play run has."""
    return run_exporters()


@router.get(
    "/runs/{id}/tables/{table}", response=FAILURES, operation_id="run_table", openapi_extra=file_described("The table")
)
def run_table(
    request: HttpRequest,
    id: int,
    table: str,
    searched: Query[SearchedTable],
    include_failed: bool = False,
    format: Format = "jsonl",
) -> HttpResponseBase:
    """Stream a table of a run, of any size.

    The bytes are the same as those of `export --run`.

    `q` filters tables of conversations, as `export --search` does.
    """
    selected_run, options = get_run(id), ExportOptions(include_failed=include_failed)
    try:
        if table in [exporter.name for exporter in run_exporters()]:
            options = replace(options, search=table_line(selected_run, table, searched.q))
        table_data = table_of_run(selected_run, table, options)
    except UnknownName as error:
        raise Http404(str(error)) from None
    pieces = stream(format, table_data.columns, table_data.rows)
    export_record(selected_run, table, format, options)
    return sent(pieces, selected_run.file_name, table, format, is_private=False)


def _describe_run(run: SelfPlayRun, n_failed: int) -> dict[str, Any]:
    """Return the fields shared by the list of runs and a single run."""
    plan = run.plan
    return {
        "id": run.pk,
        "name": run.name,
        "bots": plan.get("bots", []),
        "participants": plan.get("participants", []),
        "pairs": plan.get("pairs", "self"),
        "n_conversations": plan.get("n_conversations", 0),
        "n_turns": plan.get("n_turns", 0),
        "seed": plan.get("seed", 0),
        "n_failed": n_failed,
        "job": run,
    }


def _split_names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _side(side: Side, measures: Sequence[RunMeasure]) -> SideOut:
    return SideOut(
        run=side.run.pk,
        bot=side.bot_id,
        version=side.version,
        n=side.n,
        n_failed=side.n_failed,
        means=[
            RunMeanOut(
                column=measure.name,
                mean=mean.interval.mean,
                low=mean.interval.low,
                high=mean.interval.high,
                n=mean.interval.n,
                n_measured=mean.n_measured,
                reason=reason_text(mean.interval.reason),
            )
            for measure, mean in zip(measures, side.means, strict=True)
        ],
    )
