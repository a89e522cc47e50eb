"""Chat steps: the chat, its rating form, and the arena.

Messages come by the sockets of `consumers.py`, one for each conversation.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.conversations.attention_checks import chat_check_answer, chat_check_due
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import can_rate, chat_turn, turns_of
from webapp.core.errors import Refused
from webapp.participant.access import ParticipantRequest, conversation_page, task_page
from webapp.participant.page_texts import (
    arena_notes,
    arena_words,
    chat_notes,
    chat_words,
    header_progress,
    marked_words,
    place_held_until,
    study_texts,
)
from webapp.participant.question_view import (
    RatingForm,
    mid_chat_question,
    questions_after_task,
    questions_shown,
    right_of,
)
from webapp.participant.reply_reports import report_address, report_shown, turns_reported
from webapp.participant.selectors import chats_by_slot
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_in,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.ratings.rating_tasks import RequestedRating, check_place, requested_ratings
from webapp.ratings.services import (
    COMPARISON_CHOICES,
    WAITS_FOR_REPLY,
    comparison_submit,
    rating_draft_store,
    rating_submit,
)
from webapp.ratings.turn_annotation import annotation_request, chat_end_to_mark
from webapp.results.refresh import order_refresh_for_rule
from webapp.studies.models import Slot, Task
from webapp.studies.selectors import marks_own_chats


@register_step
class ChatStep:
    """Talk to the bot of the task. It ends with the rating, or by one of the ways out."""

    name = "chat"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.conversation is not None

    def is_completed(self, standing: Standing) -> bool:
        return standing.chat_is_over

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.conversation is not None
        return visit.link("chat", standing.conversation.pk)


@require_safe
@conversation_page
def chat(
    request: HttpRequest, conversation: Conversation, visit: ParticipantRequest
) -> HttpResponse:
    """Show the chat while it is open."""
    standing = standing_in(conversation)
    if not is_on_way(standing, "chat") or standing.chat_is_over or step_before("chat", standing):
        return to_next_step(standing, visit)
    study, version = standing.study, standing.version
    marked = marks_own_chats(study)
    marks = annotation_request(conversation)
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
        **mid_chat_question([conversation], version),
        "way": header_progress(study, "chat"),
        **report_shown(version, visit.link("chat-report", conversation.pk)),
        "reported": turns_reported(conversation),
    }
    return render(request, "participant/chat.html", context)


@require_POST
@conversation_page
def answer(
    request: HttpRequest, conversation: Conversation, visit: ParticipantRequest
) -> HttpResponse:
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
def end(
    request: HttpRequest, conversation: Conversation, visit: ParticipantRequest
) -> HttpResponse:
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


_CHECK = "check"  # note in an address whose form shows errors


@register_step
class RatingFormStep:
    """Rate the chat. Saving the answers also closes it, so an open chat alone has this step ahead."""

    name = "form"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.conversation is not None

    def is_completed(self, standing: Standing) -> bool:
        return standing.chat_is_over

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.conversation is not None
        return visit.link("rate", standing.conversation.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@conversation_page
def rate(
    request: HttpRequest, conversation: Conversation, visit: ParticipantRequest
) -> HttpResponse:
    """Show the form, or store its answers."""
    standing = standing_in(conversation)
    if not is_on_way(standing, "form") or standing.chat_is_over or step_before("chat", standing):
        return to_next_step(standing, visit)
    study, version = standing.study, standing.version
    assert standing.participant is not None, f"chat {conversation.pk} without a participant"
    asked = questions_after_task(standing.participant, version)
    is_early = conversation.n_exchanges < version.values.chat.min_exchanges
    is_waiting = not can_rate(conversation)
    if chat_check_due(conversation, version):
        return redirect(visit.link("chat", conversation.pk, note="check_due"))
    if is_early or (is_waiting and request.method != "POST" and not conversation.rating_draft):
        note = "too_early" if is_early else "waiting_for_reply"
        return redirect(visit.link("chat", conversation.pk, note=note))
    if request.method == "POST":
        return _rate(conversation, visit, RatingForm(asked, request.POST))
    # What was sent before and could not be taken is still there, on every way to this page.
    is_checked = request.GET.get("note") == _CHECK
    sent = conversation.rating_draft if conversation.rating_draft or is_checked else None
    form = RatingForm(asked, sent, show_errors=is_checked)
    if is_checked and form.is_valid() and is_waiting:
        form.refuse({"": str(WAITS_FOR_REPLY)})
    reports = visit.link("chat-report", conversation.pk)
    reported = turns_reported(conversation)
    context = {
        **study_texts(study, version),
        "visit": visit,
        "conversation": conversation,
        "turns": [
            {
                **one,
                "report_url": report_address(reports, turn=one["turn"]),
                "is_reported": one["turn"] in reported,
            }
            for one in turns_of(conversation.pk)
        ],
        **report_shown(version, reports),
        "chat_url": visit.link("chat", conversation.pk),
        "form": form,
        "n_questions": len(asked),
        **questions_shown(form.questions()),
        "passing": right_of(standing.participant, form.questions()),
        "turn": chat_turn(conversation),
        "way": header_progress(study, "form"),
    }
    return render(request, "participant/rate.html", context)


def _rate(conversation: Conversation, visit: ParticipantRequest, form: RatingForm) -> HttpResponse:
    """Store the rating, or keep invalid answers and redirect to the form, which shows the errors.

    A response to a POST cannot be reloaded or gone back to without sending the form again; the page after a
    redirect can.
    """
    assert conversation.participant is not None, f"chat {conversation.pk} without a participant"
    try:
        if not form.is_valid():
            raise Refused("bad_answers", _("Some answers are missing."))
        rating_submit(
            conversation=conversation,
            participant=conversation.participant,
            answers=form.answers,
            comment=form.cleaned_data["comments"],
        )
    except Refused as refused:
        if refused.code in ("bad_answers", "waiting_for_reply"):
            rating_draft_store(conversation=conversation, values=form.typed)
            return redirect(visit.link("rate", conversation.pk, note=_CHECK))
        conversation.refresh_from_db()
        return to_next_step(standing_in(conversation), visit)
    assert conversation.study is not None
    if not conversation.is_synthetic:
        order_refresh_for_rule(conversation.study)
    return redirect(visit.link("done", conversation.pk))


_MOST_SEGMENTS = 12


@register_step
class ArenaStep:
    """Talk to the two chatbots of each pair and choose; every choice is stored as it is made."""

    name = "arena"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is not None

    def is_completed(self, standing: Standing) -> bool:
        assert standing.task is not None
        return standing.task.state != Task.State.OPEN

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.task is not None
        return visit.link("arena", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def arena(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Show the pair that is compared now, or take the choice between its two."""
    standing = standing_of(task)
    if not is_on_way(standing, ArenaStep.name) or step_before(ArenaStep.name, standing):
        return to_next_step(standing, visit)
    judgements = requested_ratings(task)
    unrated = [n for n, one in enumerate(judgements, start=1) if one.rating is None]
    if task.state != Task.State.OPEN or not unrated:
        return to_next_step(standing, visit)
    n = unrated[0]
    slots = _pair(judgements[n - 1])
    form = _besides(request, task, judgements, n)
    if request.method != "POST":
        return _page(request, task, visit, judgements, n, slots, form)
    here = visit.link("arena", task.public_id)
    if request.POST.get("_n") != str(n):  # sent twice, or from an older page
        return redirect(here)
    choice = request.POST.get("choice", "")
    if choice in COMPARISON_CHOICES and not form.is_valid():
        return _page(request, task, visit, judgements, n, slots, form)
    try:
        comparison_submit(task=task, slots=slots, choice=choice, besides=form.answers)
    except Refused as refused:
        task.refresh_from_db()
        if task.state != Task.State.OPEN or refused.code == "closed":
            return to_next_step(standing_of(task), visit)
        return redirect(visit.link("arena", task.public_id, note=refused.code))
    order_refresh_for_rule(task.participant.study)
    task.refresh_from_db()
    return to_next_step(standing_of(task), visit)


