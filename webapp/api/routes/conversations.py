"""Routes of conversations: search, reading, notes and saved searches.

Calls about notes are idempotent and need only the right to read, as on the pages.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import File, Form, Query, Router, Status
from ninja.files import UploadedFile

from chatbots.text import quote
from chatbots.validation import Mistake, ValuesError
from evaluation.data.formats.mapping import FileMapping
from evaluation.data.formats.scales import FileScales
from webapp.api.errors import BODY_FAILURES, FAILURES, Token
from webapp.api.routes.jobs import get_run
from webapp.api.schemas import AskImport, AskScores, JobOut, columns_read, fields_of, query_errors
from webapp.api.schemas_conversations import (
    AskNote,
    AskSearch,
    AskTag,
    ConversationOut,
    ConversationPage,
    ConversationRow,
    ImageOut,
    MetricValuesOut,
    NotesOut,
    RatingOut,
    Searched,
    SearchOut,
    TurnOut,
)
from webapp.conversations.images import image_link, images_of
from webapp.conversations.models import Conversation, Turn
from webapp.core.rights import Right
from webapp.insights import conversation_reader
from webapp.insights.conversation_reader import conversations_to_read
from webapp.insights.narrative.phrases import reason_text
from webapp.jobs.models import Job
from webapp.ratings.flag_selectors import without_read
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_bots
from webapp.results.refresh import refresh_flags
from webapp.search import services
from webapp.search.fields import Numbers
from webapp.search.pagination import (
    Listing,
    PageKey,
    Source,
    conversations_of_study,
    filter_conversations,
    page_of,
    study_numbers,
)
from webapp.search.query import parse_query
from webapp.search.selectors import Notes, Saved, notes_of, saved_searches
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.transfer.exporters.base import rater_of
from webapp.transfer.import_mappings import get_mapping
from webapp.transfer.job_files import upload_folder, upload_import, upload_keep

router = Router(tags=["conversations"], auth=Token())


@router.get("/studies/{key}/conversations", response={200: ConversationPage, **FAILURES}, operation_id="conversations")
def conversations(request: HttpRequest, key: str, searched: Query[Searched]) -> Any:
    """Search a study's conversations, for example with `bot:eliza quality<4 sort:quality`."""
    study = study_by_key(key)
    numbers = study_numbers(study)
    return conversation_page(
        conversations_of_study(study), searched, numbers, bots=tuple(study_bots(study)), study=study
    )


