"""Views of a study's people: live part, list, details, links, reports.

The page requests its live part every three seconds. Decisions about pay are in `webapp.dashboard.views.pay`.
"""

from __future__ import annotations

import csv
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import get_conditional_response, patch_cache_control

from webapp.conversations.selectors import synthetic_count
from webapp.conversations.services import distress_marks_see, reports_see
from webapp.core.audit_trail import DOWNLOAD, PRIVATE_OPEN, record
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.rights import Right, may
from webapp.dashboard.navigation import Link, form_view, post_view, read_view
from webapp.dashboard.people_forms import BonusForm, LinksForm
from webapp.dashboard.people_list import PeopleFilters, PeopleReader
from webapp.dashboard.recruitment import link_to_send, participant_link, webhook_link
from webapp.dashboard.views.builder.lifecycle import ALLOWED, state_change
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import study_page, synthetic_asked
from webapp.insights.action_items import PAYING
from webapp.insights.charts.distributions import durations_figure
from webapp.insights.data_quality import (
    NAMES_MODEL,
    checks_shown,
    distress_chats,
    distress_unseen,
    flags_counted,
    marks_of_study,
    reports_by_person,
    reports_unseen,
    signal_rows,
)
from webapp.insights.live_page import LiveRoom, live_room
from webapp.insights.live_progress import OPENED, now_rounded
from webapp.jobs.services.jobs import jobs_settle
from webapp.pay import prolific
from webapp.pay.flags.base import flags_by_state
from webapp.pay.platform_status import comparison_newest, hook_newest, platform_job
from webapp.pay.prolific import MESSAGE_MOST_CHARS, can_send
from webapp.pay.submissions import Submission, Submissions, submissions_of
from webapp.ratings.flag_selectors import get_origin_mark
from webapp.ratings.flag_store.models import FlagState
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.ratings.services import mark_origin
from webapp.results.refresh import has_order, refresh_flags
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.messages import message_answer, messages_waiting
from webapp.studies.models import Outcome, ParticipantMessage, Study
from webapp.studies.privacy import erasure_counts, erasure_kinds, participants_erase, query_participant
from webapp.studies.recruitment.completion import is_paid, money_text
from webapp.studies.recruitment.links import link_table, links_make, links_of
from webapp.studies.selectors import get_participant

_TURNED_AWAY = {
    "paused": "the study is paused",
    "ended": "the study is closed",
    "full": "all places are taken",
    "limit": "took part as often as allowed",
    "not_invited": "did not take part in an earlier study",
    "took_part": "took part in an earlier study",
    "not_again": "was screened out or missed a check before",
    "all_rated": "has done everything available",
    "sitting_early": "came before the next part opened",
    "sitting_late": "came after the part had closed",
    "all_sittings": "has completed all parts",
    "bots_full": "only bots that need no more ratings were left",
    "spent": "the cost limit is reached",
    "no_bot": "no bot was available",
    "no_ids": "the participant ID was missing from the link",
    "id_too_long": "the participant ID had more than 200 characters",
    "script_failed": "the browser could not load the chat (seen before consent)",
    "script_failed_chat": "the chat page did not start (after consent)",
}
"""Refusals at entry, for researchers; used and invalid one-time links have separate codes."""
_STATE_BUTTONS = (("collecting", "play", "Resume"), ("paused", "pause", "Pause"), ("ended", "", "Close study"))


@read_view()
def people(request: HttpRequest, study: Study) -> HttpResponse:
    """Show a study's participants.

    An imported study has its overview instead.
    """
    if study.is_imported:  # no participants come there
        return redirect("dashboard:study", study.key)
    return _people_page(request, study)


