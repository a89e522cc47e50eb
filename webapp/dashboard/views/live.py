"""The live room: its page, the part of it that is asked for every three seconds, and pause, resume and close."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_POST, require_safe

from webapp.conversations.selectors import synthetic_count
from webapp.core.rights import Right, may
from webapp.core.speaking import plural
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.live.bots import SLOW_S
from webapp.dashboard.live.people import OPENED, now_rounded
from webapp.dashboard.live.room import Room, room_of
from webapp.dashboard.plots.live import hours_drawing, order_drawings
from webapp.dashboard.recruiting import link_to_send
from webapp.dashboard.reports import NAMES_MODEL
from webapp.dashboard.views.build.opening import ALLOWED, state_change
from webapp.dashboard.views.study import study_of, study_page, synthetic_asked
from webapp.ratings.pairs import compares_pairs
from webapp.results.order import has_order
from webapp.studies.models import Outcome, Study
from webapp.studies.money import amount
from webapp.studies.places import is_collecting

_TURNED_AWAY = {
    "paused": "the study is paused",
    "ended": "the study is closed",
    "full": "all people are there",
    "limit": "took part as often as they may",
    "not_again": "was screened out or missed a check before",
    "all_rated": "has met all there is",
    "bots_full": "only bots that have enough were left",
    "spent": "the cap on cost is reached",
    "no_bot": "no bot could answer",
    "no_ids": "the participant ID was missing from the link",
}
"""Reasons for rejection at entry, for researchers; used or invalid one-time links have separate codes."""


@require_safe
@staff_only
def live(request: HttpRequest, key: str) -> HttpResponse:
    """Show who is where in a study that collects."""
    study = study_of(key)
    if study.is_imported:
        return study_page(request, "live.html", study, "live")
    return study_page(
        request,
        "live.html",
        study,
        "live",
        **_context(request, study),
        n_synthetic=synthetic_count(study),
        shows_scripts=synthetic_asked(request),
        buttons=[
            button
            for button in _buttons()
            if study.state in ALLOWED[Study.State(button["state"])]
            and not (button["state"] == Study.State.COLLECTING and study.state == Study.State.DRAFT)
        ],
    )


@require_safe
@staff_only
def live_now(request: HttpRequest, key: str) -> HttpResponse:
    """Return the changing part of the page; 304 where nothing of it has changed since the browser's copy."""
    study = study_of(key)
    if study.is_imported:
        raise Http404(f"{key} is imported")
    context = _context(request, study)
    response = render(request, "dashboard/_live_room.html", {"study": study, **context})
    response["ETag"] = f'"{context["room"].digest}"'
    patch_cache_control(response, private=True, no_cache=True)
    found = get_conditional_response(request, etag=response["ETag"], response=response)
    return found or response


@require_POST
@needs(to_post=[Right.ADMINISTER])
def live_state(request: HttpRequest, key: str) -> HttpResponse:
    """Pause, resume or close the study, and lead back."""
    state_change(request, study_of(key), request.POST.get("_state", ""))
    return redirect("dashboard:study_live", key)


def _buttons() -> list[dict[str, Any]]:
    return [
        {"state": "collecting", "icon": "play", "title": "Resume"},
        {"state": "paused", "icon": "pause", "title": "Pause"},
        {"state": "ended", "icon": "", "title": "Close study"},
    ]


def _context(request: HttpRequest, study: Study) -> dict[str, Any]:
    now = now_rounded()
    room = room_of(
        study,
        include_synthetic=synthetic_asked(request),
        now=now,
        may_pay=may(request.user, Right.PAY),
    )
    return {
        "room": room,
        "things": room.things,
        "now": now,
        "synthetic": synthetic_asked(request),
        "participant_link": link_to_send(request, study),
        "most": max((stage.n for stage in room.people.stages), default=0),
        "hours": hours_drawing(room.pace.hours),
        "orders": [
            (order, *(order_drawings(order) if order.rows else ("", ""))) for order in room.orders
        ],
        "has_order": has_order(study),
        "results_route": f"dashboard:{'study_pairs' if compares_pairs(study) else 'study_bots'}",
        "no_order": None if has_order(study) else _no_order(),
        "is_collecting": is_collecting(study),
        "endings": [
            (Outcome(outcome).label, n)
            for outcome, n in sorted(room.people.totals.outcomes.items())
            if outcome != Outcome.RATED
        ],
        "turned_away": [
            (_TURNED_AWAY.get(code, code), n)
            for code, n in sorted(room.people.totals.refused.items())
        ],
        "costs": _costs(room),
        "slow_s": SLOW_S,
        "paced": study.values.pacing.paces_alike,
        "naming": NAMES_MODEL in study.values.filtering.reply_filters,
        "confirm": _confirm(room.people.n_inside),
        "say": _say(room),
        "alarm": _alarm(room),
        "in_a_row": settings.CONFAB_ASIDE_IN_A_ROW,
        "aside_failed": settings.CONFAB_ASIDE_FAILED,
        "aside_of": settings.CONFAB_ASIDE_OF,
        "opened_name": OPENED,
    }


def _no_order() -> dict[str, str]:
    """Return the reason why no order is shown, and the route of the study's results."""
    why = (
        "Not here: people mark replies or choose questions, which puts no chatbot above another. Decide before you "
        "look how many people take part."
    )
    return {"why": why, "route": "dashboard:study_bots"}


def _costs(room: Room) -> dict[str, str]:
    """Return amounts in words: so far, as planned, and what bots charged."""
    money, found = room.money, {}
    if money.people is not None:
        found["so_far"] = amount(money.people, money.planned.currency)
    if money.planned.in_all is not None:
        found["planned"] = amount(money.planned.in_all, money.planned.currency)
    if money.bots is not None:
        found["bots"] = f"{money.bots:,.2f}"
    return found


def _confirm(n_inside: int) -> str:
    """Return the text of the dialog before the study is paused or closed."""
    if not n_inside:
        return "Nobody is inside. Nobody new starts."
    return plural(
        n_inside,
        "%(n)d person inside may finish. Nobody new starts.",
        "%(n)d people inside may finish. Nobody new starts.",
    ) % {"n": n_inside}


def _say(room: Room) -> str:
    """Return the text for screen readers, announced once a minute at most."""
    return f"{room.people.n_inside} inside, {room.n_waiting} wait for a reply, {room.people.n_done} done."


def _alarm(room: Room) -> str:
    """Return the text that screen readers announce at once: disabled and failing bots."""
    said = [f"{bot.info.title} is set aside." for bot in room.aside]
    said += [
        f"{bot.info.title}: {bot.words}."
        for bot in room.bots
        if bot.aside is None and bot.reason and bot.tone == "warn"
    ]
    return " ".join(said)
