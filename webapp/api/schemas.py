"""Schemas of the API's requests and responses, as OpenAPI describes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from chatbots.outside import Many, Values
from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT
from webapp.runs.services.selfplay import N_CONVERSATIONS, N_TURNS

Name = str
Names = Many[Name]


class Me(Schema):
    """Whose token this is, and what it may do."""

    token: str
    user: str
    rights: list[str]
    confab: str


class StudyOut(Schema):
    """A study in a line."""

    key: str
    name: str
    protocol: str
    state: str
    bots: list[str]
    is_imported: bool
    is_archived: bool
    created_at: datetime

    @staticmethod
    def resolve_is_archived(study: Any) -> bool:
        return study.archived_at is not None


class StudyDetail(StudyOut):
    """A study with how much there is to analyse."""

    n_ratings: int
    n_measured: int
    n_fits: int


class StudyMade(Schema):
    """Result of storing a study's file."""

    key: str
    is_new: bool
    n_changes: int
    n_items: int


class MetricOut(Schema):
    """A metric that this server has."""

    name: str
    title: str
    is_default: bool
    unavailable: str | None
    columns: list[str]


class TableOut(Schema):
    """A table that can be downloaded."""

    name: str
    title: str
    description: str


class JobOut(Schema):
    """Work of the server's workers, and how far it is; `n_skipped` rows of a file were left out by one that is done."""

    kind: str
    id: int
    title: str
    state: Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
    is_over: bool
    n_done: int
    n_total: int
    remaining_s: float | None
    error: str
    created_at: datetime
    n_skipped: int = 0
    result: Any = None


class FitOut(Schema):
    """A hybrid fit: what was asked, and once it is done the document that `fit_hybrid --json` prints.

    `has_file` tells whether the fit alone was kept, which can be applied to other data.
    """

    id: int
    state: str
    request: dict[str, Any]
    run: int | None
    has_file: bool
    result: dict[str, Any] | None


class ResultOut(Schema):
    """A part of a study's analysis.

    `document` is what `report --json` prints of this part, of `n_ratings` ratings at `made_at`; where the data have
    changed since, `job` makes the new one.
    """

    part: str
    made_at: datetime | None
    n_ratings: int | None
    document: Any
    job: JobOut | None


class AskRun(Values):
    """Conversations of bots with themselves, or with each other."""

    bots: Many[Name] = Field(min_length=1)
    pairs: Literal["self", "all"] = "self"
    conversations: int = Field(N_CONVERSATIONS, ge=1, le=100_000)
    turns: int = Field(N_TURNS, ge=1, le=1000)
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    openers: Names = ()
    metrics: Names = Field((), description="To compute when all conversations are there.")
    study: str = Field("", description="Whose filters of replies mark what is said.")
    name: str = Field("", max_length=200)


class AskMetrics(Values):
    """Metrics of a study's or a run's conversations; none named: those computed by default."""

    metrics: Names = ()


class AskFit(Values):
    """A leave-bot-out fit of the hybrid metric."""

    targets: Many[Name] | None = None
    preset: str = "strong"
    intercept: str = PREFERRED_INTERCEPT
    run: int | None = Field(None, ge=1, le=2**62, description="Self-play to predict, too.")
    features: Many[Name] | None = None
    exclude_bots: Names = ()
    include_synthetic: bool = False
    without: Names = Field((), description="Flags; what people with one of them did is left out.")
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskAnalysis(Values):
    """Metrics of a study and, with enough rated bots, its hybrid fit; before them self-play on request."""

    selfplay: bool = False


class AskRehearsal(Values):
    """Scripted participants who go through a study's pages."""

    people: int = Field(12, ge=1, le=200)
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskReport(Values):
    """A report of a study: in its own order, or laid out like a paper; and whom it counts."""

    like: Literal["", "ghandeharioun2019"] = ""
    include_synthetic: bool = False
    without: Names = Field((), description="Flags; what people with one of them did is left out.")


class AskItems(Values):
    """Items drawn from a study's conversations, or from a self-play run's; `bots` reply to them where any are named."""

    of_study: str = ""
    run: int | None = Field(None, ge=1, le=2**62)
    n_contexts: int = Field(100, ge=1, le=100_000)
    n_utterances: int = Field(3, ge=1, le=100)
    more_than_tokens: int = Field(10, ge=0, le=10_000)
    bots: Names = ()
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskImport(Schema):
    """Facts about a file of conversations; both ends of the scale, or none."""

    # A form has no null: what is not sent is None.
    low: float = Field(None, description="Lowest possible rating.")  # type: ignore[assignment]
    high: float = Field(None, description="Highest possible rating.")  # type: ignore[assignment]
    scales: list[str] = Field(
        default_factory=list, description="Scales of single questions, such as fun=0:1."
    )
    language: str = Field("", max_length=20, description="Code of the language of all of them.")
