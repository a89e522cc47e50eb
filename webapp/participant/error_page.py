"""Error page for participants.

It shows the saved data, how to continue, and a reference to the log.

It shows the data already saved, how to continue, and a reference to the log.
"""

from __future__ import annotations

import logging
import sys
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation

from webapp.conversations.models import Conversation, Turn
from webapp.core.language import locale_for
from webapp.core.logs import route_of
from webapp.core.pages import reference_of
from webapp.core.pages import server_error as plain_error
from webapp.participant.access import is_here, known_of, visit_of
from webapp.ratings.rating_tasks import requested_ratings
from webapp.studies.models import Breakage, Task
from webapp.studies.selectors import task_for

logger = logging.getLogger(__name__)


def server_error(request: HttpRequest) -> HttpResponse:
    """Respond with status 500 and a page about saved data.

    Without a task, the plain page is shown.

    The error is stored with the task, so that researchers who decide about pay know that it was our fault.
    """
    error = sys.exc_info()[1]
    if isinstance(error, (OperationalError, InterfaceError)):
        return plain_error(request)
    try:
        task = _task_of(request)
        if task is None:
            return plain_error(request)
        return _page(request, task, error)
    except (DatabaseError, ValidationError, ValueError, LookupError, AssertionError):
        # The error that broke the page can break this one as well.
        logger.exception("cannot generate the page for a server error at %s", route_of(request))
        return plain_error(request)


def _task_of(request: HttpRequest) -> Task | None:
    """Return the task whose page its participant requested."""
    match = request.resolver_match
    if match is None or match.app_name != "participant" or not hasattr(request, "session"):
        return None
    known = known_of(request.session, visit_of(request).token)
    task_id, chat_id = match.kwargs.get("task_id"), match.kwargs.get("conversation_id")
    if chat_id is not None:
        chat = Conversation.objects.filter(pk=chat_id).select_related("slot__task").first()
        task_id = chat.task.public_id if chat is not None and chat.task is not None else None
    if not isinstance(task_id, UUID):
        return None
    task = task_for(known, task_id)
    return task if task is not None and is_here(known, task.participant) else None


def _page(request: HttpRequest, task: Task, error: BaseException | None) -> HttpResponse:
    reference = reference_of(request)
    logger.error("server error %s at %s, task %s", reference, route_of(request), task.pk, exc_info=error)
    Breakage.objects.create(participant=task.participant, task=task, reference=reference)
    texts = task.version.values.texts
    context: dict[str, Any] = {
        "reference": reference,
        "contact": texts.contact,
        "subject": quote(f"{texts.title}: {reference}"),
        "messages": visit_of(request).link("messages", task.participant.study.key),
        "again": visit_of(request).link("elsewhere-back", task.public_id),
        **_saved(task),
    }
    with translation.override(locale_for(request)):
        return render(request, "participant/broken.html", context, status=500)


def _saved(task: Task) -> dict[str, int]:
    """Return the numbers of saved items and chat messages."""
    n_judged = 0
    for judgement in requested_ratings(task):
        if judgement.rating is None:
            break
        n_judged += 1
    messages = Turn.objects.filter(conversation__slot__task=task, speaker=Turn.Speaker.HUMAN)
    return {"n_judged": n_judged, "n_messages": messages.count()}
