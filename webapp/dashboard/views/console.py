"""Console for staff as chat partners (Wizard of Oz)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from webapp.conversations.selectors import turns_of
from webapp.conversations.services import STAFF_REPLY_MAX_CHARS, seat_take, staff_reply
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.navigation import post_view, read_view
from webapp.dashboard.views.studies import study_page
from webapp.insights.selectors import staff_seats
from webapp.studies.models import Study


@never_cache
@read_view(Right.ADMINISTER)
def console(request: HttpRequest, study: Study) -> HttpResponse:
    """Show the study's open chats with a staff partner, and the chosen one."""
    return study_page(request, "console.html", study, "console", **_context(request, study))


@never_cache
@read_view(Right.ADMINISTER)
def console_now(request: HttpRequest, study: Study) -> HttpResponse:
    """Return the part of the page that is polled."""
    return render(request, "dashboard/_console_live.html", {"study": study, **_context(request, study)})


@post_view(Right.ADMINISTER)
def console_act(request: HttpRequest, study: Study, conversation_id: UUID) -> HttpResponse:
    """Join a chat, or send a reply in it."""
    user: Any = request.user
    try:
        if request.POST.get("action") == "take":
            seat_take(study=study, conversation_id=conversation_id, user=user)
        else:
            text = request.POST.get("text", "")
            staff_reply(study=study, conversation_id=conversation_id, user=user, text=text)
    except Refused as refused:
        messages.error(request, refused.message)
    return redirect(f"{reverse('dashboard:study_console', args=[study.key])}?chat={conversation_id}")


def _context(request: HttpRequest, study: Study) -> dict[str, Any]:
    seats = staff_seats(study)
    requested_chat = request.GET.get("chat", "")
    chosen = next((seat for seat in seats if str(seat.pk) == requested_chat), None)
    context: dict[str, Any] = {"seats": seats, "chosen": chosen, "max_chars": STAFF_REPLY_MAX_CHARS}
    if chosen is None:
        return {**context, "is_gone": bool(requested_chat)}
    params = chosen.conversation.bot.params
    turns = turns_of(chosen.conversation)
    return {
        **context,
        "turns": turns,
        "is_mine": chosen.staff_id == request.user.pk,
        "asked": [{"speaker": turn["speaker"], "text": turn["text"]} for turn in turns],
        "canned": params.get("canned", []),
        "suggest_by": params.get("suggest_by", ""),
    }
