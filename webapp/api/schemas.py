"""Schemas of requests and responses that several routes share.

Also pages of lists by `limit` and `offset`, responses that are files, and the search line and columns of a call.
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
"""Text that the domain has as a lazy translation."""


def fields_of(schema: type[Schema], record: Any, **overrides: Any) -> dict[str, Any]:
    """Return an object's fields as a schema reads them.

    Args:
        overrides: fields that the object has under another name or in another form.
    """
    return {name: getattr(record, name) for name in schema.model_fields if name not in overrides} | overrides


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
    title: Words
    description: Words


class JobOut(Schema):
    """Work of the server's workers, and how far it is; `n_skipped` rows of a file were left out by one that is done."""

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
    """A hybrid fit: what was asked, and once it is done the document that `fit_hybrid --json` prints.

    `has_file` tells whether the fit alone was kept, which can be applied to other data.
    """

    id: int = Field(alias="pk")
    state: str
    request: dict[str, Any]
    run: int | None = Field(alias="run_id")
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


class AskRun(InputModel):
    """Conversations of bots with themselves, or with each other."""

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
    """Comparison of simulated participants with people, of `made_at`; `job` makes that of the present data."""

    run: int
    participant: str
    made_at: datetime | None
    document: dict[str, Any] | None
    job: JobOut | None


class AskProfile(InputModel):
    """Character of simulated participants; what is empty is left to them."""

    persona: str = Field("", max_length=5000)
    goal: str = Field("", max_length=5000)
    mood: str = Field("", max_length=5000)


class AskSimulation(InputModel):
    """Chats of simulated participants with a study's bots. Without `exchanges` people's lengths hold."""

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
    """Metrics of a study's or a run's conversations; none named: those computed by default."""

    metrics: Names = ()


class AskFit(InputModel):
    """A leave-bot-out fit of the hybrid metric."""

    targets: Many[Name] | None = None
    preset: str = "strong"
    intercept: str = PREFERRED_INTERCEPT
    run: int | None = Field(None, ge=1, le=2**62, description="Self-play run to predict as well.")
    features: Many[Name] | None = None
    exclude_bots: Names = ()
    with_people: bool = False
    include_synthetic: bool = False
    without: Names = Field((), description="Flags; participants with any of them are excluded, with all of their work.")
    condition: Names = Field(
        (), description="Levels of factors, such as `scenario=trip`; only conversations with these levels are used."
    )
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskAnalysis(InputModel):
    """Metrics of a study and, with enough rated bots, its hybrid fit; before them self-play on request."""

    selfplay: bool = False


class AskRehearsal(InputModel):
    """Scripted participants who go through a study's pages."""

    people: int = Field(12, ge=1, le=200)
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class AskReport(InputModel):
    """A report of a study: in its own order, or laid out like a paper; and whom it counts."""

    like: Literal["", "ghandeharioun2019"] = ""
    include_synthetic: bool = False
    without: Names = Field((), description="Flags; participants with any of them are excluded, with all of their work.")


class AskItems(InputModel):
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
    scales: list[str] = Field(default_factory=list, description="Scales of single questions, such as fun=0:1.")
    language: str = Field("", max_length=20, description="Language code of all conversations.")


class Part(Schema):
    """Part of a list."""

    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=2**31)


class Pages(LimitOffsetPagination):
    """The library's pages, within these limits."""

    class Input(Part):
        """Parameters of a list call."""


_BYTES = {"schema": {"type": "string", "format": "binary"}}


def file_described(description: str, *kinds: str) -> dict[str, Any]:
    """Return the OpenAPI description of a call whose response is a file of one of these types."""
    content = dict.fromkeys(kinds or ("application/octet-stream",), _BYTES)
    return {"responses": {200: {"description": description, "content": content}}}


Line = Annotated[str, Field(max_length=LONGEST, description="Search query, as in the conversation browser.")]


class SearchedTable(Schema):
    """Query of the conversations of a table."""

    q: Line = ""


def table_line(source: Source, table: str, q: str) -> str:
    """Return the query that filters a table of a study or run, once it is known that it can.

    Raises:
        ValuesError: it cannot be read, or the table is not of conversations alone; with what would work.
    """
    line = " ".join(q.split())
    with query_errors(line):
        search_check(source, table, ExportOptions(search=line))
    return line


@contextmanager
def query_errors(line: str) -> Iterator[None]:
    """Make of what is wrong with a line a mistake of the call.

    Raises:
        ValuesError: the line cannot be read or used.
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
    """Return the numbers that a call names by commas.

    Raises:
        ValuesError: one is no number here, with the nearest name.
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
