"""Participants' reports of replies: the page with the form, and storage.

Pages with scripts open the same form in a dialog (`report.js`) and send it without leaving; the response is then JSON.
Addresses name a reply by its place on the page, so they contain no id of an item or conversation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from webapp.conversations.images import images_of
from webapp.conversations.models import Conversation, ReplyReport, Turn
from webapp.conversations.services import reply_report
from webapp.core.errors import Refused
from webapp.participant.access import ParticipantRequest, conversation_page, task_page
from webapp.participant.page_texts import study_texts
from webapp.participant.rating_view import places_shown
from webapp.ratings.rating_tasks import RequestedRating, requested_ratings
from webapp.studies.models import Item, Study, StudyVersion, Task

_ERROR = _("Your report could not be sent. Try again.")


@dataclass(frozen=True, slots=True)
class ReplyToReport:
    """A reply in a report: a turn, or a reply of an item by its number."""

    text: str
    turn: Turn | None = None
    item: Item | None = None
    response: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """Values that a report stores of the reply."""
        return {"turn": self.turn, "item": self.item, "response": self.response}


def report_shown(version: StudyVersion, address: str) -> dict[str, Any]:
    """Return the template context for reports.

    Empty if the study does not allow them.

    Args:
        address: address for reports of this page.
    """
    if not version.values.comfort.lets_report:
        return {}
    return {
        "report_url": address,
        "report_reasons": ReplyReport.Reason.choices,
        "report_most_chars": ReplyReport.MOST_CHARS,
    }


def report_address(address: str, **reply: int) -> str:
    """Return the address for reporting one reply.

    It consists of the page's address and the reply's place.
    """
    return f"{address}{'&' if '?' in address else '?'}{urlencode(reply)}"


def turns_reported(conversation: Conversation) -> list[int]:
    """Return the turns that the chat's participant has reported."""
    reports = ReplyReport.objects.filter(turn__conversation=conversation, participant=conversation.participant_id)
    return sorted(reports.values_list("turn__index", flat=True))


def places_reported(task: Task, judgement: RequestedRating) -> list[int]:
    """Return the places whose only reply the participant has reported."""
    reports = ReplyReport.objects.filter(participant=task.participant_id)
    if judgement.turn is not None:
        return [0] if reports.filter(turn=judgement.turn).exists() else []
    items = {slot.item_id for slot in judgement.slots if slot.item_id}
    if not items:
        return []
    reported = set(reports.filter(item__in=items).values_list("item_id", "response"))
    return [
        number
        for number, place in enumerate(places_shown(judgement))
        if place.item is not None and (place.item.pk, place.response) in reported
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@conversation_page
def chat_report(request: HttpRequest, conversation: Conversation, visit: ParticipantRequest) -> HttpResponse:
    """Show the report form for a reply of the chat, or store the report."""
    study, participant = conversation.study, conversation.participant
    assert study is not None, f"chat {conversation.pk} without a study"
    assert participant is not None, f"chat {conversation.pk} without a participant"
    reply = _of_turn(conversation.pk, _number(request, "turn"))
    version = conversation.version or study.version
    return _report(request, study, version, visit, [reply], participant)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def task_report(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Show the report form for a rated reply, or store the report."""
    judgements = requested_ratings(task)
    n = _number(request, "n")
    if not 1 <= n <= len(judgements):
        raise Http404
    judgement = judgements[n - 1]
    if judgement.turn is not None:
        replies = [ReplyToReport(judgement.turn.text, judgement.turn)]
    else:
        replies = _get_replies_at(judgement, _number(request, "place"))
    participant = task.participant
    return _report(request, participant.study, task.version, visit, replies, participant)


def _number(request: HttpRequest, name: str) -> int:
    """Return a number in the address.

    Raises:
        Http404: there is none, or it is not a number.
    """
    text = request.GET.get(name, "")
    if not text.isdecimal() or len(text) > 6:
        raise Http404
    return int(text)


def _of_turn(conversation_id: Any, index: int) -> ReplyToReport:
    bot_turns = Turn.objects.filter(conversation=conversation_id, speaker=Turn.Speaker.BOT)
    turn = bot_turns.filter(index=index).first()
    if turn is None:
        raise Http404
    return ReplyToReport(turn.text, turn)


def _get_replies_at(judgement: RequestedRating, number: int) -> list[ReplyToReport]:
    """Return the replies and images that can be reported at a place of a page."""
    places = places_shown(judgement)
    if number >= len(places):
        raise Http404
    place = places[number]
    if place.item is not None:
        assert place.response is not None, "an item is shown by one of its replies"
        text = place.item.responses[place.response]["text"]
        return [ReplyToReport(text, None, place.item, place.response)]
    chat = place.slot.conversation or place.slot.chat
    images = {index: image.description for index, image in images_of(chat).items()}
    turns = (turn for turn in chat.turns.all() if turn.speaker == "bot" or turn.index in images)
    return [ReplyToReport(turn.text or images.get(turn.index, ""), turn) for turn in turns]


def _report(
    request: HttpRequest,
    study: Study,
    version: StudyVersion,
    visit: ParticipantRequest,
    replies: Collection[ReplyToReport],
    participant: Any,
) -> HttpResponse:
    """Respond with the page, or with the result of the report.

    Args:
        replies: possible replies; if there are several, the form's `line` selects one, from 1.
    """
    if not version.values.comfort.lets_report or not replies:
        raise Http404
    error, is_sent = "", False
    form_data = request.POST if request.method == "POST" else {}
    lines = list(enumerate(replies, start=1))
    if request.method == "POST":
        chosen = next((reply for n, reply in lines if str(n) == form_data.get("line", "1")), None)
        if chosen is None:
            raise Http404
        try:
            reply_report(
                participant=participant,
                reason=form_data.get("reason", ""),
                words=form_data.get("words", ""),
                **chosen.fields,
            )
            is_sent = True
        except Refused as refused:
            error = refused.message or str(_ERROR)
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({"saved": is_sent, "error": error}, status=400 if error else 200)
    context = {
        **study_texts(study, version),
        **report_shown(version, request.get_full_path()),
        "visit": visit,
        "lines": lines,
        "given": form_data,
        "report_error": error,
        "is_sent": is_sent,
    }
    return render(request, "participant/report.html", context)
