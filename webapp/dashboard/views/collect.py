"""Views of the tab People: live room, reservations, links, data quality.

The live room's page requests its changing part every three seconds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.conversations.selectors import synthetic_count
from webapp.conversations.services import reports_see
from webapp.core.language import plural
from webapp.core.rights import Right, may
from webapp.dashboard import selectors
from webapp.dashboard.charts.distributions import durations_figure
from webapp.dashboard.data_quality import (
    NAMES_MODEL,
    checks_shown,
    marks_of_study,
    quality_page,
    reports_page,
    reports_unseen,
)
from webapp.dashboard.live_bots import SLOW_S
from webapp.dashboard.live_page import LiveRoom, hours_drawing, live_room, order_drawings
from webapp.dashboard.live_progress import OPENED, now_rounded
from webapp.dashboard.navigation import PEOPLE, pages_open_to, requires, staff_only
from webapp.dashboard.recruitment import link_to_send, participant_link, reservations_of
from webapp.dashboard.views.builder.lifecycle import ALLOWED, state_change
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import study_of, study_page, synthetic_asked
from webapp.ratings.flags.base import flag_kinds
from webapp.results.refresh import has_order, refresh_flags
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import Outcome, Study
from webapp.studies.recruitment.completion import money_text
from webapp.studies.recruitment.links import (
    MOST_LINK_DAYS,
    MOST_LINKS_AT_ONCE,
    link_table,
    links_make,
    links_of,
)
from webapp.studies.selectors import judges_items


@require_safe
@staff_only
def collect(request: HttpRequest, key: str) -> HttpResponse:
    """Open the first page of the tab that this user may see, or the overview of an imported study."""
    study = study_of(key)
    pages = pages_open_to(request.user, PEOPLE, study)
    return redirect(f"dashboard:{pages[0].route if pages else 'study'}", study.key)


@require_safe
@staff_only
def places(request: HttpRequest, key: str) -> HttpResponse:
    """Show which places are taken, bot by bot, and who holds one now."""
    study = study_of(key)
    synthetic = synthetic_asked(request)
    found = reservations_of(study, include_synthetic=synthetic)
    judges = judges_items(study)
    progress = [] if judges else selectors.bot_progress(study, include_synthetic=synthetic)
    titles = {bot.bot_id: bot.title for bot in progress}
    return study_page(
        request,
        "places.html",
        study,
        "places",
        places=found,
        n_synthetic=synthetic_count(study),
        held_minutes=study.values.assignment.place_minutes,
        rows=[
            (
                bot,
                found.held.get(bot.bot_id, 0),
                found.lapsed.get(bot.bot_id, 0),
                study.values.assignment.quota_of(bot.bot_id),
            )
            for bot in progress
        ],
        cards=selectors.study_cards(study, include_synthetic=synthetic),
        holders=[
            (holder, ", ".join(titles.get(bot_id, bot_id) for bot_id in holder.bot_ids)) for holder in found.holders
        ],
        judges_items=judges,
    )


class LinksForm(forms.Form):
    """Form for one-time links: number, purpose, and days of validity."""

    n = forms.IntegerField(label="How many", min_value=1, max_value=MOST_LINKS_AT_ONCE)
    label = forms.CharField(
        label="What for",
        required=False,
        max_length=100,
        help_text="For you: the class or mailing that they go to.",
    )
    days = forms.IntegerField(
        label="Days they may be used",
        required=False,
        min_value=1,
        max_value=MOST_LINK_DAYS,
        help_text="Empty: for ever.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"


@require_http_methods(["GET", "HEAD", "POST"])
@requires(Right.ADMINISTER)
def links(request: HttpRequest, key: str) -> HttpResponse:
    """Show the study's lists of links, or make another."""
    study = study_of(key)
    form = LinksForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        links_make(study=study, **form.cleaned_data)
        return redirect("dashboard:study_links", study.key)
    return study_page(
        request,
        "links.html",
        study,
        "links",
        form=form,
        lists=links_of(study),
        is_by_links=study.values.recruitment.platform == "links",
        is_open=not study.values.recruitment.platform,
    )


