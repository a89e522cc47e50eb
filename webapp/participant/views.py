"""Participants' views other than steps: start page and buttons."""

from __future__ import annotations

import logging
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from webapp.conversations.attention_checks import chat_check_answer
from webapp.conversations.events import publish_end
from webapp.conversations.images import MOST_BYTES, image_link, image_store
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import task_chat_ids
from webapp.conversations.services import (
    conversation_finish_failed,
    conversation_swap,
    conversation_withdraw,
    pair_finish_failed,
    pair_swap,
)
from webapp.core.errors import Refused
from webapp.core.language import locale_for
from webapp.core.pages import not_found
from webapp.participant.access import (
    ParticipantRequest,
    conversation_page,
    has_cookies,
    participant_remember,
    study_page,
    task_page,
)
from webapp.participant.entry import EntryRequest
from webapp.participant.recruitment_links import Recruitment, recruitment_read, recruitment_unsign
from webapp.participant.selectors import has_left
from webapp.participant.services import CHANGED, NOT_AGREED, NOT_NOTED, PREVIEW, consent_decline, task_begin
from webapp.participant.steps.base import standing_of, to_next_step
from webapp.participant.steps.before_task import entry_page
from webapp.ratings.turn_annotation import chat_end_to_mark
from webapp.studies.assignment.counterbalance import pair_of_slot
from webapp.studies.models import Study, Task
from webapp.studies.protocols.base import get_protocol
from webapp.studies.recruitment.links import (
    SCRIPT_FAILED,
    SCRIPT_FAILED_IN_CHAT,
    link_opened,
    moved_here,
    translation_note,
)
from webapp.studies.selectors import participant_token, study_by_key

logger = logging.getLogger(__name__)

_CHANGED_ON_WAY = gettext_lazy("This page was altered before it reached you. Open your link again.")


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Render the start page.

    It lists no studies: participants reach them by their links.
    """
    with translation.override(locale_for(request)):
        return render(request, "participant/index.html")


@require_POST
@study_page
def start(request: HttpRequest, study: Study, visit: ParticipantRequest) -> HttpResponse:
    """Open a task for a participant who has consented.

    Or return to the open one.
    """
    arrival, page = _arrived(request, study, visit)
    if page is not None:
        return page
    # A platform pays for one chat per visit.
    ended = arrival.ended_page(may_agree=True) if arrival.recruitment.submission else None
    if ended is not None:
        return ended
    try:
        task = task_begin(
            study=study,
            recruitment=arrival.recruitment,
            agreed=request.POST.get("consent") == "on",
            participant=arrival.participant,
            is_theirs=arrival.is_theirs,
            by_token=visit.participant is not None,
            choice=request.POST.get("_chatbot", ""),
            noted=request.POST.get("notice") == "on",
        )
    except Refused as refused:
        return _not_begun(arrival, refused)
    return _onward(request, task, visit)


@require_POST
@study_page
def decline(request: HttpRequest, study: Study, visit: ParticipantRequest) -> HttpResponse:
    """Record that a visitor declines, and show the outcome of this visit."""
    arrival, page = _arrived(request, study, visit)
    if page is not None:
        return page
    try:
        task = consent_decline(
            study=study, recruitment=arrival.recruitment, participant=arrival.participant, is_theirs=arrival.is_theirs
        )
    except Refused as refused:
        return _not_begun(arrival, refused)
    return _onward(request, task, visit)


def _arrived(request: HttpRequest, study: Study, visit: ParticipantRequest) -> tuple[EntryRequest, HttpResponse | None]:
    """Return the entry form's request.

    If the form is not accepted, also a page to show instead.
    """
    field = request.POST.get("_entry", "")
    # Scripts that post without reading the form name the parameters in the address.
    recruitment = recruitment_unsign(study, field) if field else recruitment_read(study, request.GET)
    arrival = EntryRequest(request, study, visit, recruitment or Recruitment())
    if recruitment is None:
        return arrival, entry_page(arrival, page_error=_CHANGED_ON_WAY)
    return arrival, arrival.moved_page()


def _onward(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Redirect a task's participant to their next page.

    They are identified by a cookie or otherwise by a token.
    """
    participant = task.participant
    if has_cookies(request):
        if has_left(request.session, participant):
            moved_here(participant=participant)
        participant_remember(request.session, participant)
    elif not visit.token:
        visit = ParticipantRequest(participant_token(participant), participant)
    return to_next_step(standing_of(task), visit)


def _not_begun(arrival: EntryRequest, refused: Refused) -> HttpResponse:
    """Return the entry page with errors, or the page with the refusal."""
    if refused.code == PREVIEW:
        return entry_page(arrival)
    if refused.code in (CHANGED, "choice_gone"):
        return entry_page(arrival, page_error=refused.message)
    if refused.code == NOT_AGREED:
        return entry_page(arrival, consent_error=refused.message)
    if refused.code == NOT_NOTED:
        return entry_page(arrival, notice_error=refused.message)
    return arrival.refused_page(refused)


