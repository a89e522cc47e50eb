"""Actions on selected conversations: have people judge them, exclude them, and add a note.

The selection is the ticked rows of the list, or all conversations that the list shows if none is ticked.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from chatbots.validation import ValuesError
from webapp.conversations.models import Conversation
from webapp.conversations.services.exclusion import conversations_exclude, conversations_include
from webapp.core.audit_trail import CHATS_EXCLUDE, CHATS_INCLUDE, record
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.rights import Right
from webapp.dashboard.conversation_list import Gathered, gathered
from webapp.dashboard.navigation import post_view
from webapp.dashboard.views.notes import back_to
from webapp.jobs.models import SelfPlayRun
from webapp.search.selectors import ids_among
from webapp.search.services import notes_add
from webapp.studies.lifecycle import judging_study_create
from webapp.studies.marking_settings import MOST_CHOSEN
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols

UNDO = "excluded_chats"
"""Key in the session of the conversations that were excluded last, with the page where this can be undone."""


def selected_ids(request: HttpRequest, collection: Gathered) -> list[UUID]:
    """Return the selected conversations in the order of the list, `MOST_CHOSEN` at most.

    Raises:
        Refused: the search is invalid, or nothing is selected.
    """
    bench = collection.bench(request.POST)
    if bench.wrong is not None:
        raise Refused("line", bench.wrong.reason)
    ticked = [pk for text in request.POST.getlist("chat") if (pk := _uuid(text)) is not None]
    if ticked:
        rows = ids_among(collection.rows, ticked[:MOST_CHOSEN])
    else:
        rows = [row.pk for row in bench.listing(collection.rows).take(None, MOST_CHOSEN)]
    if not rows:
        raise Refused("selection", "No conversation is selected.")
    return rows


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


@post_view(Right.ADMINISTER)
def study_judge(request: HttpRequest, study: Study) -> HttpResponse:
    """Make the draft of a study in which people judge the selected conversations of a study."""
    language = study.values.texts.language
    return _judge(request, gathered(study), study.name, language, of_study=study.key)


@post_view(Right.ADMINISTER)
def run_judge(request: HttpRequest, run_id: int) -> HttpResponse:
    """Make the draft of a study in which people judge the selected conversations of a run."""
    run = get_object_or_404(SelfPlayRun, pk=run_id)
    return _judge(request, gathered(run), run.title, "en", of_run=run.pk)


def _judge(request: HttpRequest, collection: Gathered, source: str, language: str, **of: Any) -> HttpResponse:
    name = request.POST.get("protocol", "")
    try:
        if name not in protocols or not protocols.get(name).judges_conversations:
            raise Refused("protocol", f"“{name}” is not a way to judge stored conversations.")
        chats = selected_ids(request, collection)
        study = judging_study_create(
            protocol=name,
            name=f"Judge: {source}",
            chats=chats,
            language=language,
            author=request.user.get_username(),
            **of,
        )
    except (Refused, ValuesError) as error:
        messages.error(request, f"No study was made: {error}")
        return back_to(request, collection.address())
    n = plural(len(chats), "1 conversation", "%(n)d conversations") % {"n": len(chats)}
    messages.success(request, f"This draft asks people to judge {n}. Check the questions, then open it.")
    return redirect("dashboard:study_build_step", study.key, "questions")


@post_view(Right.ADMINISTER)
def study_exclude(request: HttpRequest, study: Study) -> HttpResponse:
    """Exclude the selected conversations of a study from all results, or include them again."""
    return _exclude(request, study)


@post_view(Right.ADMINISTER)
def run_exclude(request: HttpRequest, run_id: int) -> HttpResponse:
    """Exclude the selected conversations of a run from all results, or include them again."""
    return _exclude(request, get_object_or_404(SelfPlayRun, pk=run_id))


def _exclude(request: HttpRequest, source: Study | SelfPlayRun) -> HttpResponse:
    collection = gathered(source)
    action, undo = request.POST.get("what", ""), request.session.get(UNDO, {})
    try:
        if action == "undo" and undo.get("page") == collection.address():
            ids = ids_among(collection.rows, list(map(UUID, undo["chats"])))
        else:
            ids = selected_ids(request, collection)
    except Refused as error:
        messages.error(request, str(error))
        return back_to(request, collection.address())
    request.session.pop(UNDO, None)
    if action == "exclude":
        completed = ids_among(collection.rows, ids, Conversation.State.COMPLETED)
        n = conversations_exclude(ids=completed)
        if n:
            record(CHATS_EXCLUDE, source, conversations=n)
            notes_add(chats=completed, text="Excluded from all results.", author=request.user)
            request.session[UNDO] = {"page": collection.address(), "chats": list(map(str, completed))}
        if n < len(ids):
            rest = plural(
                len(ids) - n,
                "1 chat was not completed, so no result included it.",
                "%(n)d chats were not completed, so no result included them.",
            )
            messages.info(request, rest % {"n": len(ids) - n})
    else:
        n = conversations_include(ids=ids)
        record(CHATS_INCLUDE, source, conversations=n)
        notes_add(chats=ids if n else [], text="Included in all results again.", author=request.user)
        included = plural(n, "1 conversation is", "%(n)d conversations are") % {"n": n}
        messages.success(request, f"{included} included in all results again.")
    return back_to(request, collection.address())


@post_view()
def study_note(request: HttpRequest, study: Study) -> HttpResponse:
    """Add a note to the selected conversations of a study."""
    return _note(request, gathered(study))


@post_view()
def run_note(request: HttpRequest, run_id: int) -> HttpResponse:
    """Add a note to the selected conversations of a run."""
    return _note(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _note(request: HttpRequest, collection: Gathered) -> HttpResponse:
    try:
        ids = selected_ids(request, collection)
        notes_add(chats=ids, text=request.POST.get("text", ""), author=request.user)
    except Refused as error:
        messages.error(request, str(error))
    else:
        n = plural(len(ids), "1 conversation", "%(n)d conversations") % {"n": len(ids)}
        messages.success(request, f"The note was added to {n}.")
    return back_to(request, collection.address())


def undo_count(request: HttpRequest, collection: Gathered) -> int:
    """Return the number of conversations that were just excluded on this page; 0 for none."""
    undo = request.session.get(UNDO, {})
    return len(undo["chats"]) if undo.get("page") == collection.address() else 0
