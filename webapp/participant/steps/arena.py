"""The arena: one page for each pair of chatbots, whose chats run over two sockets, and the choice between them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.participant.access import Visit, task_page
from webapp.participant.asides import aside_shown
from webapp.participant.asked import asked_after_of, right_of
from webapp.participant.forms import RatingForm
from webapp.participant.presentation import arena_notes, place_held_until, study_texts, way_at
from webapp.participant.reporting import report_shown, turns_reported
from webapp.participant.selectors import chats_by_slot
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.participant.wording import arena_words
from webapp.ratings.comparing import CHOICES, comparison_submit
from webapp.ratings.judging import Judgement, check_place, judgements_of
from webapp.results.order import order_refresh_for_rule
from webapp.studies.models import Slot, Task

_MOST_SEGMENTS = 12


@register_step
class Arena:
    """Talk to the two chatbots of each pair and choose; every choice is stored as it is made."""

    name = "arena"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is not None

    def is_completed(self, standing: Standing) -> bool:
        assert standing.task is not None
        return standing.task.state != Task.State.OPEN

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.task is not None
        return visit.link("arena", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def arena(request: HttpRequest, task: Task, visit: Visit) -> HttpResponse:
    """Show the pair that is compared now, or take the choice between its two."""
    standing = standing_of(task)
    if not is_on_way(standing, Arena.name) or step_before(Arena.name, standing):
        return to_next_step(standing, visit)
    judgements = judgements_of(task)
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
    if choice in CHOICES and not form.is_valid():
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


def _besides(request: HttpRequest, task: Task, judgements: list[Judgement], n: int) -> RatingForm:
    """Return the form of questions besides the choice; attention checks stand at one pair of the task."""
    questions = [one for one in asked_after_of(task.participant, task.version) if not one.is_rated]
    if check_place(task, judgements) != n - 1:
        questions = [one for one in questions if not one.is_check]
    return RatingForm(questions, request.POST if request.method == "POST" else None)


def _pair(judgement: Judgement) -> tuple[Slot, Slot]:
    first, second = judgement.slots
    return first, second


def _page(
    request: HttpRequest,
    task: Task,
    visit: Visit,
    judgements: list[Judgement],
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
        **aside_shown([chat for _side, chat in sides], version),
        "choice": request.POST.get("choice", ""),
        "others": others,
        "passing": right_of(task.participant, others),
        "wrong": wrong,
        "some_refused": any(one.given for one in wrong),
        "way": way_at(study, "arena"),
        **report_shown(version, reports[0]),
        "reports": [
            (side, chat, address, turns_reported(chat))
            for (side, chat), address in zip(sides, reports, strict=True)
        ],
    }
    return render(request, "participant/arena.html", context)
