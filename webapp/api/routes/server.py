"""Routes of the installation: state, bots, and the benchmark of metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import Http404, HttpRequest
from ninja import File, Form, Router, Schema, Status
from ninja.files import UploadedFile
from pydantic import Field

from chatbots.registry import UnknownName
from chatbots.text import quote
from chatbots.validation import InputModel, Many
from evaluation.stats.correlation import Method
from webapp.api.errors import BODY_FAILURES, FAILURES, Token
from webapp.api.schemas import JobOut, Name, fields_of
from webapp.bots.selectors import BotEntry, bot_card, bot_entry_list, bot_find
from webapp.conversations.heartbeats import heartbeat_bots
from webapp.core.rights import Right
from webapp.insights.benchmark_grid import Grid, GridCell, grid_of
from webapp.insights.bots import Spent, bot_state, bots_spent
from webapp.insights.system import DiskUsage, ProcessRow, alert_rows, system_now
from webapp.jobs.models import State
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.benchmark import (
    benchmark_again,
    benchmark_ask,
    benchmark_done,
    benchmark_metrics,
    benchmark_stale,
    benchmarks_newest,
)
from webapp.results.benchmark_data import benchmark_upload_keep
from webapp.results.judges import JudgesParams, judges_ask, judges_newest
from webapp.studies.selectors import study_by_key


class HealthOut(Schema):
    """Health of a bot: newest replies to participants, and failures."""

    answered_at: datetime | None
    failed_at: datetime | None
    n_failed: int
    failed_since: datetime | None
    reason: str
    set_aside_at: datetime | None
    n_tries: int


class BotOut(Schema):
    """Bot of this server: availability, assignment, and problem."""

    id: str
    name: str
    kind: str
    is_control: bool
    is_available: bool
    is_offered: bool
    state: str
    reason: str | None
    health: HealthOut | None
    spent: Spent | None


class BotDetail(BotOut):
    """A bot with its settings and its model card, in Markdown."""

    description: str
    version: str
    params: dict[str, Any]
    card: str | None


class TroubleOut(Schema):
    """Problem of the installation."""

    kind: str
    subject: str
    title: str
    words: str


class QueueOut(Schema):
    """Queue: waiting and running jobs, and the waiting time of the oldest."""

    name: str = Field(alias="queue.name")
    title: str
    n: int = Field(alias="queue.n")
    n_running: int = Field(alias="queue.n_running")
    oldest_s: float | None = Field(alias="queue.oldest_s")
    moved_s: float | None = Field(alias="queue.moved_s")
    is_still: bool


class PlaceOut(Schema):
    """Folder or database that uses disk space, in bytes."""

    title: str
    bytes: int


class RoomOut(Schema):
    """Disk space, in bytes; `used` in percent."""

    free: int
    total: int
    used: int
    is_low: bool
    parts: list[PlaceOut]

    @staticmethod
    def resolve_parts(room: DiskUsage) -> list[dict[str, Any]]:
        return [{"title": title, "bytes": size} for title, size in room.parts]


class AlertOut(Schema):
    """Alert, and whether it was sent."""

    title: str
    event: str = Field(alias="alert.event")
    channel: str = Field(alias="alert.channel")
    created_at: datetime = Field(alias="alert.created_at")
    sent_at: datetime | None = Field(alias="alert.sent_at")
    error: str = Field(alias="alert.error")


class SystemOut(Schema):
    """State of the installation."""

    troubles: list[TroubleOut]
    notes: list[str]
    processes: list[ProcessRow]
    queues: list[QueueOut]
    room: RoomOut
    alerts: list[AlertOut]


class PublishedOut(Schema):
    """Published result of a metric on a data set."""

    place: str
    r: float


class CellOut(Schema):
    """Result of a metric on a data set.

    `reason` explains a missing number.
    """

    set: str
    r: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    reason: str
    published: PublishedOut | None


class SetOut(Schema):
    """Data set of the benchmark.

    `target` is the compared dimension, empty if it has no ratings.
    """

    name: str
    job: int = Field(alias="job.pk")
    title: str
    source: str
    target: str
    n_items: int
    language: str


class MetricRowOut(Schema):
    """Metric with one cell per data set; `rank` is its mean rank."""

    name: str
    title: str
    versions: str
    rank: float | None
    is_baseline: bool
    cells: list[CellOut]


class StaleOut(Schema):
    """Comparison whose result would differ today, and why."""

    job: int = Field(alias="job.pk")
    said_more: bool
    changed: list[str]
    gone: list[str]
    file_gone: bool


class BenchmarkOut(Schema):
    """Metrics compared with ratings of single replies.

    `pairs` compares them with pairwise choices.
    """

    method: Literal["spearman", "pearson", "kendall"]
    sets: list[SetOut]
    rows: list[MetricRowOut]
    targets: list[str]
    languages: list[str]
    pairs: list[dict[str, Any]]
    stale: list[StaleOut]
    jobs: list[JobOut]


class AskBenchmark(InputModel):
    """Study with ratings of replies or pairs, and metrics to compare."""

    study: str = Field(min_length=1)
    metrics: Many[Name] = Field((), description="None selects the usual ones.")


router = Router(tags=["server"], auth=Token())
TO_RUN = Token(Right.RUN)


@router.get("/bots", response={200: list[BotOut], **FAILURES}, operation_id="bots")
def bots(request: HttpRequest) -> Any:
    """List the bots of this server, each with its state."""
    reports, spent = heartbeat_bots(), bots_spent()
    return [_bot(entry, reports, spent.get(entry.id)) for entry in bot_entry_list()]


@router.get("/bots/{id}", response={200: BotDetail, **FAILURES}, operation_id="bot")
def bot(request: HttpRequest, id: str) -> Any:
    """Return a bot with health, settings and model card."""
    entry = next((bot_entry for bot_entry in bot_entry_list() if bot_entry.id == id), None)
    if entry is None:
        raise Http404(f"there is no bot {quote(id)}")
    try:
        selected_bot = bot_find(id)
    except UnknownName:  # a broken entry of bots.yaml
        selected_bot = None
    return BotDetail(
        **_bot(entry, heartbeat_bots(), bots_spent([id]).get(id)),
        description=selected_bot.description if selected_bot is not None else "",
        version=selected_bot.identity.version if selected_bot is not None else "",
        params=entry.params,
        card=bot_card(selected_bot) if selected_bot is not None else None,
    )


@router.get("/system", response={200: SystemOut, **FAILURES}, operation_id="system")
def system(request: HttpRequest) -> Any:
    """Return the state of the installation.

    It has problems, processes, queues, disk space and alerts.
    """
    return fields_of(SystemOut, system_now(), alerts=alert_rows())


@router.get("/benchmark", response={200: BenchmarkOut, **FAILURES}, operation_id="benchmark")
def benchmark(
    request: HttpRequest, by: Method = "spearman", target: str = "", language: str = "", sort: str = ""
) -> Any:
    """Return the benchmark table: metrics against ratings of single replies.

    `target` selects the dimension, `language` the data sets. `sort` is the name of a data set, `rank`, `name`, or empty
    for the mean correlation.
    """
    jobs_settle()
    jobs = benchmarks_newest()
    grid = grid_of(jobs, method=by, target=target, language=language, sort=sort)
    return {
        "method": by,
        "sets": grid.sets,
        "rows": _rows(grid),
        "targets": grid.targets,
        "languages": grid.languages,
        "pairs": [job.result for job in jobs if job.result and "questions" in job.result],
        "stale": benchmark_stale(jobs, benchmark_metrics()),
        "jobs": [job for job in jobs if job.state != State.DONE],
    }


@router.post("/benchmark", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="benchmark_ask")
def benchmark_start(request: HttpRequest, params: AskBenchmark) -> Any:
    """Compare metrics with the ratings of a study's single replies."""
    job = benchmark_ask(
        study=study_by_key(params.study),
        metrics=list(params.metrics) or _usual_metrics(),
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job)


