"""From nothing to a link: the page *Start*, and the page of a study's first rehearsal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from chatbots.validation import ValuesError
from webapp.bots.declared_bots import own_declared_bot
from webapp.bots.selectors import bot_name, bots_chat_bound, bots_with_cost
from webapp.conversations.selectors import scripted_chats, synthetic_count
from webapp.core.errors import Refused
from webapp.core.pages import server_address, staff_refusal
from webapp.core.rights import Right, may
from webapp.dashboard.builder.base import Plan, preview_of
from webapp.dashboard.builder.checklist import ChecklistFinding, findings_of, stops
from webapp.dashboard.navigation import form_view, page
from webapp.dashboard.recruitment import link_to_send, walk_link
from webapp.dashboard.start_form import PEOPLE, StartForm, first_job, start_study
from webapp.dashboard.templatetags.dashboard import money
from webapp.dashboard.views.builder.lifecycle import state_change
from webapp.dashboard.views.jobs import job_context, result_context
from webapp.dashboard.views.studies import shown_result
from webapp.insights import selectors
from webapp.insights.leaderboard import BoardParams, board_of
from webapp.jobs.kinds.bot_test import KIND as BOT_TEST
from webapp.jobs.kinds.bot_test import BotTest
from webapp.jobs.models import Job, State
from webapp.jobs.selectors.jobs import queue_is_served
from webapp.jobs.services.jobs import job_create, job_restart, job_settle
from webapp.ratings.selectors import scripted_answers
from webapp.results.cache import AnalysisKey
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

_TOKEN = re.compile(r"[0-9a-f]{32}")
_SHOWN = 3
"""First chats, or first answers, on the page of a first link."""
_MESSAGE_BYTES = 200
"""Length of the longest message of a script."""


@form_view(Right.ADMINISTER, Right.RUN)
@sensitive_post_parameters("new_key")
def start(request: HttpRequest) -> HttpResponse:
    """Ask for the aim and the bots, then store a draft and test its bots in the background."""
    user: Any = request.user
    token = request.POST.get("token", "")
    token = token if _TOKEN.fullmatch(token) else uuid4().hex
    form = StartForm(
        request.POST if request.method == "POST" else None,
        may_add_bots=may(user, Right.BOTS),
        email=getattr(user, "email", ""),
    )
    if request.method == "POST" and form.is_valid():
        try:
            study, is_new = start_study(form=form, token=token, user=user, url=server_address(request))
        except (Refused, ValuesError) as error:
            form.add_error(None, str(error))
        else:
            if not is_new:
                messages.info(request, "This study was started before. To start another one, click Start on Home.")
            return redirect("dashboard:study_first", study.key)
    return page(
        request,
        "start.html",
        "home",
        status=400 if form.errors else 200,
        form=form,
        token=token,
        people=PEOPLE,
        has_worker=queue_is_served(BotTest.queue),
    )


@form_view(to_post=[Right.RUN])
def first(request: HttpRequest, study: Study) -> HttpResponseBase:
    """Show a study's link with its rehearsal, first chats and leaderboard; test, rehearse or open it."""
    if request.method == "POST":
        what = request.POST.get("what", "")
        if what == "open":
            if (refusal := staff_refusal(request, Right.ADMINISTER)) is not None:
                return refusal
            state_change(request, study, Study.State.COLLECTING)
        elif what in ("test", "rehearse"):
            _request_job(request, study, BOT_TEST if what == "test" else "rehearsal")
        return redirect("dashboard:study_first", study.key)
    plan, has_chats = Plan(study), get_protocol(study).talks_to_bots
    is_draft = study.state == Study.State.DRAFT
    test, rehearsal = _settled(study, BOT_TEST), _settled(study, "rehearsal")
    stages = [
        _stage("Test of the bots" if has_chats else "Draft", test, is_done=not plan.untried),
        _stage("Rehearsal", rehearsal, is_done=rehearsal is not None and bool((rehearsal.result or {}).get("done"))),
        Stage("Open to participants", "done" if study.state == Study.State.COLLECTING else "waiting", None),
    ]
    state, pill = selectors.study_state(study)
    return page(
        request,
        "first_link.html",
        "studies",
        study=study,
        state_title=state,
        state_pill=pill,
        stages=stages,
        failed=next((stage.job for stage in stages if stage.state == "failed"), None),
        progress=_live(stages),
        cost=_say_cost(plan) if is_draft and not plan.untried and rehearsal is None else None,
        may_test=bool(plan.untried),
        has_worker=queue_is_served(BotTest.queue),
        bots=[(bot_name(bot_id), _page_of_bot(bot_id, study)) for bot_id in study.bots],
        missing=_missing(plan, rehearsal) if is_draft else [],
        rehearsal=rehearsal,
        sentences=result_context(rehearsal).get("sentences", []) if rehearsal is not None else [],
        link=link_to_send(request, study),
        walk_link=walk_link(request, study) if may(request.user, Right.ADMINISTER) else "",
        preview=preview_of(study, request.GET, step_name="texts"),
        people=PEOPLE,
        has_chats=has_chats,
        chats=scripted_chats(study, _SHOWN) if has_chats and is_draft else [],
        answers=[] if has_chats or not is_draft else scripted_answers(study, _SHOWN),
        n_synthetic=synthetic_count(study),
        **_leaderboard(request, study),
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage on the way to an open study; `state` is done, running, failed or waiting."""

    title: str
    state: str
    job: Job | None


def _settled(study: Study, kind: str) -> Job | None:
    job = first_job(study, kind)
    return job_settle(job=job) if job is not None else None


def _stage(title: str, job: Job | None, *, is_done: bool) -> Stage:
    if job is not None and not job.is_over:
        return Stage(title, "running", job)
    if is_done:
        return Stage(title, "done", job)
    # A rehearsal that nobody finished is done, but it tested nothing.
    is_failed = job is not None and (job.state != State.DONE or job.kind == "rehearsal")
    return Stage(title, "failed" if is_failed else "waiting", job)


def _live(stages: list[Stage]) -> dict[str, Any]:
    """Return the context of the running job's progress; empty without one."""
    running = next((stage.job for stage in stages if stage.job is not None and stage.state == "running"), None)
    return {} if running is None else {**job_context(running, running.kind), "over": False}


def _request_job(request: HttpRequest, study: Study, kind: str) -> None:
    """Create a job of the study, resume the failed one, or leave the running one alone."""
    job = _settled(study, kind)
    if job is not None and not job.is_over:
        return
    url = server_address(request)
    payload = {"people": PEOPLE, "url": url}
    if kind == BOT_TEST:
        people = 0 if bots_with_cost(study.bots) else PEOPLE
        payload = {"bots": Plan(study).untried, "people": people, "url": url}
    try:
        if job is not None and kind == "rehearsal" and job.can_go_on:
            job_restart(job=job, enqueue=True)
        else:
            user: Any = request.user
            job_create(kind=kind, payload=payload, study=study, created_by=user)
    except Refused as refused:
        messages.error(request, refused.message)


def _say_cost(plan: Plan) -> str:
    """Describe the cost of the rehearsal with its maximum; empty if it is free."""
    costly = bots_with_cost(plan.study.bots)
    if not costly:
        return ""
    chat = plan.study.values.chat
    names = ", ".join(plan.entries[bot_id].name for bot_id in costly if bot_id in plan.entries)
    n = PEOPLE * (chat.min_exchanges + 2) * plan.study.values.assignment.bots_in_a_row
    n_chats = PEOPLE * plan.study.values.assignment.bots_in_a_row
    bound = bots_chat_bound(costly, n_exchanges=n // n_chats, message_bytes=_MESSAGE_BYTES)
    price = (
        "Confab cannot say how much, because a price or the maximum length of a reply is not set."
        if bound is None
        else f"It costs at most {money(n_chats * bound)}, in the currency of the bots’ prices."
    )
    return f"{PEOPLE} scripted people request up to {n} replies from {names}, which may cost money. {price}"


def _page_of_bot(bot_id: str, study: Study) -> str:
    """Return the address at which the bot can be changed, from which there is a way back to the first link."""
    if own_declared_bot(bot_id) is not None:
        route = "bot_edit"
    else:
        route = "bot_imported" if study.is_imported or "/" in bot_id else "bot"
    return f"{reverse(f'dashboard:{route}', args=[bot_id])}?study={study.key}"


def _missing(plan: Plan, rehearsal: Job | None) -> list[ChecklistFinding]:
    """Return the problems that keep the study closed; rehearsal and test have their own lines on the page."""
    missing = stops(findings_of(plan))
    is_under_way = rehearsal is None or not rehearsal.is_over
    return [finding for finding in missing if finding.step != "walk" or not is_under_way]


def _leaderboard(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the first leaderboard: of scripted participants in a draft, of participants once the study is open."""
    key = AnalysisKey(study, "comparisons", include_synthetic=study.state == Study.State.DRAFT)
    if not get_protocol(study).talks_to_bots or not (synthetic_count(study) or study.state != Study.State.DRAFT):
        return {"board": None}
    shown = shown_result(request, key)
    if shown.frame is None:
        return {"board": None, "waiting": shown.waiting}
    frame, result = shown.frame, shown.result
    return {
        "board": board_of(frame, result.means, result.compared, BoardParams(), frame.headline),
        "question": frame.headline.title,
        "waiting": shown.waiting,
    }
