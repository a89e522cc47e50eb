"""Schemas of calls about the installation, its bots and the benchmark."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from chatbots.validation import InputModel, Many
from webapp.api.schemas import JobOut, Name


class HealthOut(Schema):
    """Health of a bot: its latest replies to participants and its failures."""

    answered_at: datetime | None
    failed_at: datetime | None
    n_failed: int
    failed_since: datetime | None
    reason: str
    set_aside_at: datetime | None
    n_tries: int


class SpentOut(Schema):
    """Cost of a bot's calls so far, in the currency of its prices, and its cap; null: not known, no cap."""

    spent: float | None
    cap: float | None
    is_reached: bool
    about: str


class BotOut(Schema):
    """Bot of this server: whether it can be loaded, whether participants get it, and its problem."""

    id: str
    name: str
    kind: str
    is_control: bool
    is_available: bool
    is_offered: bool
    state: str
    reason: str | None
    health: HealthOut | None
    spent: SpentOut | None


class BotDetail(BotOut):
    """A bot with its settings and its model card, in Markdown."""

    description: str
    version: str
    params: dict[str, Any]
    card: str | None


class TroubleOut(Schema):
    """One thing that is wrong with the installation."""

    kind: str
    subject: str
    title: str
    words: str


class ProcessOut(Schema):
    """A process: what it does, where, and how busy it is; `cpu` in percent of a core."""

    name: str
    about: str
    host: str
    version: str
    began_at: datetime
    heard_s: int
    is_silent: bool
    hangs_since: datetime | None
    cpu: int | None
    memory_mb: float


class QueueOut(Schema):
    """A queue: how many wait in it, how many are being done, and for how long the first has waited."""

    name: str
    title: str
    n: int
    n_running: int
    oldest_s: float | None
    moved_s: float | None
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


class AlertOut(Schema):
    """An alert and how sending it went."""

    title: str
    event: str
    channel: str
    created_at: datetime
    sent_at: datetime | None
    error: str


class SystemOut(Schema):
    """The state of the installation."""

    troubles: list[TroubleOut]
    notes: list[str]
    processes: list[ProcessOut]
    queues: list[QueueOut]
    room: RoomOut
    alerts: list[AlertOut]


class PublishedOut(Schema):
    """Published result of a metric on a data set."""

    place: str
    r: float


class CellOut(Schema):
    """A metric on a data set; without a number `reason` says why."""

    set: str
    r: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    reason: str
    published: PublishedOut | None


class SetOut(Schema):
    """Data set of the benchmark; `target` is the dimension that is compared, empty where it has no ratings."""

    name: str
    job: int
    title: str
    source: str
    target: str
    n_items: int
    language: str


class MetricRowOut(Schema):
    """A metric with a cell for every data set; `rank` is the mean of its places."""

    name: str
    title: str
    versions: str
    rank: float | None
    is_baseline: bool
    cells: list[CellOut]


class StaleOut(Schema):
    """A comparison that would come out otherwise today, and why."""

    job: int
    said_more: bool
    changed: list[str]
    gone: list[str]
    file_gone: bool


class BenchmarkOut(Schema):
    """Metrics against ratings of single replies; `pairs` against choices of two."""

    method: Literal["spearman", "pearson", "kendall"]
    sets: list[SetOut]
    rows: list[MetricRowOut]
    targets: list[str]
    languages: list[str]
    pairs: list[dict[str, Any]]
    stale: list[StaleOut]
    jobs: list[JobOut]


class AskBenchmark(InputModel):
    """Study with ratings of single replies, or of pairs, and the metrics to compare with them."""

    study: str = Field(min_length=1)
    metrics: Many[Name] = Field((), description="None: those that are usual.")
