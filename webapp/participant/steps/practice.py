"""Practise on pairs with known answers: they look as those that count, and all of them must be right."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.participant.access import Visit, task_page
from webapp.participant.asked import asked_after_of
from webapp.participant.judged import practice_shown
from webapp.participant.presentation import study_texts, way_at
from webapp.participant.sheets.base import Asked, SheetForm, sheets
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.ratings.judging import Judgement
from webapp.ratings.models import Rating
from webapp.studies.models import Task
from webapp.studies.practising import Practice as Due
from webapp.studies.practising import practice_answer, practice_due
from webapp.studies.protocols.base import protocols

_SHEET = "pair"


@register_step
class Practice:
    """Answer each practice pair rightly, at the first or the second attempt."""

    name = "practice"

    def is_applicable(self, standing: Standing) -> bool:
        is_open = standing.task is not None and standing.task.state == Task.State.OPEN
        return is_open and bool(standing.version.values.training.training_pairs)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return practice_due(standing.participant, standing.version) is None

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.task is not None
        return visit.link("practice", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def practice(request: HttpRequest, task: Task, visit: Visit) -> HttpResponse:
    """Show the pair that is due, or take the answers about it."""
    standing = standing_of(task)
    due = practice_due(task.participant, task.version)
    if (
        task.state != Task.State.OPEN
        or not is_on_way(standing, Practice.name)
        or step_before(Practice.name, standing)
        or due is None
    ):
        return to_next_step(standing, visit)
    form = _form(task, due, request)
    if request.method == "POST" and form.is_valid():
        with suppress(Refused):  # whatever is due now is shown
            practice_answer(
                task=task,
                attempt=_number(request.POST.get("_attempt", "")),
                pair=request.POST.get("_pair", ""),
                answers=form.answers,
            )
        task.refresh_from_db()
        if task.state != Task.State.OPEN or practice_due(task.participant, task.version) is None:
            return to_next_step(standing_of(task), visit)
        return redirect(visit.link("practice", task.public_id))
    return _page(request, task, visit, due, form)


def _form(task: Task, due: Due, request: HttpRequest) -> SheetForm:
    before = Rating(answers=due.before) if due.before is not None else None
    questions = asked_after_of(task.participant, task.version)
    scales = [question for question in questions if question.is_rated]
    asked = Asked(task.version.rubric, scales, Judgement((), before), task.version)
    form = sheets.get(_SHEET).form(asked, request.POST if request.method == "POST" else None)
    if request.method != "POST" and due.before is not None:
        wrong = _("Not quite. Choose again.")
        form.is_valid()
        form.refuse(dict.fromkeys(due.pair.missed(due.before), wrong))
    return form


def _right(due: Due) -> str:
    sides = {"first": "a", "same": "same", "second": "b"}
    # In one order on every database.
    return urlencode({key: sides[which] for key, which in sorted(due.pair.answers.items())})


def _number(text: str) -> int:
    return int(text) if text in ("1", "2") else 0


def _page(
    request: HttpRequest, task: Task, visit: Visit, due: Due, form: SheetForm
) -> HttpResponse:
    study, version = task.participant.study, task.version
    page = protocols.get(study.protocol).page
    questions = form.questions()
    wrong = [question for question in questions if question.errors]
    is_missed = request.method != "POST" and due.attempt > 1
    context = {
        **study_texts(study, version),
        "visit": visit,
        "task": task,
        "page": page,
        "partial": "participant/judge/pair.html",
        "n": due.place,
        "of": due.of,
        "count": _("Practice %(n)s of %(of)s") % {"n": due.place, "of": due.of},
        "segments": [place < due.place for place in range(1, due.of + 1)],
        "judged": practice_shown(due.pair),
        "form": form,
        "questions": questions,
        "wrong": [] if is_missed else wrong,
        "practice": due,
        "is_missed": is_missed,
        # A rehearsal continues with the next step; scripted participants know nothing.
        "right": _right(due) if task.participant.is_synthetic else "",
        "way": way_at(study, "practice"),
    }
    return render(request, "participant/practice.html", context)