@router.post(
    "/studies/{key}/conversations",
    auth=Token(Right.RUN),
    response={202: JobOut, **BODY_FAILURES},
    operation_id="conversations_bring",
)
def conversations_bring(request: HttpRequest, key: str, file: File[UploadedFile], params: Form[AskImport]) -> Any:
    """Import a file of conversations and ratings into a study.

    A new key creates the study.

    The job's result counts what was stored and lists skipped lines. Importing a file again creates no duplicates.
    """
    low, high = params.low, params.high
    if (low is None) != (high is None):
        raise ValuesError("set both low and high, or neither")
    try:
        scales = FileScales.parse(params.scales)
        speakers = dict(text.rpartition("=")[::2] for text in params.speakers)
        mapping = FileMapping(None, speakers, params.bot, tuple(params.keep))
        if low is not None and high is not None:
            scales = FileScales.read({"": (low, high), **scales.by_question})
    except ValueError as error:
        raise ValuesError(str(error)) from None
    if params.mapping:
        mapping = get_mapping(params.mapping)
    user: Any = request.user
    path = upload_folder() / upload_keep(file, user)
    try:
        job = upload_import(
            path=path,
            name=file.name or "",
            study=key,
            scales=scales.texts(),
            language=params.language,
            created_by=user,
            licence=params.licence,
            source=params.source,
            **mapping.as_dict(),
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Status(202, job)


@router.post(
    "/studies/{key}/scores", auth=Token(Right.RUN), response={202: JobOut, **BODY_FAILURES}, operation_id="scores_bring"
)
def scores_bring(request: HttpRequest, key: str, file: File[UploadedFile], params: Form[AskScores]) -> Any:
    """Import scores of other programs, which become metrics of a study.

    The file has the columns `id` (of a conversation, reply or item), `metric` and `value`. The job's result counts new
    and replaced values and lists skipped rows.
    """
    return Status(202, _import_scores(request, file, params, study=study_by_key(key).key))


@router.post(
    "/runs/{id}/scores", auth=Token(Right.RUN), response={202: JobOut, **BODY_FAILURES}, operation_id="run_scores_bring"
)
def run_scores_bring(request: HttpRequest, id: int, file: File[UploadedFile], params: Form[AskScores]) -> Any:
    """Import scores of other programs for a self-play run."""
    return Status(202, _import_scores(request, file, params, study="", run=get_run(id).pk))


def _import_scores(request: HttpRequest, file: UploadedFile, params: AskScores, **target: Any) -> Job:
    """Return the job that imports a file of scores."""
    user: Any = request.user
    path = upload_folder() / upload_keep(file, user)
    try:
        return upload_import(
            path=path, name=file.name or "", created_by=user, scores=True, **target, **params.model_dump()
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@router.get("/conversations/{id}", response={200: ConversationOut, **FAILURES}, operation_id="conversation")
def conversation(request: HttpRequest, id: UUID) -> Any:
    """Return a conversation with its turns, ratings, metrics, tags and notes."""
    row = conversation_reader.conversations_to_read().get(pk=id)
    link = getattr(row, "selfplay", None)
    return fields_of(
        ConversationOut,
        row,
        study=row.study.key if row.study is not None else None,
        run=link.run_id if link is not None else None,
        bot=row.bot.bot_id,
        bot_version=row.bot.key,
        partner=link.partner_bot_id if link is not None else "",
        turns=_turns(row),
        ratings=_ratings(row),
        metrics=_metrics(row),
        **fields_of(NotesOut, notes_of(row)),
    )


def conversation_page(
    rows: QuerySet[Conversation],
    searched: Searched,
    numbers: Numbers,
    *,
    bots: Collection[str],
    study: Study | None = None,
) -> dict[str, Any]:
    """Return one page of the conversations that match a query.

    Raises:
        ValuesError: the query is invalid; the message includes a valid example.
    """
    with query_errors(searched.q):
        query = parse_query(searched.q, numbers, bots=tuple(bots), study=study)
    columns = columns_read(searched.columns, numbers)
    excluded_flags = without_read(searched.without)
    if excluded_flags and study is not None:
        refresh_flags(study)
    included_rows = filter_conversations(rows, synthetic=searched.include_synthetic, excluded_flags=excluded_flags)
    listing = Listing(included_rows, query, study)
    page = page_of(listing, columns, after=_after(searched.after), size=searched.limit)
    items = [
        fields_of(
            ConversationRow,
            row.conversation,
            bot=row.conversation.bot.bot_id,
            excerpt="".join(piece.text for piece in row.excerpt),
            figures={number.name: value for number, value in row.figures if not isinstance(value, datetime)},
            tags=list(row.tags),
            is_starred=row.is_starred,
        )
        for row in page.rows
    ]
    return {"items": items, "count": page.total, "after": page.after}


def _is_finite(position: float | datetime | None) -> bool:
    return not isinstance(position, float) or math.isfinite(position)


def _after(text: str) -> str:
    """Validate and return the key of a page."""
    if text:
        key = PageKey.read(text)
        is_valid = key is not None and not timezone.is_naive(key.created_at)
        if key is None or not is_valid or not _is_finite(key.sort_value):
            raise ValuesError([Mistake("after", f"after is {quote(text)}, which is not a value from a previous page")])
    return text


def _turns(row: Conversation) -> list[dict[str, Any]]:
    reported = conversation_reader.reported_of(row)
    images = {n: fields_of(ImageOut, image, url=image_link(image)) for n, image in images_of(row).items()}
    return [
        fields_of(TurnOut, turn, reported=reported.get(turn.index, []), image=images.get(turn.index))
        for turn in Turn.objects.filter(conversation=row).order_by("index")
    ]


def _ratings(row: Conversation) -> list[dict[str, Any]]:
    return [
        fields_of(RatingOut, rating, rater=rater_of(rating.rater, rating.participant_id))
        for rating in Rating.objects.filter(conversation=row).order_by("submitted_at", "pk")
    ]


def _metrics(row: Conversation) -> list[MetricValuesOut]:
    results = conversation_reader.results_of(row)
    current = conversation_reader.current_keys()
    return [
        MetricValuesOut(
            metric=name,
            version=result.metric.version,
            is_current=result.metric.key == current.get(name),
            values=result.values,
            turns=result.turns,
            reasons={column: str(reason_text(reason)) for column, reason in result.reasons.items()},
        )
        for name, result in sorted(results.items())
    ]


LEFT: dict[int, Any] = {200: NotesOut, **FAILURES}
KEPT: dict[int, Any] = {200: list[SearchOut], **BODY_FAILURES}


@router.put("/conversations/{id}/star", response=LEFT, operation_id="star")
def star(request: HttpRequest, id: UUID) -> Any:
    """Star a conversation, visible to all readers."""
    return _set_star(request, id, True)


@router.delete("/conversations/{id}/star", response=LEFT, operation_id="star_remove")
def star_remove(request: HttpRequest, id: UUID) -> Any:
    """Remove the star of a conversation."""
    return _set_star(request, id, False)


@router.post("/conversations/{id}/tags", response={200: NotesOut, **BODY_FAILURES}, operation_id="tag_add")
def tag_add(request: HttpRequest, id: UUID, params: AskTag) -> Any:
    """Tag a conversation; an existing tag is not added again."""
    row = _get_conversation(id)
    services.tag_add(conversation=row, text=params.text, author=request.user)
    return notes_of(row)


@router.delete("/conversations/{id}/tags", response=LEFT, operation_id="tag_remove")
def tag_remove(request: HttpRequest, id: UUID, text: str) -> Any:
    """Remove the tag `text` from a conversation.

    A missing tag is not an error.
    """
    row = _get_conversation(id)
    services.tag_remove(conversation=row, text=text)
    return notes_of(row)


@router.post("/conversations/{id}/notes", response={200: NotesOut, **BODY_FAILURES}, operation_id="note_add")
def note_add(request: HttpRequest, id: UUID, params: AskNote) -> Any:
    """Add a note to a conversation.

    The same text by the same user is stored once.
    """
    row = _get_conversation(id)
    services.note_add(conversation=row, text=params.text, author=request.user)
    return notes_of(row)


@router.delete("/conversations/{id}/notes/{note}", response=LEFT, operation_id="note_remove")
def note_remove(request: HttpRequest, id: UUID, note: int) -> Any:
    """Remove a note or tag of a conversation by id.

    A missing one is not an error.
    """
    row = _get_conversation(id)
    services.note_remove(conversation=row, pk=note)
    return notes_of(row)


@router.get("/studies/{key}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="searches")
def searches(request: HttpRequest, key: str) -> Any:
    """List the user's saved searches of a study."""
    return _list_searches(request, _search_study(key))


@router.post("/studies/{key}/searches", response=KEPT, operation_id="search_keep")
def search_keep(request: HttpRequest, key: str, params: AskSearch) -> Any:
    """Save a search under a name.

    An existing one with this name is replaced.
    """
    return _keep_search(request, _search_study(key), params)


@router.delete("/studies/{key}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="search_forget")
def search_forget(request: HttpRequest, key: str, name: str) -> Any:
    """Delete a saved search; a missing one is not an error."""
    return _forget_search(request, _search_study(key), name)


@router.get("/runs/{id}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="run_searches")
def run_searches(request: HttpRequest, id: int) -> Any:
    """List the user's saved searches of a self-play run."""
    return _list_searches(request, _search_run(id))


@router.post("/runs/{id}/searches", response=KEPT, operation_id="run_search_keep")
def run_search_keep(request: HttpRequest, id: int, params: AskSearch) -> Any:
    """Save a search of a self-play run under a name.

    An existing one is replaced.
    """
    return _keep_search(request, _search_run(id), params)


@router.delete("/runs/{id}/searches", response={200: list[SearchOut], **FAILURES}, operation_id="run_search_forget")
def run_search_forget(request: HttpRequest, id: int, name: str) -> Any:
    """Delete a saved search of a self-play run.

    A missing one is not an error.
    """
    return _forget_search(request, _search_run(id), name)


def _set_star(request: HttpRequest, id: UUID, is_starred: bool) -> Notes:
    row = _get_conversation(id)
    services.star_set(conversation=row, is_starred=is_starred, author=request.user)
    return notes_of(row)


def _get_conversation(id: UUID) -> Conversation:
    return conversations_to_read().get(pk=id)


@dataclass(frozen=True, slots=True)
class _Searched:
    """Source of a search: a study or run, with numbers and bots."""

    source: Source
    numbers: Numbers
    bots: tuple[str, ...]

    @property
    def study(self) -> Study | None:
        """Return the study, or None for a run."""
        return self.source if isinstance(self.source, Study) else None


def _search_study(key: str) -> _Searched:
    study = study_by_key(key)
    return _Searched(study, study_numbers(study), tuple(study_bots(study)))


def _search_run(id: int) -> _Searched:
    run = get_run(id)
    return _Searched(run, Numbers([]), tuple(run.plan.get("bots", [])))


def _list_searches(request: HttpRequest, searched: _Searched) -> list[Saved]:
    return saved_searches(searched.source, request.user, searched.numbers, searched.bots)


def _keep_search(request: HttpRequest, searched: _Searched, params: AskSearch) -> list[Saved]:
    with query_errors(params.q):
        parse_query(params.q, searched.numbers, bots=searched.bots, study=searched.study)
    columns = ",".join(number.name for number in columns_read(params.columns, searched.numbers))
    services.search_save(source=searched.source, owner=request.user, name=params.name, line=params.q, columns=columns)
    return _list_searches(request, searched)


def _forget_search(request: HttpRequest, searched: _Searched, name: str) -> list[Saved]:
    services.search_forget(source=searched.source, owner=request.user, name=name)
    return _list_searches(request, searched)
