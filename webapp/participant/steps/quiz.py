"""Answer questions about the instructions; all must be right, at the first or the second try."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.participant.access import Visit, task_page
from webapp.participant.asked import QuestionShown, asked_shown
from webapp.participant.presentation import study_texts, way_at
from webapp.participant.services import quiz_answer
from webapp.participant.steps.base import (
    Standing,
    register_step,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.studies.checking import QuizQuestion
from webapp.studies.models import Task
from webapp.studies.quizzing import QuizDue, quiz_due


@register_step
class Quiz:
    """Pass the quiz about the instructions, once for all tasks of a participant."""

    name = "quiz"

    def is_applicable(self, standing: Standing) -> bool:
        is_open = standing.task is not None and standing.task.state == Task.State.OPEN
        return is_open and bool(standing.version.values.checking.quiz_questions)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return quiz_due(standing.participant, standing.version) is None

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.task is not None
        return visit.link("quiz", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def quiz(request: HttpRequest, task: Task, visit: Visit) -> HttpResponse:
    """Show the questions that are still to be answered, or take the answers."""
    standing = standing_of(task)
    is_open = task.state == Task.State.OPEN and not step_before(Quiz.name, standing)
    due = quiz_due(task.participant, task.version) if is_open else None
    if due is None:
        return to_next_step(standing, visit)
    if request.method != "POST":
        return _page(request, task, visit, due, list(due.before), [])
    given = [request.POST.get(_field(at), "") for at in range(len(due.questions))]
    attempt = request.POST.get("_attempt", "")
    try:
        quiz_answer(
            task=task,
            quiz=request.POST.get("_quiz", ""),
            attempt=int(attempt) if attempt in ("1", "2") else 0,
            answers=given,
        )
    except Refused as refused:
        if refused.code == "bad_answers":
            return _page(request, task, visit, due, given, refused.details["errors"])
    task.refresh_from_db()
    if task.state != Task.State.OPEN or quiz_due(task.participant, task.version) is None:
        return to_next_step(standing_of(task), visit)
    return redirect(visit.link("quiz", task.public_id))


def _field(at: int) -> str:
    return f"quiz_{at + 1}"


def _page(
    request: HttpRequest,
    task: Task,
    visit: Visit,
    due: QuizDue,
    given: list[str],
    missing: list[int],
) -> HttpResponse:
    study, version = task.participant.study, task.version
    is_missed = due.attempt > 1 and request.method != "POST"
    texts = study_texts(study, version)
    told = dict.fromkeys(missing, _("Please answer this question."))
    if is_missed:
        told = {
            at: _hint(one, len(texts["instructions"]))
            for at, one in enumerate(due.questions)
            if at not in due.right
        }
    shown = [
        QuestionShown(
            at + 1,
            one.asked(at + 1),
            _field(at),
            given[at] if given else "",
            told.get(at, ""),
        )
        for at, one in enumerate(due.questions)
    ]
    missed = [one for at, one in enumerate(due.questions) if at not in due.right]
    context = {
        **texts,
        "visit": visit,
        "task": task,
        "due": due,
        "asked": [(one, at in due.right) for at, one in enumerate(shown)],
        **asked_shown(shown),
        "is_missed": is_missed,
        "n_missed": len(missed),
        "n_kept": len(due.right),
        "marked": {one.point for one in missed} if due.attempt > 1 else set(),
        "pay": version.values.checking.screened_out_pay,
        # A rehearsal continues with the next step; scripted participants know nothing.
        "passing": [(_field(at), one.right) for at, one in enumerate(due.questions)]
        if task.participant.is_synthetic
        else [],
        "way": way_at(study, "quiz"),
    }
    return render(request, "participant/quiz.html", context)


def _hint(one: QuizQuestion, n_points: int) -> str:
    """Return the hint next to a question with a wrong answer."""
    if one.why and 0 < one.point <= n_points:
        return _("Not quite. %(why)s Look at point %(point)d above and choose again.") % {
            "why": one.why,
            "point": one.point,
        }
    if one.why:
        return _("Not quite. %(why)s Choose again.") % {"why": one.why}
    return _("Not quite. Look at point %(point)d above and choose again.") % {"point": one.point}