def _besides(
    request: HttpRequest, task: Task, judgements: list[RequestedRating], n: int
) -> RatingForm:
    """Return the form of questions besides the choice; attention checks stand at one pair of the task."""
    questions = [
        one for one in questions_after_task(task.participant, task.version) if not one.is_rated
    ]
    if check_place(task, judgements) != n - 1:
        questions = [one for one in questions if not one.is_check]
    return RatingForm(questions, request.POST if request.method == "POST" else None)


def _pair(judgement: RequestedRating) -> tuple[Slot, Slot]:
    first, second = judgement.slots
    return first, second


def _page(
    request: HttpRequest,
    task: Task,
    visit: ParticipantRequest,
    judgements: list[RequestedRating],
    n: int,
    slots: tuple[Slot, Slot],
    form: RatingForm,
) -> HttpResponse:
    study, version = task.participant.study, task.version
    others = form.questions()
    wrong = [one for one in others if one.errors]
    chats = chats_by_slot(slots)
    sides = [(slot.side, chats[slot.pk]) for slot in slots]
    reports = [visit.link("chat-report", chat.pk) for _side, chat in sides]
    is_few = len(judgements) <= _MOST_SEGMENTS
    context = {
        **study_texts(study, version),
        "visit": visit,
        "task": task,
        "sides": sides,
        "conversation": sides[0][1],
        "n": n,
        "of": len(judgements),
        "segments": [number <= n for number in range(1, len(judgements) + 1)] if is_few else [],
        "note": arena_notes().get(request.GET.get("note", "")),
        "held_until": place_held_until(sides[0][1]),
        "words": arena_words(version),
        **mid_chat_question([chat for _side, chat in sides], version),
        "choice": request.POST.get("choice", ""),
        "others": others,
        "passing": right_of(task.participant, others),
        "wrong": wrong,
        "some_refused": any(one.given for one in wrong),
        "way": header_progress(study, "arena"),
        **report_shown(version, reports[0]),
        "reports": [
            (side, chat, address, turns_reported(chat))
            for (side, chat), address in zip(sides, reports, strict=True)
        ],
    }
    return render(request, "participant/arena.html", context)
