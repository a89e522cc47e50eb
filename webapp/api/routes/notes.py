"""Routes of readers' notes on conversations, and of saved searches.

Each call can be repeated without further effect. They need the right to read and no more, as on the pages: notes
are part of reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Router

from webapp.api.auth import Token
from webapp.api.errors import BODY_FAILURES, FAILURES
from webapp.api.routes.jobs import run_found
from webapp.api.schemas import columns_read, line_told
from webapp.api.schemas_conversations import AskNote, AskSearch, AskTag, NoteOut, NotesOut, SearchOut
from webapp.conversations.models import Conversation
from webapp.dashboard.conversation_reader import conversations_to_read
from webapp.ratings.selectors import study_bots, study_dimensions
from webapp.search import services
from webapp.search.fields import Numbers
from webapp.search.models import Note
from webapp.search.pagination import Source
from webapp.search.query import parse_query
from webapp.search.selectors import Notes, notes_of, saved_searches
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key

router = Router(tags=["conversations"], auth=Token())
LEFT: dict[int, Any] = {200: NotesOut, **FAILURES}
KEPT: dict[int, Any] = {200: list[SearchOut], **BODY_FAILURES}


@router.put("/conversations/{id}/star", response=LEFT, operation_id="star")
def star(request: HttpRequest, id: UUID) -> Any:
    """Star a conversation, for everybody who reads it."""
    return _starred(request, id, True)


@router.delete("/conversations/{id}/star", response=LEFT, operation_id="star_remove")
def star_remove(request: HttpRequest, id: UUID) -> Any:
    """Take the star of a conversation away."""
    return _starred(request, id, False)


@router.post("/conversations/{id}/tags", response={200: NotesOut, **BODY_FAILURES}, operation_id="tag_add")
def tag_add(request: HttpRequest, id: UUID, asked: AskTag) -> Any:
    """Tag a conversation; a tag that it has already stands there once."""
    row = _found(id)
    services.tag_add(conversation=row, text=asked.text, author=request.user)
    return _left(row)


@router.delete("/conversations/{id}/tags", response=LEFT, operation_id="tag_remove")
def tag_remove(request: HttpRequest, id: UUID, text: str) -> Any:
    """Take the tag `text` away from a conversation; one that is gone already is no error."""
    row = _found(id)
    services.tag_remove(conversation=row, text=text)
    return _left(row)


@router.post("/conversations/{id}/notes", response={200: NotesOut, **BODY_FAILURES}, operation_id="note_add")
def note_add(request: HttpRequest, id: UUID, asked: AskNote) -> Any:
    """Write a note at a conversation; the same words again of the same person stay one note."""
    row = _found(id)
    services.note_add(conversation=row, text=asked.text, author=request.user)
    return _left(row)


@router.delete("/conversations/{id}/notes/{note}", response=LEFT, operation_id="note_remove")
def note_remove(request: HttpRequest, id: UUID, note: int) -> Any:
    """Remove a note or a tag of a conversation by its own id; one that is gone already is no error."""
    row = _found(id)
    services.note_remove(conversation=row, pk=note)
    return _left(row)


@router.get("/studies/{key}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="searches")
def searches(request: HttpRequest, key: str) -> Any:
    """List the searches of a study that the token's person keeps."""
    return _kept(request, _of_study(key))


@router.post("/studies/{key}/searches", response=KEPT, operation_id="search_keep")
def search_keep(request: HttpRequest, key: str, asked: AskSearch) -> Any:
    """Keep a search line by name for the token's person; the same name again takes the place of the one before."""
    return _keep(request, _of_study(key), asked)


@router.delete("/studies/{key}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="search_forget")
def search_forget(request: HttpRequest, key: str, name: str) -> Any:
    """Forget the search that the token's person keeps by this name; one that is gone already is no error."""
    return _forget(request, _of_study(key), name)


@router.get("/runs/{id}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="run_searches")
def run_searches(request: HttpRequest, id: int) -> Any:
    """List the searches of a self-play run that the token's person keeps."""
    return _kept(request, _of_run(id))


@router.post("/runs/{id}/searches", response=KEPT, operation_id="run_search_keep")
def run_search_keep(request: HttpRequest, id: int, asked: AskSearch) -> Any:
    """Keep a search line of a self-play run by name, as of a study."""
    return _keep(request, _of_run(id), asked)


@router.delete("/runs/{id}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="run_search_forget")
def run_search_forget(request: HttpRequest, id: int, name: str) -> Any:
    """Forget a search of a self-play run by its name, as of a study."""
    return _forget(request, _of_run(id), name)


def notes_to_json(found: Notes) -> dict[str, Any]:
    """Return the readers' notes on a conversation, serialised for API responses."""
    return {
        "is_starred": found.is_starred,
        "tags": [_note(one) for one in found.tags],
        "notes": [_note(one) for one in found.notes],
    }


def _starred(request: HttpRequest, id: UUID, is_starred: bool) -> NotesOut:
    row = _found(id)
    services.star_set(conversation=row, is_starred=is_starred, author=request.user)
    return _left(row)


def _found(id: UUID) -> Conversation:
    return conversations_to_read().get(pk=id)


def _left(row: Conversation) -> NotesOut:
    return NotesOut(**notes_to_json(notes_of(row)))


@dataclass(frozen=True, slots=True)
class _Searched:
    """Source of a search: a study or run, its numbers and its bots."""

    source: Source
    numbers: Numbers
    bots: tuple[str, ...]

    @property
    def study(self) -> Study | None:
        """The study, where it is one."""
        return self.source if isinstance(self.source, Study) else None


def _of_study(key: str) -> _Searched:
    study = study_by_key(key)
    return _Searched(study, Numbers(study_dimensions(study)), tuple(study_bots(study)))


def _of_run(id: int) -> _Searched:
    run = run_found(id)
    return _Searched(run, Numbers([]), tuple(run.plan.get("bots", [])))


def _kept(request: HttpRequest, found: _Searched) -> list[SearchOut]:
    return [
        SearchOut(name=one.search.name, q=one.search.line, columns=one.search.columns, why=one.why)
        for one in saved_searches(found.source, request.user, found.numbers, found.bots)
    ]


def _keep(request: HttpRequest, found: _Searched, asked: AskSearch) -> list[SearchOut]:
    with line_told(asked.q):
        parse_query(asked.q, found.numbers, bots=found.bots, study=found.study)
    columns = ",".join(one.name for one in columns_read(asked.columns, found.numbers))
    services.search_save(source=found.source, owner=request.user, name=asked.name, line=asked.q, columns=columns)
    return _kept(request, found)


def _forget(request: HttpRequest, found: _Searched, name: str) -> list[SearchOut]:
    services.search_forget(source=found.source, owner=request.user, name=name)
    return _kept(request, found)


def _note(note: Note) -> NoteOut:
    author = note.author.get_username() if note.author is not None else None
    return NoteOut(id=note.pk, text=note.text, author=author, created_at=note.created_at)