@require_safe
@requires(Right.ADMINISTER)
def links_csv(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """Give the links of one list, or of all, as CSV."""
    study = study_of(key)
    asked = request.GET.get("list", "")
    batch = int(asked) if asked.isdecimal() else None
    rows = link_table(study, participant_link(request, study), batch)
    response = StreamingHttpResponse(_written(rows), content_type="text/csv; charset=utf-8")
    name = f"{study.key}.links{'' if batch is None else f'-{batch}'}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


class _Line:
    """A file whose last line is asked for as soon as it is written."""

    def write(self, text: str) -> str:
        return text


def _written(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    for row in rows:
        yield writer.writerow(row)


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
@requires(to_post=[Right.ADMINISTER])
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
    room = live_room(
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
        "orders": [(order, *(order_drawings(order) if order.rows else ("", ""))) for order in room.orders],
        "has_order": has_order(study),
        "results_route": "dashboard:study_results",
        "no_order": None if has_order(study) else _no_order(),
        "is_collecting": is_collecting(study),
        "endings": [
            (Outcome(outcome).label, n)
            for outcome, n in sorted(room.people.totals.outcomes.items())
            if outcome != Outcome.RATED
        ],
        "turned_away": [(_TURNED_AWAY.get(code, code), n) for code, n in sorted(room.people.totals.refused.items())],
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
    return {"why": why, "route": "dashboard:study_results"}


def _costs(room: LiveRoom) -> dict[str, str]:
    """Return amounts in words: so far, as planned, and what bots charged."""
    money, found = room.money, {}
    if money.people is not None:
        found["so_far"] = money_text(money.people, money.planned.currency)
    if money.planned.in_all is not None:
        found["planned"] = money_text(money.planned.in_all, money.planned.currency)
    if money.bots is not None:
        found["bots"] = f"{money.bots:,.2f}"
    return found


def _confirm(n_inside: int) -> str:
    """Return the text of the dialog before the study is paused or closed."""
    if not n_inside:
        return "No participant is inside, and no new ones can start."
    return plural(
        n_inside,
        "%(n)d participant inside may finish. No new ones can start.",
        "%(n)d participants inside may finish. No new ones can start.",
    ) % {"n": n_inside}


def _say(room: LiveRoom) -> str:
    """Return the text for screen readers, announced once a minute at most."""
    return f"{room.people.n_inside} inside, {room.n_waiting} wait for a reply, {room.people.n_done} done."


def _alarm(room: LiveRoom) -> str:
    """Return the text that screen readers announce at once: disabled and failing bots."""
    said = [f"{bot.info.title} is set aside." for bot in room.aside]
    said += [
        f"{bot.info.title}: {bot.words}."
        for bot in room.bots
        if bot.aside is None and bot.reason and bot.tone == "warn"
    ]
    return " ".join(said)


@require_safe
@staff_only
def quality(request: HttpRequest, key: str) -> HttpResponse:
    """Show the flags of a study's people; `?flag=fast` lists those with this one."""
    study = study_of(key)
    now = refresh_flags(study)
    flag = request.GET.get("flag", "")
    flag = flag if flag in flag_kinds else ""
    asked = request.GET.get("page", "")
    number = max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 1
    state = now.state
    found = quality_page(study, state, flag=flag, page=number) if state is not None else None

    def address(page: int) -> str:
        return f"?{urlencode({'flag': flag, 'page': page} if flag else {'page': page})}"

    return study_page(
        request,
        "quality.html",
        study,
        "quality",
        state=state,
        is_current=now.is_current,
        running=job_context(now.job, now.job.kind) if now.job is not None else None,
        found=found,
        checks=checks_shown(study, state),
        flag=flag,
        flag_title=flag_kinds.get(flag).title if flag else "",
        figure=durations_figure(state.found.get("durations", {})) if state is not None else None,
        earlier=address(number - 1),
        later=address(number + 1),
        shows_pay=may(request.user, Right.PAY),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@staff_only
def reports(request: HttpRequest, key: str) -> HttpResponse:
    """Show the study's reports and marks, or note that reports were seen: one (`seen`), or all."""
    study = study_of(key)
    if request.method == "POST":
        which = request.POST.get("seen", "")
        wanted = [int(which)] if which.isdecimal() and len(which) < 19 else None
        if wanted is None and which != "all":
            return redirect("dashboard:study_reports", study.key)
        n = reports_see(study=study, reports=wanted, by=request.user.get_username())
        said = plural(n, "%(n)d report was marked as seen.", "%(n)d reports were marked as seen.")
        messages.success(request, said % {"n": n})
        return redirect("dashboard:study_reports", study.key)
    return study_page(
        request,
        "reports.html",
        study,
        "reports",
        reports=reports_page(study, request.GET.get("page", "")),
        n_unseen=reports_unseen([study]).get(study.pk, 0),
        marks=marks_of_study(study),
        takes_reports=study.values.comfort.lets_report,
    )
