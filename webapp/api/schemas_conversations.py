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
    """Query of conversations: filter, order, and number per page."""

    q: Line = ""
    columns: str = Field("", max_length=1000, description="Comma-separated names of numbers to return.")
    include_synthetic: bool = False
    without: str = Field("", max_length=500, description="Comma-separated flags.")
    after: str = Key
    limit: int = Field(50, ge=1, le=500)


class ConversationRow(Schema):
    """A conversation of a list.

    `excerpt` is where the words were found, or how it begins; `figures` has the columns that were asked for, and
    `condition` the level of each factor of the study; `sitting` is the key of the study's part.
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
    """A page of conversations: `count` in all, and `after`, which the next page begins after; empty on the last one."""

    items: list[ConversationRow]
    count: int
    after: str


class ImageOut(Schema):
    """Image of a message; `url` shows it for ten minutes."""

    url: str
    description: str
    width: int
    height: int
    withheld_at: datetime | None


class TurnOut(Schema):
    """An utterance.

    `reported` has what people reported and filters found, in words; `withheld_text` what a filter kept from people;
    `trace` the reasoning and tool calls before a reply;
    `goes_on` whether the chat went on with this one of two replies;
    `is_refused` whether a content filter refused the message; `rejected_params` fields of the request that the model
    rejected.
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
    """One rater's answers, as they were given."""

    rater: str | None
    answers: dict[str, float | None]
    other_answers: dict[str, Any]
    comment: str
    submitted_at: datetime


class MetricValuesOut(Schema):
    """A metric's values for a conversation; `reasons` explain why a value is null."""

    metric: str
    version: str
    is_current: bool
    values: dict[str, float | None]
    turns: dict[str, list[float | None]]
    reasons: dict[str, str]


class NoteOut(Schema):
    """A tag or a note that a reader left; by its id it is removed."""

    id: int = Field(alias="pk")
    text: str
    author: str | None
    created_at: datetime

    @staticmethod
    def resolve_author(note: Note) -> str | None:
        return note.author.get_username() if note.author is not None else None


class NotesOut(Schema):
    """Star, tags and notes of readers at a conversation."""

    is_starred: bool
    tags: list[NoteOut]
    notes: list[NoteOut]


class ConversationOut(NotesOut):
    """A conversation with everything that its reader sees."""

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
    """A tag: lower case, without commas and quotation marks."""

    text: str = Field(max_length=200)


class AskNote(InputModel):
    """A note in words."""

    text: str = Field(max_length=2 * Note.LONGEST)


class AskSearch(InputModel):
    """A search line to keep by name, with the numbers that its list shows, by commas."""

    name: str = Field(min_length=1, max_length=80)
    q: Line = Field(min_length=1)
    columns: str = Field("", max_length=500)


class SearchOut(Schema):
    """Search that a user keeps by name; `why` explains the part of it that cannot be read any more."""

    name: str = Field(alias="search.name")
    q: str = Field(alias="search.line")
    columns: str = Field(alias="search.columns")
    why: str = Field(alias="reason")


class RunOut(Schema):
    """A run: its plan, and how its job stands. `n_conversations` are those of each bot, or of each pair.

    It is self-play where `participants`, those simulated, are empty.
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

    first: str = Field(alias="pair.first")
    bot: str = Field(alias="pair.bot_id")
    n: int
    error: str


class RunDetail(RunOut):
    """A run pair by pair. `max_cost` caps the cost of simulated chats, of which `spent` is so far."""

    openers: list[str]
    max_cost: float | None
    spent: float
    metrics: list[str]
    by_pair: list[PairOut]
    failures: list[FailuresOut]
    metrics_job: JobOut | None


class ComparedRuns(Schema):
    """Runs, bots and columns of metrics to compare."""

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

    id: int = Field(alias="pk")
    name: str
    state: Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
    created_at: datetime
    settings: RunSettings

    @staticmethod
    def resolve_settings(run: SelfPlayRun) -> dict[str, Any]:
        return settings_of(run)


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
