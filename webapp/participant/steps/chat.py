"""The chat; its messages come by the socket."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from webapp.conversations.chat_checks import chat_check_answer
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import chat_turn
from webapp.core.errors import Refused
from webapp.participant.access import Visit, conversation_page
from webapp.participant.asides import aside_shown
from webapp.participant.presentation import chat_notes, place_held_until, study_texts, way_at
from webapp.participant.reporting import report_shown, turns_reported
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_in,
    step_before,
    to_next_step,
)
from webapp.participant.wording import chat_words, marked_words
from webapp.ratings.marks import chat_end_to_mark, marks_asked
from webapp.studies.selectors import marks_own_chats


@register_step
class Chat:
    """Talk to the bot of the task. It ends with the rating, or by one of the ways out."""

    name = "chat"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.conversation is not None

    def is_completed(self, standing: Standing) -> bool:
        return standing.chat_is_over

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.conversation is not None
        return visit.link("chat", standing.conversation.pk)


@require_safe
@conversation_page
def chat(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """Show the chat while it is open."""
    standing = standing_in(conversation)
    if not is_on_way(standing, "chat") or standing.chat_is_over or step_before("chat", standing):
        return to_next_step(standing, visit)
    study, version = standing.study, standing.version
    marked = marks_own_chats(study)
    marks = marks_asked(conversation)
    context = {
        **study_texts(study, version),
        "visit": visit,
        "conversation": conversation,
        "marked": marked,
        "marks": marks,
        "rate_url": visit.link("end" if marked else "rate", conversation.pk),
        "words": marked_words(version) if marked else chat_words(version),
        "note": chat_notes(version).get(request.GET.get("note", "")),
        "held_until": place_held_until(conversation),
        "n_segments": range(min(version.values.chat.min_exchanges, 20)),
        "turn": chat_turn(conversation),
        **aside_shown([conversation], version),
        "way": way_at(study, "chat"),
        **report_shown(version, visit.link("chat-report", conversation.pk)),
        "reported": turns_reported(conversation),
    }
    return render(request, "participant/chat.html", context)


@require_POST
@conversation_page
def answer(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """Take the answer to the researchers' question in the chat, and lead back to it."""
    note = ""
    try:
        chat_check_answer(
            conversation=conversation,
            check=request.POST.get("_check", ""),
            answer=request.POST.get("answer", ""),
        )
    except Refused as refused:
        note = "check_due" if refused.code == "bad_answers" else ""
    conversation.refresh_from_db()
    if conversation.state != Conversation.State.OPEN:
        return to_next_step(standing_in(conversation), visit)
    slot, task = conversation.slot, conversation.task
    if slot is not None and slot.side and task is not None:
        return redirect(visit.link("arena", task.public_id, note=note))
    return redirect(visit.link("chat", conversation.pk, note=note))


@require_POST
@conversation_page
def end(request: HttpRequest, conversation: Conversation, visit: Visit) -> HttpResponse:
    """End the chat at its person's wish, and lead on to the marking of its replies."""
    standing = standing_in(conversation)
    if not marks_own_chats(standing.study):
        return to_next_step(standing, visit)
    assert standing.participant is not None, f"chat {conversation.pk} without a participant"
    try:
        chat_end_to_mark(conversation=conversation, participant=standing.participant)
    except Refused as refused:
        if refused.code in ("too_early", "waiting_for_reply", "check_due"):
            return redirect(visit.link("chat", conversation.pk, note=refused.code))
    conversation.refresh_from_db()
    return to_next_step(standing_in(conversation), visit)
