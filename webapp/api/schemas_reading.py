"""Schemas of calls about conversations and self-play runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from chatbots.outside import Values
from webapp.api.searching import Line
from webapp.reading.models import Note

Key = Field("", max_length=200, description="As `after` of the page before; empty: the first page.")


class Searched(Schema):
    """Query of conversations: filter, order, and number per page."""

    q: Line = ""
    columns: str = Field("", max_length=1000, description="Names of numbers to tell, by commas.")
    include_synthetic: bool = False
    without: str = Field("", max_length=500, description="Flags by commas.")
    after: str = Key
    limit: int = Field(50, ge=1, le=500)


class ConversationRow(Schema):
    """A conversation of a list.

    `excerpt` is where the words were found, or how it begins; `figures` has the columns that were asked for.
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


class ConversationPage(Schema):
    """A page of conversations: `count` in all, and `after`, which the next page begins after; empty on the last one."""

    items: list[ConversationRow]
    count: int
    after: str


class TurnOut(Schema):
    """An utterance.

    `reported` has what people reported and filters found, in words; `withheld_text` what a filter kept from people.
    """

    index: int
    speaker: Literal["human", "bot"]
    text: str
    vote: int
    latency_ms: int | None
    answered_by: str
    withheld_text: str
    created_at: datetime
    reported: list[str]


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

    id: int
    text: str
    author: str | None
    created_at: datetime


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


class AskTag(Values):
    """A tag: lower case, without commas and quotation marks."""

    text: str = Field(max_length=200)


class AskNote(Values):
    """A note in words."""

    text: str = Field(max_length=2 * Note.LONGEST)


class AskSearch(Values):
    """A search line to keep by name, with the numbers that its list shows, by commas."""

    name: str = Field(min_length=1, max_length=80)
    q: Line = Field(min_length=1)
    columns: str = Field("", max_length=500)


class SearchOut(Schema):
    """Search that a user keeps by name; `why` explains the part of it that cannot be read any more."""

    name: str
    q: str
    columns: str
    why: str
