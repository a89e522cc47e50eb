"""Schemas of requests and responses that several routes share.

Also pagination by `limit` and `offset`, file responses, and the search query and columns of a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from ninja.pagination import LimitOffsetPagination
from pydantic import BeforeValidator, Field

from chatbots.text import did_you_mean, quote
from chatbots.validation import InputModel, Many, Mistake, ValuesError
from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT
from webapp.jobs.models import Job, JobBase
from webapp.jobs.selectors.jobs import job_progress, job_title
from webapp.jobs.services.selfplay import N_CONVERSATIONS, N_TURNS
from webapp.search.fields import LONGEST, Number, Numbers, Unreadable
from webapp.transfer.exporters.base import ExportOptions, Source, search_check

Name = str
Names = Many[Name]
Words = Annotated[str, BeforeValidator(str)]
"""Text that may be a lazy translation."""


def fields_of(schema: type[Schema], record: Any, **overrides: Any) -> dict[str, Any]:
    """Return an object's fields for a schema.

    Args:
        overrides: fields with another name or form in the object.
    """
    return {name: getattr(record, name) for name in schema.model_fields if name not in overrides} | overrides


class Me(Schema):
    """User and rights of this token."""

    token: str
    user: str
    rights: list[str]
    confab: str


class StudyOut(Schema):
    """Study in a list."""

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
    """Study with counts of its data."""

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
    """Metric of this server."""

    name: str
    title: str
    is_default: bool
    unavailable: str | None
    columns: list[str]


class TableOut(Schema):
    """Table that can be downloaded."""

    name: str
    title: Words
    description: Words


class JobOut(Schema):
    """Job with its progress; `n_skipped` counts skipped rows of an imported file."""

    kind: str
    id: int = Field(alias="pk")
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

    @staticmethod
    def resolve_title(job: JobBase) -> str:
        return job_title(job)

    @staticmethod
    def resolve_remaining_s(job: JobBase) -> float | None:
        return job_progress(job).remaining_s

    @staticmethod
    def resolve_n_skipped(job: JobBase) -> int:
        return job.n_skipped if isinstance(job, Job) else 0

    @staticmethod
    def resolve_result(job: JobBase) -> Any:
        return job.result if isinstance(job, Job) else None


class FitOut(Schema):
    """Hybrid fit with its parameters.

    When done, it has the document that `fit_hybrid --json` prints.

    `has_file` is true if the fit itself was stored and can be applied to other data.
    """

    id: int = Field(alias="pk")
    state: str
    request: dict[str, Any]
    run: int | None = Field(alias="run_id")
    has_file: bool
    result: dict[str, Any] | None


class ResultOut(Schema):
    """Part of a study's analysis.

    `document` is what `report --json` prints of this part, based on `n_ratings` ratings at `made_at`. If data have
    changed since, `job` computes the new one.
    """

    part: str
    made_at: datetime | None
    n_ratings: int | None
    document: Any
    job: JobOut | None


class AskRun(InputModel):
    """Conversations of bots with themselves or each other."""

    bots: Many[Name] = Field(min_length=1)
    pairs: Literal["self", "all"] = "self"
    conversations: int = Field(N_CONVERSATIONS, ge=1, le=100_000)
    turns: int = Field(N_TURNS, ge=1, le=1000)
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    openers: Names = ()
    metrics: Names = Field((), description="Metrics to compute when all conversations are done.")
    study: str = Field("", description="Study whose reply filters are applied.")
    name: str = Field("", max_length=200)


class RealismOut(Schema):
    """Comparison of simulated with real participants.

    At `made_at`; `job` computes the current one.
    """

    run: int
    participant: str
    made_at: datetime | None
    document: dict[str, Any] | None
    job: JobOut | None


class AskProfile(InputModel):
    """Profile of simulated participants; empty fields are up to the model."""

    persona: str = Field("", max_length=5000)
    goal: str = Field("", max_length=5000)
    mood: str = Field("", max_length=5000)


class AskSimulation(InputModel):
    """Chats of simulated participants with a study's bots.

    Without `exchanges`, chats are as long as those of real participants.
    """

    participants: Many[Name] = Field(("retrieval",), min_length=1)
    bots: Names = Field((), description="None uses the study's bots.")
    conversations: int = Field(N_CONVERSATIONS, ge=1, le=100_000)
    exchanges: int | None = Field(None, ge=1, le=1000)
    may_leave: bool = False
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    profiles: Many[AskProfile] = Field((), description="Characters to draw from.", max_length=1000)
    max_cost: float | None = Field(None, ge=0, lt=1e9)
    metrics: Names = Field((), description="Metrics to compute afterwards; none selects those computed by default.")
    name: str = Field("", max_length=200)


class AskMetrics(InputModel):
    """Metrics of a study's or run's conversations.

    None selects those computed by default.
    """

    metrics: Names = ()


class AskFit(InputModel):
    """Leave-one-bot-out fit of the hybrid metric."""

    targets: Many[Name] | None = None
    preset: str = "strong"
    intercept: str = PREFERRED_INTERCEPT
    run: int | None = Field(None, ge=1, le=2**62, description="Self-play run to predict as well.")
    features: Many[Name] | None = None
    exclude_bots: Names = ()
    with_people: bool = False
    include_synthetic: bool = False
    without: Names = Field((), description="Flags; participants with any of them are excluded with all their work.")
    condition: Names = Field(
        (), description="Levels of factors, such as `scenario=trip`; only conversations with these levels are used."
    )
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskAnalysis(InputModel):
    """Metrics of a study, and its hybrid fit if enough bots are rated.

    Optionally self-play first.
    """

    selfplay: bool = False


class AskRehearsal(InputModel):
    """Scripted participants that go through a study's pages."""

    people: int = Field(12, ge=1, le=200)
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskReport(InputModel):
    """Report of a study, and the participants to include.

    It has the default layout or that of a paper.
    """

    like: Literal["", "ghandeharioun2019"] = ""
    include_synthetic: bool = False
    without: Names = Field((), description="Flags; participants with any of them are excluded with all their work.")


