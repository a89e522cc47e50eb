"""Schemas of routes about conversations and self-play runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from chatbots.validation import InputModel
from webapp.api.schemas import JobOut, Line
from webapp.jobs.models import SelfPlayRun
from webapp.search.models import Note
from webapp.search.run_comparison import MOST_COLUMNS, MOST_RUNS, settings_of

Key = Field("", max_length=200, description="`after` of the previous page; empty for the first page.")


class Searched(Schema):
    """Query of conversations: filter, order and page size."""

    q: Line = ""
    columns: str = Field("", max_length=1000, description="Comma-separated names of numbers to return.")
    include_synthetic: bool = False
    without: str = Field("", max_length=500, description="Comma-separated flags.")
    after: str = Key
    limit: int = Field(50, ge=1, le=500)


class ConversationRow(Schema):
    """Conversation in a list.

    `excerpt` shows the match or the beginning. `figures` has the requested columns, `condition` the level of each
    factor, `sitting` the key of the study's part.
    """

    id: UUID
    bot: str
    state: str
    source: str
    n_exchanges: int
    is_synthetic: bool
    created_at: datetime
    ended_at: datetime | None
    excerpt: str
    figures: dict[str, float | None]
    tags: list[str]
    is_starred: bool
    condition: dict[str, str]
    sitting: str


class ConversationPage(Schema):
    """Page of conversations.

    It has the total `count`, and `after` for the next page, which is empty on the last one.
    """

    items: list[ConversationRow]
    count: int
    after: str


class ImageOut(Schema):
    """Image of a message; `url` is valid for ten minutes."""

    url: str
    description: str
    width: int
    height: int
    withheld_at: datetime | None


class TurnOut(Schema):
    """Turn of a conversation.

    `reported` lists participants' reports and filters' labels. `withheld_text` is a reply that a filter blocked,
    `trace` the reasoning and tool calls before a reply. `goes_on` is true for the one of two replies that the chat
    continued with. `is_refused` is true if a content filter refused the message. `rejected_params` lists request fields
    that the model rejected.
    """

    index: int
    speaker: Literal["human", "bot"]
    text: str
    vote: int
    latency_ms: int | None
    answered_by: str
    withheld_text: str
    trace: list[dict[str, Any]]
    goes_on: bool | None
    is_refused: bool
    rejected_params: list[str]
    created_at: datetime
    reported: list[str]
    image: ImageOut | None


class RatingOut(Schema):
    """One rater's answers."""

    rater: str | None
    answers: dict[str, float | None]
    other_answers: dict[str, Any]
    comment: str
    submitted_at: datetime


class MetricValuesOut(Schema):
    """A metric's values for a conversation.

    `reasons` explain why a value is null.
    """

    metric: str
    version: str
    is_current: bool
    values: dict[str, float | None]
    turns: dict[str, list[float | None]]
    reasons: dict[str, str]


class NoteOut(Schema):
    """Tag or note of a reader; `id` is used to remove it."""

    id: int = Field(alias="pk")
    text: str
    author: str | None
    created_at: datetime

    @staticmethod
    def resolve_author(note: Note) -> str | None:
        return note.author.get_username() if note.author is not None else None


class NotesOut(Schema):
    """Star, tags and notes of a conversation."""

    is_starred: bool
    tags: list[NoteOut]
    notes: list[NoteOut]


class ConversationOut(NotesOut):
    """Conversation with all data shown to researchers."""

    id: UUID
    study: str | None
    run: int | None
    bot: str
    bot_version: str
    partner: str
    state: str
    source: str
    n_exchanges: int
    is_synthetic: bool
    language: str
    created_at: datetime
    ended_at: datetime | None
    turns: list[TurnOut]
    ratings: list[RatingOut]
    metrics: list[MetricValuesOut]
    condition: dict[str, str]
    sitting: str


