"""Queries for stars, tags, notes and saved searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from webapp.conversations.models import Conversation
from webapp.ratings.models import Rating
from webapp.search.fields import Numbers, Unreadable
from webapp.search.models import Figure, Note, SavedSearch, Series
from webapp.search.pagination import Source
from webapp.search.query import parse_query
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Notes:
    """Star, tags and notes of readers at a conversation."""

    is_starred: bool
    tags: list[Note]
    notes: list[Note]


def notes_of(conversation: Conversation) -> Notes:
    """Return a conversation's star, tags and notes, oldest first."""
    rows = list(Note.objects.filter(conversation=conversation).select_related("author"))
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in Note.Kind}
    return Notes(bool(by_kind[Note.Kind.STAR]), by_kind[Note.Kind.TAG], by_kind[Note.Kind.NOTE])


def has_residuals(fit: int) -> bool:
    """Return True if the errors of a fit in single conversations are indexed."""
    return Figure.objects.filter(series__kind=Series.Kind.FIT, series__metric=fit).exists()


def ids_among(rows: QuerySet[Conversation], ids: Sequence[UUID], state: str = "") -> list[UUID]:
    """Return those of these ids that are among the conversations, in their order.

    Args:
        state: state of the conversations; empty: any.
    """
    present = rows.filter(pk__in=ids, **({"state": state} if state else {})).values_list("pk", flat=True)
    known = set(present)
    return [pk for pk in dict.fromkeys(ids) if pk in known]


def raters_of(conversations: Sequence[UUID]) -> list[str]:
    """Return the names of raters of these conversations, in order."""
    named_ratings = Rating.objects.filter(conversation__in=conversations).exclude(rater="")
    return list(named_ratings.order_by("rater").values_list("rater", flat=True).distinct()[:MOST_RATERS])


MOST_RATERS = 200
MOST_TAGS = 200
NOTES = 50
"""A page of notes."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Tag with its number of conversations."""

    text: str
    n: int


def tags_of(rows: QuerySet[Conversation], *, after: str = "", limit: int = MOST_TAGS) -> list[Tag]:
    """Return the tags of conversations by name, in one query.

    Args:
        after: only tags sorted after this one.
        limit: maximum number of tags.
    """
    tags = _left_at(rows, Note.Kind.TAG).filter(text__gt=after).order_by("text")
    tag_counts = tags.values_list("text").annotate(n=Count("pk"))
    return [Tag(text, n) for text, n in tag_counts[:limit]]


def stars_of(rows: QuerySet[Conversation]) -> int:
    """Return the number of conversations that are starred."""
    return _left_at(rows, Note.Kind.STAR).count()


@dataclass(frozen=True, slots=True)
class NotePage:
    """Page of notes, newest first.

    Attributes:
        before: key of the last note, for the next page; 0 on the last page.
        total: total number of notes.
    """

    notes: list[Note]
    before: int
    total: int


def notes_in(rows: QuerySet[Conversation], *, before: int = 0, size: int = NOTES) -> NotePage:
    """Return the notes at conversations in two queries.

    Each comes with its conversation, bot and author.

    Args:
        before: key of a note; only older ones. 0: from the newest one on.
    """
    every = _left_at(rows, Note.Kind.NOTE)
    older_notes = every.filter(pk__lt=before) if before else every
    older_notes = older_notes.select_related("conversation__bot", "author").order_by("-pk")
    page_notes = list(older_notes[: size + 1])
    rest, page_notes = page_notes[size:], page_notes[:size]
    return NotePage(page_notes, page_notes[-1].pk if rest else 0, every.count())


def _left_at(rows: QuerySet[Conversation], kind: str) -> QuerySet[Note]:
    """Return the readers' notes of one kind at the conversations."""
    return Note.objects.filter(kind=kind, conversation__in=rows.order_by().values("pk"))


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved search.

    `reason` names the part that is no longer valid, such as a removed metric; otherwise empty.
    """

    search: SavedSearch
    reason: str


def source_fields(source: Source) -> dict[str, Any]:
    """Return the field values of searches saved for a study or run."""
    return {"study" if isinstance(source, Study) else "run": source}


def saved_searches(source: Source, user: Any, numbers: Numbers, bots: Sequence[str] = ()) -> list[Saved]:
    """Return a user's saved searches, each with its current error."""
    study = source if isinstance(source, Study) else None
    searches = []
    for search in SavedSearch.objects.filter(**source_fields(source), owner=user):
        reason = ""
        try:
            parse_query(search.line, numbers, bots=bots, study=study)
        except Unreadable as error:
            reason = error.reason
        searches.append(Saved(search, reason))
    return searches
