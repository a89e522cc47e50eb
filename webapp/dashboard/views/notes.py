"""Readers' notes, stars, tags and saved searches."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from webapp.conversations.images import image_withhold
from webapp.core.errors import Refused
from webapp.dashboard.conversation_list import Gathered, Workbench, gathered
from webapp.dashboard.navigation import post_view
from webapp.insights.conversation_reader import conversations_to_read
from webapp.jobs.models import SelfPlayRun
from webapp.search import services
from webapp.search.fields import QueryTerm
from webapp.search.selectors import MOST_TAGS, notes_in, stars_of, tags_of
from webapp.studies.models import Study


def back_to(request: HttpRequest, otherwise: str) -> HttpResponse:
    """Return to the page that the form names, or to another one if it is not ours."""
    address = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, request.is_secure())
    return redirect(address if address.startswith("/") and is_ours else otherwise)


def _number(values: QueryDict, name: str) -> int:
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


@post_view()
def conversation_note(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Star, tag or annotate a conversation, undo this, or hide an image.

    Then return to the page that it was read on.
    """
    row = get_object_or_404(conversations_to_read(), pk=conversation_id)
    action, text = request.POST.get("what", ""), request.POST.get("text", "")
    try:
        if action in ("star", "unstar"):
            services.star_set(conversation=row, is_starred=action == "star", author=request.user)
        elif action == "tag":
            services.tag_add(conversation=row, text=text, author=request.user)
        elif action == "note":
            services.note_add(conversation=row, text=text, author=request.user)
        elif action == "remove":
            services.note_remove(conversation=row, pk=_number(request.POST, "note"))
        elif action in ("withhold_image", "show_image"):
            index, name = _number(request.POST, "turn"), request.user.get_username()
            image_withhold(conversation=row, index=index, user_name=name if action == "withhold_image" else "")
    except Refused as error:
        messages.error(request, str(error))
    return back_to(request, reverse("dashboard:conversation", args=[row.pk]))


@post_view()
def study_keep(request: HttpRequest, study: Study) -> HttpResponse:
    """Save a named search of a study, or delete one."""
    return _keep_search(request, gathered(study))


@post_view()
def run_keep(request: HttpRequest, run_id: int) -> HttpResponse:
    """Save a named search of a self-play run, or delete one."""
    return _keep_search(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _keep_search(request: HttpRequest, collection: Gathered) -> HttpResponse:
    source, owner = collection.source, request.user
    try:
        if request.POST.get("what") == "forget":
            services.search_forget(source=source, owner=owner, name=request.POST.get("name", ""))
        else:
            saved_search = services.search_save(
                source=source,
                owner=owner,
                name=request.POST.get("name", ""),
                line=request.POST.get("q", ""),
                columns=request.POST.get("columns", ""),
            )
            messages.success(request, f"The search was saved as “{saved_search.name}”.")
    except Refused as error:
        messages.error(request, str(error))
    return back_to(request, collection.address())


def noted_context(request: HttpRequest, collection: Gathered, bench: Workbench) -> dict[str, Any]:
    """Return tags with counts and some notes, with their searches."""
    rows, listed = collection.get_counted_rows(bench), collection.address()
    after, before = request.GET.get("tags", "").replace("\x00", ""), request.GET.get("before", "")
    tags = tags_of(rows, after=after, limit=MOST_TAGS + 1)
    further_tags, tags = tags[MOST_TAGS:], tags[:MOST_TAGS]
    notes = notes_in(rows, before=_number(request.GET, "before"))
    return {
        "noted_tags": [(tag, listed + bench.address(q=str(QueryTerm(tag.text, "tag", ":")))) for tag in tags],
        "next_tags": bench.address(notes="1", tags=tags[-1].text, before=before) if further_tags else "",
        "first_tags": bench.address(notes="1", before=before) if after else "",
        "n_starred": stars_of(rows),
        "starred": listed + bench.address(q="is:starred"),
        "notes": [
            (
                note,
                collection.bots.get(note.conversation.bot.bot_id),
                listed + bench.address(q="is:noted", chat=str(note.conversation_id)),
            )
            for note in notes.notes
        ],
        "n_notes": notes.total,
        "next_notes": bench.address(notes="1", before=str(notes.before), tags=after) if notes.before else "",
        "first_notes": bench.address(notes="1", tags=after) if before else "",
    }
