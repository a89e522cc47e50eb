"""Schemas of calls about self-play runs."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ninja import Schema
from pydantic import Field

from webapp.api.schemas import JobOut
from webapp.reading.run_means import MOST_COLUMNS, MOST_RUNS


class RunOut(Schema):
    """A self-play run: its plan, and how its job stands. `n_conversations` are those of each bot, or of each pair."""

    id: int
    name: str
    bots: list[str]
    pairs: str
    n_conversations: int
    n_turns: int
    seed: int
    n_failed: int
    job: JobOut


class RunPage(Schema):
    """A part of all runs, of which there are `count`."""

    items: list[RunOut]
    count: int


class PairOut(Schema):
    """Bot that began, bot that replied, and the number of their conversations."""

    first: str
    bot: str
    n_done: int
    n_failed: int


class FailuresOut(Schema):
    """Reason why conversations of a pair failed."""

    first: str
    bot: str
    n: int
    error: str


class RunDetail(RunOut):
    """A run pair by pair."""

    openers: list[str]
    metrics: list[str]
    by_pair: list[PairOut]
    failures: list[FailuresOut]
    metrics_job: JobOut | None


class ComparedRuns(Schema):
    """Runs, bots and columns of metrics to compare."""

    runs: str = Field(
        "",
        max_length=500,
        description=f"Ids by commas, {MOST_RUNS} at most; none: the newest that have conversations.",
    )
    bots: str = Field("", max_length=5000, description="Ids by commas; none: all of these runs.")
    columns: str = Field(
        "",
        max_length=1000,
        description=f"Columns of metrics by commas, {MOST_COLUMNS} at most; none: some usual ones.",
    )


class RunSettings(Schema):
    """Parameters of a run, as starting one takes them.

    `study` is the study whose filters label the replies.
    """

    seed: int
    conversations: int
    turns: int
    pairs: str
    openers: list[str]
    study: str


class ComparedRunOut(Schema):
    """A run that is compared."""

    id: int
    name: str
    state: Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
    created_at: datetime
    settings: RunSettings


class MeasureOut(Schema):
    """A column of a metric."""

    name: str
    title: str
    unit: str
    about: str


class RunMeanOut(Schema):
    """A mean over `n` conversations that have a value, of `n_measured` that the metric was computed for.

    `reason` says why there is no mean, or none of its ends.
    """

    column: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_measured: int
    reason: str


class SideOut(Schema):
    """A bot in a run: `n` conversations with itself came to their end; `version` is the key of its identity."""

    run: int
    bot: str
    version: str
    n: int
    n_failed: int
    means: list[RunMeanOut]


class RunsComparedOut(Schema):
    """Runs compared, bot by bot; intervals have this level, and conversations as units.

    `differ` names the settings in which the runs differ, `versions_differ` the bots that are not the same in all of
    them,
    and `repeated` deterministic bots whose conversations in two of the runs are the same. Nothing is tested.
    """

    level: float
    runs: list[ComparedRunOut]
    columns: list[MeasureOut]
    sides: list[SideOut]
    differ: list[str]
    versions_differ: list[str]
    repeated: list[str]