@csrf_exempt  # sent by a classic script, even without cookies; it only increments a counter
@require_POST
def script_failed(request: HttpRequest, study_key: str) -> HttpResponse:
    """Count a page whose scripts could not be loaded or parsed."""
    try:
        study = study_by_key(study_key)
    except Study.DoesNotExist:
        return not_found(request)
    code = SCRIPT_FAILED_IN_CHAT if request.GET.get("at") == "chat" else SCRIPT_FAILED
    link_opened(study=study, is_synthetic=False, refused=code)
    return HttpResponse(status=204)


@require_POST
@task_page
def translated(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Record that the participant's browser translated a page of the task."""
    translation_note(task=task)
    return HttpResponse(status=204)


@require_POST
@conversation_page
def answer(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """Store the answer to the question in the chat, and return to the chat."""
    try:
        chat_check_answer(
            conversation=conversation, check=request.POST.get("_check", ""), answer=request.POST.get("answer", "")
        )
    except Refused as refused:
        if refused.code == "bad_answers":
            return _back(conversation, visit, note="check_due")
    return _back(conversation, visit)


_IMAGE_STATUSES = {"image_too_large": 413, "closed": 409, "too_fast": 429, "unavailable": 503}


@require_POST
@conversation_page
def image(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """Store an image for the next message, and return its id."""
    file = request.FILES.get("image")
    try:
        client_id = UUID(request.POST.get("client_id", ""))
    except ValueError:
        client_id = None
    if not isinstance(file, UploadedFile) or client_id is None:
        error_text = "Send the file as `image`, and a UUID as `client_id`."
        return JsonResponse({"code": "bad_image", "message": error_text}, status=400)
    try:
        stored = image_store(conversation=conversation, client_id=client_id, data=file.read(MOST_BYTES + 1))
    except Refused as refused:
        error_body = {"code": refused.code, "message": refused.message}
        return JsonResponse(error_body, status=_IMAGE_STATUSES.get(refused.code, 400))
    image_body = {"id": str(stored.pk), "url": image_link(stored), "width": stored.width, "height": stored.height}
    return JsonResponse(image_body, status=201)


@require_POST
@conversation_page
def end(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """End the chat at the participant's request.

    Continue with labelling its replies.
    """
    progress = standing_of(conversation)
    if not get_protocol(progress.study).marks_own_chats:
        return to_next_step(progress, visit)
    assert progress.participant is not None, f"chat {conversation.pk} without a participant"
    try:
        chat_end_to_mark(conversation=conversation, participant=progress.participant)
    except Refused as refused:
        return _back(conversation, visit, note=refused.code)
    return _back(conversation, visit)


@require_POST
@conversation_page
def swap(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """Continue with another chatbot after a failure.

    In an arena, with another pair.
    """
    pair = pair_of_slot(conversation.slot) if conversation.slot else None
    try:
        if pair is not None:
            pair_swap(slots=pair)
            return _back(conversation, visit)
        return redirect(visit.link("chat", conversation_swap(conversation=conversation).pk))
    except Refused as refused:
        return _after_refusal(conversation, visit, refused)


@require_POST
@conversation_page
def finish(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """End the task with credit and without a rating after a failure."""
    pair = pair_of_slot(conversation.slot) if conversation.slot else None
    try:
        if pair is not None:
            pair_finish_failed(slots=pair)
        else:
            conversation_finish_failed(conversation=conversation)
    except Refused as refused:
        return _after_refusal(conversation, visit, refused)
    return redirect(visit.link("done", conversation.pk))


@require_POST
@conversation_page
def withdraw(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """Delete the chat's texts at the participant's request."""
    try:
        conversation_withdraw(conversation=conversation)
    except Refused as refused:
        return _after_refusal(conversation, visit, refused)
    publish_end(task_chat_ids(conversation))
    return redirect(visit.link("done", conversation.pk))


def _after_refusal(conversation: Conversation, visit: ParticipantRequest, refused: Refused) -> HttpResponse:
    """Log the refusal and redirect to the chat with it.

    If the chat is over, redirect to the next step.
    """
    conversation.refresh_from_db()
    if conversation.state == Conversation.State.OPEN:
        key = conversation.study.key if conversation.study is not None else ""
        whose = conversation.participant_id
        logger.info("study %s refused participant %s: %s", key, whose, refused.code)
    return _back(conversation, visit, note=refused.code)


def _back(conversation: Conversation, visit: ParticipantRequest, *, note: str = "") -> HttpResponse:
    """Redirect to the chat with a note.

    If the chat is over, redirect to the next step.
    """
    conversation.refresh_from_db()
    progress = standing_of(conversation)
    return to_next_step(progress, visit, note=note if progress.is_chat_open else "")