def _people_page(request: HttpRequest, study: Study, *, links: LinksForm | None = None) -> HttpResponse:
    live = _live_context(request, study)
    flags = refresh_flags(study)
    visits = submissions_of(study, include_synthetic=synthetic_asked(request))
    bots = {bot.info.bot_id: bot.info for bot in live["room"].bots}
    reader = people_reader(request, visits, flags.state, bots)
    filters = PeopleFilters.from_query(request.GET, pays=reader.pays)
    people_list = reader.page(filters)
    distress_marks = distress_chats(study)
    return study_page(
        request,
        "participants.html",
        study,
        "people",
        status=400 if links is not None else 200,
        **live,
        n_synthetic=synthetic_count(study),
        shows_scripts=synthetic_asked(request),
        buttons=[
            button
            for button in _STATE_BUTTONS
            if study.state in ALLOWED[Study.State(button[0])] and (button[0], study.state) != ("collecting", "draft")
        ],
        found=people_list,
        filters=filters,
        query=filters.query(),
        groups=[
            Link(f"{title} {n:,}", f"?{filters.query(show=name, flag='', page=1)}#participants", name == filters.show)
            for name, title, n in people_list.groups
        ],
        flag_title=flag_kinds.get(filters.flag).title if filters.flag in flag_kinds else filters.flag,
        unflagged=filters.query(flag="", page=1),
        earlier=filters.query(page=filters.page - 1) if people_list.first > 1 else "",
        later=filters.query(page=filters.page + 1) if people_list.last < people_list.total else "",
        pays=reader.pays,
        with_ids=reader.with_ids,
        platform=study.values.recruitment.platform,
        **(_pay_context(request, study) if reader.pays else {}),
        **_quality_context(study, flags.state),
        flags_running=job_context(flags.job, flags.job.kind) if flags.job is not None else None,
        flags_current=flags.is_current,
        n_distress=distress_unseen([study]).get(study.pk, 0) if distress_marks else 0,
        distress_marks=distress_marks,
        n_unseen=reports_unseen([study]).get(study.pk, 0),
        marks=marks_of_study(study),
        **_links_context(request, study, links),
    )


def people_reader(
    request: HttpRequest, visits: Submissions, state: FlagState | None, bots: Mapping[str, BotInfo] | None = None
) -> PeopleReader:
    """Return the reader of these visits for the current user.

    Pay is included only if the study pays and the user may decide about it.

    If the user may see private data, the audit log records it.

    Args:
        state: state of the study's flags.
        bots: bots of the study, if known.
    """
    study = visits.study
    has_pay = is_paid(study.values) or study.values.recruitment.platform in PAYING
    has_pay = has_pay or any(
        visit.platform in PAYING or visit.decisions for visit in visits.all if not visit.is_synthetic
    )
    pays = has_pay and may(request.user, Right.PAY)
    sees_private = may(request.user, Right.PRIVATE)
    if sees_private:
        record(PRIVATE_OPEN, study, page="participants")
    return PeopleReader(
        visits,
        flags_by_state(visits, state, of_pay=pays),
        reports_by_person(study, include_synthetic=True),
        study_bots(study) if bots is None else bots,
        pays,
        sees_private,
        messages_waiting(Q(participant__study=study), column="participant"),
    )


