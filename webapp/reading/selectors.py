"""Reads of what readers noted and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.conversations.models import Conversation
from webapp.reading.asking import asked_of
from webapp.reading.fields import Numbers
from webapp.reading.models import Note, SavedSearch
from webapp.reading.syntax import Unreadable
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Notes:
    """What readers left at a conversation."""

    is_starred: bool
    tags: list[Note]
    notes: list[Note]


def notes_of(conversation: Conversation) -> Notes:
    """Return what readers left at a conversation, the oldest first."""
    rows = list(Note.objects.filter(conversation=conversation).select_related("author"))
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in Note.Kind}
    return Notes(bool(by_kind[Note.Kind.STAR]), by_kind[Note.Kind.TAG], by_kind[Note.Kind.NOTE])


def tags_of_study(study: Study) -> list[str]:
    """Return the tags that conversations of a study have, by name."""
    tags = Note.objects.filter(conversation__study=study, kind=Note.Kind.TAG).order_by("text")
    return list(tags.values_list("text", flat=True).distinct()[:200])


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved search; `why` says what of it cannot be read any more, such as a metric that is gone."""

    search: SavedSearch
    why: str


def saved_searches(
    study: Study, user: Any, numbers: Numbers, bots: Sequence[str] = ()
) -> list[Saved]:
    """Return what somebody saved for a study, each with what is wrong with it now."""
    found = []
    for search in SavedSearch.objects.filter(study=study, owner=user):
        why = ""
        try:
            asked_of(search.line, numbers, bots=bots, study=study)
        except Unreadable as error:
            why = error.why
        found.append(Saved(search, why))
    return found