class AskTag(InputModel):
    """Tag in lower case, without commas or quotation marks."""

    text: str = Field(max_length=200)


class AskNote(InputModel):
    """Text of a note."""

    text: str = Field(max_length=2 * Note.LONGEST)


class AskSearch(InputModel):
    """Search to save under a name, with its comma-separated columns."""

    name: str = Field(min_length=1, max_length=80)
    q: Line = Field(min_length=1)
    columns: str = Field("", max_length=500)


class SearchOut(Schema):
    """Saved search of a user.

    `why` explains the part that is no longer valid.
    """

    name: str = Field(alias="search.name")
    q: str = Field(alias="search.line")
    columns: str = Field(alias="search.columns")
    why: str = Field(alias="reason")


class RunOut(Schema):
    """Run with its plan and job; `n_conversations` counts per bot or pair.

    It is self-play if `participants` (simulated) is empty.
    """

    id: int
    name: str
    bots: list[str]
    participants: list[str]
    pairs: str
    n_conversations: int
    n_turns: int
    seed: int
    n_failed: int
    job: JobOut


class RunPage(Schema):
    """Page of runs out of `count`."""

    items: list[RunOut]
    count: int


class PairOut(Schema):
    """First and second bot of a pair, and their number of conversations."""

    first: str
    bot: str
    n_done: int
    n_failed: int


class FailuresOut(Schema):
    """Failure reason of a pair's conversations."""

    first: str = Field(alias="pair.first")
    bot: str = Field(alias="pair.bot_id")
    n: int
    error: str


class RunDetail(RunOut):
    """Run with its pairs.

    `max_cost` limits the cost of simulated chats, `spent` is the cost so far.
    """

    openers: list[str]
    max_cost: float | None
    spent: float
    metrics: list[str]
    by_pair: list[PairOut]
    failures: list[FailuresOut]
    metrics_job: JobOut | None


class ComparedRuns(Schema):
    """Runs, bots and metric columns to compare."""

    runs: str = Field(
        "",
        max_length=500,
        description=f"Comma-separated ids, at most {MOST_RUNS}; by default, the newest runs with conversations.",
    )
    bots: str = Field("", max_length=5000, description="Comma-separated ids; by default, all bots of these runs.")
    columns: str = Field(
        "",
        max_length=1000,
        description=f"Comma-separated metric columns, at most {MOST_COLUMNS}; by default, some usual ones.",
    )


class RunSettings(Schema):
    """Parameters to start a run.

    `study` is the study whose reply filters label the replies.
    """

    seed: int
    conversations: int
    turns: int
    pairs: str
    openers: list[str]
    study: str


class ComparedRunOut(Schema):
    """Run in a comparison."""

    id: int = Field(alias="pk")
    name: str
    state: Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
    created_at: datetime
    settings: RunSettings

    @staticmethod
    def resolve_settings(run: SelfPlayRun) -> dict[str, Any]:
        return settings_of(run)


class MeasureOut(Schema):
    """Column of a metric."""

    name: str
    title: str
    unit: str
    about: str


class RunMeanOut(Schema):
    """Mean over `n` conversations with a value, of `n_measured` computed ones.

    `reason` explains a missing mean or interval.
    """

    column: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_measured: int
    reason: str


class SideOut(Schema):
    """Bot in a run with its number of conversations with itself, `n`.

    `version` is the key of its identity.
    """

    run: int
    bot: str
    version: str
    n: int
    n_failed: int
    means: list[RunMeanOut]


class RunsComparedOut(Schema):
    """Comparison of runs by bot, with intervals of this level over conversations.

    `differ` names settings that differ between the runs, `versions_differ` bots whose versions differ, and `repeated`
    deterministic bots with equal conversations in two runs. No significance test is done.
    """

    level: float
    runs: list[ComparedRunOut]
    columns: list[MeasureOut]
    sides: list[SideOut]
    differ: list[str]
    versions_differ: list[str]
    repeated: list[str]
