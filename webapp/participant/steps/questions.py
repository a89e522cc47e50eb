"""Questions about the participant before the task, on one page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.participant.access import Visit, task_page
from webapp.participant.asked import (
    Given,
    QuestionShown,
    asked_before_of,
    asked_shown,
    given_in,
    right_of,
)
from webapp.participant.presentation import study_texts, way_at
from webapp.participant.steps.base import (
    Standing,
    register_step,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.studies.answering import question_answers_store
from webapp.studies.models import Task
from webapp.studies.protocols.base import asks_questions
from webapp.studies.selectors import questions_answered


@register_step
class Questions:
    """Answer the version's questions, once for all tasks of a participant."""

    name = "questions"

    def is_applicable(self, standing: Standing) -> bool:
        is_open = standing.task is not None and standing.task.state == Task.State.OPEN
        return is_open and bool(standing.version.values.questions)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return questions_answered(standing.participant, standing.version)

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.task is not None
        return visit.link("questions", standing.task.public_id)


def questions_due(standing: Standing) -> bool:
    """Return True if the participant must answer questions before anything else of the task."""
    step = Questions()
    if not step.is_applicable(standing) or not asks_questions(standing.study.protocol):
        return False
    return not step.is_completed(standing)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def questions(request: HttpRequest, task: Task, visit: Visit) -> HttpResponse:
    """Show the questions, or store the answers; stored ones cannot be changed here."""
    standing = standing_of(task)
    if step_before(Questions.name, standing) or not questions_due(standing):
        return to_next_step(standing, visit)
    asked = asked_before_of(task.participant, task.version)
    given: dict[str, Given] = {}
    errors: dict[str, str] = {}
    if request.method == "POST":
        given = {one.key: given_in(request.POST, one, one.column) for one in asked}
        try:
            question_answers_store(task=task, answers=given)
        except Refused as refused:
            if refused.code != "bad_answers":
                return redirect(visit.link("entry", standing.study.key))
            errors = refused.details["errors"]
        else:
            return to_next_step(standing, visit)
    shown = [
        QuestionShown(number, one, one.column, given.get(one.key, ""), errors.get(one.key, ""))
        for number, one in enumerate(asked, start=1)
    ]
    context = {
        **study_texts(standing.study, standing.version),
        "visit": visit,
        "task": task,
        **asked_shown(shown),
        "passing": right_of(task.participant, shown),
        "way": way_at(standing.study, "questions"),
    }
    return render(request, "participant/questions.html", context)