class AskItems(InputModel):
    """Items drawn from conversations of a study or self-play run.

    `bots` reply to them.
    """

    of_study: str = ""
    run: int | None = Field(None, ge=1, le=2**62)
    n_contexts: int = Field(100, ge=1, le=100_000)
    n_utterances: int = Field(3, ge=1, le=100)
    more_than_tokens: int = Field(10, ge=0, le=10_000)
    bots: Names = ()
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskImport(Schema):
    """Facts about a file of conversations.

    Set both ends of the scale or neither.
    """

    # Forms have no null: a missing field is None.
    low: float = Field(None, description="Lowest possible rating.")  # type: ignore[assignment]
    high: float = Field(None, description="Highest possible rating.")  # type: ignore[assignment]
    scales: list[str] = Field(default_factory=list, description="Scales of single questions, such as fun=0:1.")
    language: str = Field("", max_length=20, description="Language code of all conversations.")
    speakers: list[str] = Field(default_factory=list, description="Roles of speakers, such as A=human and B=bot.")
    bot: str = Field("", max_length=100, description="Name of the bot where the file names none.")
    keep: list[str] = Field(default_factory=list, description="Fields of the source that become conditions.")
    mapping: str = Field("", max_length=80, description="Name of a saved mapping; replaces speakers, bot and keep.")
    licence: str = Field("", max_length=200, description="Licence of the file.")
    source: str = Field("", max_length=500, description="Where the file comes from.")


class AskScores(Schema):
    """Facts about a file of scores."""

    lower: list[str] = Field(default_factory=list, description="Metrics of which lower values are better.")
    licence: str = Field("", max_length=200, description="Licence of the scores.")
    source: str = Field("", max_length=500, description="Where the scores come from.")


class Part(Schema):
    """One page of a list."""

    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=2**31)


class Pages(LimitOffsetPagination):
    """Limit-and-offset pagination with Confab's limits."""

    class Input(Part):
        """Query parameters of a list."""


_BYTES = {"schema": {"type": "string", "format": "binary"}}


def file_described(description: str, *kinds: str) -> dict[str, Any]:
    """Return the OpenAPI description of a call that returns a file."""
    content = dict.fromkeys(kinds or ("application/octet-stream",), _BYTES)
    return {"responses": {200: {"description": description, "content": content}}}


Line = Annotated[str, Field(max_length=LONGEST, description="Search query, as in the conversation browser.")]


class SearchedTable(Schema):
    """Query that filters a table of conversations."""

    q: Line = ""


def table_line(source: Source, table: str, q: str) -> str:
    """Validate and return the query that filters a table.

    Raises:
        ValuesError: the query is invalid, or the table is not of conversations; with an alternative.
    """
    line = " ".join(q.split())
    with query_errors(line):
        search_check(source, table, ExportOptions(search=line))
    return line


@contextmanager
def query_errors(line: str) -> Iterator[None]:
    """Turn errors of a query into mistakes of the call.

    Raises:
        ValuesError: the query is invalid.
    """
    if "\x00" in line:
        raise ValuesError([Mistake("q", "q contains a NUL character, which is not allowed in text")])
    try:
        yield
    except Unreadable as error:
        message = f"q is invalid: {error.reason} For example: {error.example}"
        raise ValuesError([Mistake("q", message)]) from None
    except ValueError as error:
        raise ValuesError([Mistake("q", str(error))]) from None


def columns_read(names: str, numbers: Numbers) -> list[Number]:
    """Return the numbers named in a comma-separated list.

    Raises:
        ValuesError: an unknown name, with the nearest one.
    """
    selected_numbers: list[Number] = []
    for name in filter(None, names.split(",")):
        number = numbers.get(name)
        if number is None:
            near = did_you_mean(name, numbers.names())
            raise ValuesError(
                [Mistake("columns", f"columns contains {quote(name)}, which is not a number here. {near}".rstrip())]
            )
        selected_numbers.append(number)
    return list(dict.fromkeys(selected_numbers))