def _pay_context(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the state of submissions to the platform, and Prolific's webhook."""
    jobs_settle()
    job = platform_job(study)
    hook = study.values.recruitment.platform == "prolific"
    return {
        "can_send": prolific.can_send(),
        "compared": comparison_newest(study),
        "running": job_context(job, job.kind) if job is not None else None,
        "is_sending": job is not None and job.kind == "pay_send" and not job.is_over,
        "hook": webhook_link(study, participant_link(request, study)) if hook else None,
        "has_hook_secret": bool(settings.CONFAB_PROLIFIC_HOOK_SECRET),
        "hook_told": hook_newest(study) if hook else None,
    }


def _quality_context(study: Study, state: FlagState | None) -> dict[str, Any]:
    """Return the kinds of flags with their rules, attention checks, and durations."""
    return {
        "flag_state": state,
        "counted": flags_counted(study, state) if state is not None else None,
        "signals": signal_rows(state) if state is not None else [],
        "checks": checks_shown(study, state),
        "figure": durations_figure(state.found.get("durations", {})) if state is not None else None,
    }


def _links_context(request: HttpRequest, study: Study, form: LinksForm | None) -> dict[str, Any]:
    if not may(request.user, Right.ADMINISTER):
        return {}
    return {"links_form": form or LinksForm(), "has_links_error": form is not None, "lists": links_of(study)}


@read_view()
def people_now(request: HttpRequest, study: Study) -> HttpResponse:
    """Return the live part of the page.

    304 if it has not changed since the browser's copy.
    """
    if study.is_imported:
        raise Http404(f"{study.key} is imported")
    context = _live_context(request, study)
    response = render(request, "dashboard/_people_live.html", {"study": study, **context})
    response["ETag"] = f'"{context["room"].digest}"'
    patch_cache_control(response, private=True, no_cache=True)
    unchanged = get_conditional_response(request, etag=response["ETag"], response=response)
    return unchanged or response


@post_view(to_post=[Right.ADMINISTER])
def people_state(request: HttpRequest, study: Study) -> HttpResponse:
    """Pause, resume or close the study, and redirect back."""
    state_change(request, study, request.POST.get("_state", ""))
    return redirect("dashboard:study_people", study.key)


def _live_context(request: HttpRequest, study: Study) -> dict[str, Any]:
    now = now_rounded()
    room = live_room(study, include_synthetic=synthetic_asked(request), now=now, may_pay=may(request.user, Right.PAY))
    money, hours_left = room.money, room.pace.hours_left
    endings = sorted(room.people.totals.outcomes.items())
    return {
        "room": room,
        "now": now,
        "synthetic": synthetic_asked(request),
        "participant_link": link_to_send(request, study),
        "most": max((stage.n for stage in room.people.stages), default=0),
        "most_an_hour": max(hour.n for hour in room.pace.hours),
        "full_at": now + timedelta(hours=hours_left) if hours_left is not None else None,
        "has_order": has_order(study) and len(room.bots) != 1,
        "is_collecting": is_collecting(study),
        "endings": [(Outcome(outcome).label, n) for outcome, n in endings if outcome != Outcome.RATED],
        "turned_away": [(_TURNED_AWAY.get(code, code), n) for code, n in sorted(room.people.totals.refused.items())],
        "cost": money_text(money.people, money.planned.currency) if money.people is not None else "",
        "cost_planned": money_text(money.planned.in_all, money.planned.currency) if money.planned.in_all else "",
        "paced": study.values.pacing.paces_alike,
        "naming": NAMES_MODEL in study.values.filtering.reply_filters,
        "confirm": _confirm(room.people.n_inside),
        "say": f"{room.people.n_inside} active, {room.n_waiting} waiting for a reply, {room.people.n_done} done.",
        "alarm": _alarm(room),
        "in_a_row": settings.CONFAB_ASIDE_IN_A_ROW,
        "aside_failed": settings.CONFAB_ASIDE_FAILED,
        "aside_of": settings.CONFAB_ASIDE_OF,
        "opened_name": OPENED,
    }


def _confirm(n_inside: int) -> str:
    """Return the text of the dialog to pause or close the study."""
    if not n_inside:
        return "No participant is active, and no new ones can start."
    return f"{n_inside} active {plural(n_inside, 'participant', 'participants')} can finish. No new ones can start."


def _alarm(room: LiveRoom) -> str:
    """Return the alert for screen readers: disabled and failing bots."""
    troubled = [bot for bot in room.bots if bot.aside is not None or (bot.reason and bot.tone == "warn")]
    return " ".join(
        f"{bot.info.title} is disabled." if bot.aside is not None else f"{bot.info.title}: {bot.words}."
        for bot in sorted(troubled, key=lambda bot: bot.aside is None)
    )


@read_view()
def person(request: HttpRequest, study: Study, participant_id: UUID) -> HttpResponse:
    """Show one participant: visit, flags, chats, reports, and pay."""
    visits = submissions_of(study, include_synthetic=True)
    own_visits = visits.get_visits(participant_id)
    visit_key = request.GET.get("visit")
    visit = next(
        (own_visit for own_visit in own_visits if visit_key is None or own_visit.key.digest == visit_key), None
    )
    if visit is None:
        raise Http404("no such visit")
    return person_page(request, visits, visit, PeopleFilters.from_query(request.GET, pays=True))


def person_page(
    request: HttpRequest,
    visits: Submissions,
    visit: Submission,
    filters: PeopleFilters,
    *,
    bonus: BonusForm | None = None,
) -> HttpResponse:
    """Show one visit of a participant.

    A rejected bonus form is shown with its errors.
    """
    study = visits.study
    reader = people_reader(request, visits, refresh_flags(study).state)
    return study_page(
        request,
        "person.html",
        study,
        "people",
        status=200 if bonus is None else 400,
        person=reader.details(visit),
        bonus=bonus or BonusForm(initial={"asked": uuid.uuid4()}),
        can_message=visit.can_be_written_to and can_send(),
        message_most=MESSAGE_MOST_CHARS,
        may_erase=may(request.user, Right.ADMINISTER),
        origin=get_origin_mark(visit.key.participant),
        pays=reader.pays,
        query=filters.query(),
        neighbours=list(zip(("prev", "next"), reader.neighbours(visit, filters), strict=True)),
        address=reverse("dashboard:study_person", args=[study.key, visit.key.participant]),
    )


@post_view(Right.ADMINISTER)
def message_reply(request: HttpRequest, study: Study, participant_id: UUID) -> HttpResponse:
    """Answer a participant's message, and redirect to the participant."""
    message_id = request.POST.get("message", "")
    number = int(message_id) if message_id.isdecimal() and len(message_id) < 19 else 0
    message = get_object_or_404(ParticipantMessage, pk=number, participant=participant_id, participant__study=study)
    try:
        message_answer(message=message, text=request.POST.get("text", ""), username=request.user.get_username())
        messages.success(request, "The answer was saved. The participant will see it on their next page.")
    except Refused as refused:
        messages.error(request, refused.message)
    return redirect("dashboard:study_person", study.key, participant_id)


@post_view(Right.ADMINISTER)
def person_origin(request: HttpRequest, study: Study, participant_id: UUID) -> HttpResponse:
    """Store the decision whether the participant is a person, and redirect to the participant."""
    participant = get_participant(study, participant_id)
    if participant is None:
        raise Http404("no such person")
    try:
        mark_origin(
            participant=participant, verdict=request.POST.get("verdict", ""), username=request.user.get_username()
        )
        messages.success(request, "The decision was saved. It excludes nobody.")
    except Refused as refused:
        messages.error(request, refused.message)
    return redirect("dashboard:study_person", study.key, participant_id)


@form_view(Right.ADMINISTER)
def person_erase(request: HttpRequest, study: Study, participant_id: UUID) -> HttpResponse:
    """Count what is stored about a participant, and erase it after confirmation."""
    participant = get_participant(study, participant_id)
    if participant is None:
        raise Http404("no such person")
    participants = query_participant(participant)
    if request.method == "POST":
        participants_erase(participants=participants, notes=True)
        messages.success(request, "All data of this participant have been erased.")
        return redirect("dashboard:study_people", study.key)
    counts = erasure_counts(participants)
    loss = [(kind.title, counts[table]) for table, kind in erasure_kinds().items() if counts[table]]
    return study_page(request, "person_erase.html", study, "people", participant=participant_id, loss=loss)


@post_view(Right.ADMINISTER)
def links(request: HttpRequest, study: Study) -> HttpResponse:
    """Create a list of one-time links."""
    form = LinksForm(request.POST)
    if not form.is_valid():
        return _people_page(request, study, links=form)
    links_make(study=study, **form.cleaned_data)
    return redirect(reverse("dashboard:study_people", args=[study.key]) + "#links")


@read_view(Right.ADMINISTER)
def links_csv(request: HttpRequest, study: Study) -> StreamingHttpResponse:
    """Send the links of one list, or of all, as CSV."""
    list_id = request.GET.get("list", "")
    batch = int(list_id) if list_id.isdecimal() else None
    rows = link_table(study, participant_link(request, study), batch)
    record(DOWNLOAD, study, file="links")
    response = StreamingHttpResponse(_written(rows), content_type="text/csv; charset=utf-8")
    name = f"{study.key}.links{'' if batch is None else f'-{batch}'}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


class _Line:
    """Buffer whose last line is read immediately after writing."""

    def write(self, text: str) -> str:
        return text


def _written(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    for row in rows:
        yield writer.writerow(row)


@post_view()
def reports(request: HttpRequest, study: Study) -> HttpResponse:
    """Mark one report (`seen`) or all as seen, and redirect back."""
    if "distress" in request.POST:
        n = distress_marks_see(study=study, user_name=request.user.get_username())
        messages.success(
            request, plural(n, "%(n)d message was marked as seen.", "%(n)d messages were marked as seen.") % {"n": n}
        )
    which = request.POST.get("seen", "")
    report_ids = [int(which)] if which.isdecimal() and len(which) < 19 else None
    if report_ids is not None or which == "all":
        n = reports_see(study=study, reports=report_ids, user_name=request.user.get_username())
        message = plural(n, "%(n)d report was marked as seen.", "%(n)d reports were marked as seen.")
        messages.success(request, message % {"n": n})
    try:
        address = reverse("dashboard:study_person", args=[study.key, UUID(hex=request.POST.get("person", ""))])
    except ValueError:
        address = reverse("dashboard:study_people", args=[study.key])
    return redirect(address)