@router.post("/benchmark/files", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="benchmark_file")
def benchmark_file(request: HttpRequest, file: File[UploadedFile], metrics: Form[str] = "") -> Any:
    """Compare metrics with a file of rated replies.

    The file is written by `export --what judged`; metrics are comma-separated.
    """
    job = benchmark_ask(
        file=benchmark_upload_keep(file),
        title=file.name or "",
        metrics=[name for name in metrics.split(",") if name] or _usual_metrics(),
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job)


@router.post("/benchmark/{id}/again", auth=TO_RUN, response={202: JobOut, **FAILURES}, operation_id="benchmark_again")
def benchmark_renew(request: HttpRequest, id: int) -> Any:
    """Repeat a comparison with the current data and metrics.

    `id` is the id of its job.
    """
    job = benchmark_done(id)
    if job is None:
        raise Http404(f"there is no finished comparison {id}")
    return Status(202, benchmark_again(job=job, created_by=request.user))  # type: ignore[arg-type]


@router.get("/judges", response={200: list[JobOut], **FAILURES}, operation_id="judges")
def judges(request: HttpRequest) -> Any:
    """List the newest 30 comparisons of judges with raters, with their results."""
    jobs_settle()
    return judges_newest()


@router.post("/judges", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="judges_ask")
def judges_start(request: HttpRequest, params: JudgesParams) -> Any:
    """Compare language models as judges with a study's raters.

    They score its conversations or replies.
    """
    return Status(202, judges_ask(params=params, created_by=request.user))  # type: ignore[arg-type]


def _usual_metrics() -> list[str]:
    return [metric.name for metric in benchmark_metrics() if metric.is_usual]


def _bot(entry: BotEntry, reports: Any, spent: Spent | None) -> dict[str, Any]:
    """Return the fields shared by the list of bots and a single bot."""
    state = bot_state(entry, reports)
    return {
        "id": entry.id,
        "name": str(entry.name),
        "kind": entry.kind,
        "is_control": entry.is_control,
        "is_available": entry.available,
        "is_offered": state.is_offered,
        "state": state.words,
        "reason": state.reason or entry.reason,
        "health": entry.health,
        "spent": spent,
    }


def _rows(grid: Grid) -> list[dict[str, Any]]:
    return [
        fields_of(
            MetricRowOut,
            row,
            cells=[_cell(dataset.name, cell) for dataset, cell in zip(grid.sets, row.cells, strict=True)],
        )
        for row in grid.rows
    ]


def _cell(name: str, cell: GridCell) -> dict[str, Any]:
    printed = cell.published_r
    published = None
    if cell.published is not None and printed is not None:
        published = {"place": cell.published.place, "r": printed}
    return fields_of(CellOut, cell, set=name, published=published)
