"""Steps before a task: consent, instructions, questionnaire, and quiz.

The points of the instructions are the second half of the page that asks for consent. All answers of the quiz must
be right, at the first or the second try.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from webapp.core.errors import Refused
from webapp.participant.access import ParticipantRequest, study_page, task_page
from webapp.participant.entry import EntryRequest, work_of
from webapp.participant.page_texts import consent_texts, header_progress, study_texts
from webapp.participant.question_view import (
    Given,
    QuestionShown,
    questions_before_task,
    questions_shown,
    read_answer,
    right_of,
)
from webapp.participant.recruitment_links import recruitment_read, recruitment_sign
from webapp.participant.services import quiz_answer
from webapp.participant.steps.base import (
    Standing,
    next_step,
    register_step,
    standing_of,
    standing_open,
    step_before,
    to_next_step,
)
from webapp.studies.assignment.draw import choices_of, lets_choose
from webapp.studies.attention_checks import QuizQuestion
from webapp.studies.models import Outcome, Study, Task
from webapp.studies.pre_task import DueQuiz, question_answers_store, quiz_due
from webapp.studies.protocols.base import asks_questions
from webapp.studies.selectors import questions_answered


@register_step
class ConsentStep:
    """Agree to take part, once for all tasks of the study; or do not, which is the end of the visit."""

    name = "consent"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is None or standing.task.outcome != Outcome.NO_CONSENT

    def is_completed(self, standing: Standing) -> bool:
        return standing.participant is not None and standing.participant.consented_at is not None

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        return visit.link("entry", standing.study.key)


@require_safe
@study_page
def entry(request: HttpRequest, study: Study, visit: ParticipantRequest) -> HttpResponse:
    """Show consent and instructions. Creates nothing: link previews must not use up places."""
    arrival = EntryRequest(request, study, visit, recruitment_read(study, request.GET))
    refusal = None
    if problem := arrival.recruitment.problem_for(arrival.participant):
        refusal = Refused(problem, _("This link cannot be used to start."))
    elif (moved := arrival.moved_page()) is not None:
        return moved
    else:
        # "Read the consent again", of those who did not agree.
        ended = arrival.ended_page(may_agree="again" in request.GET)
        if ended is not None:
            return ended
        refusal = arrival.refusal()
    page = arrival.refused_page(refusal) if refusal else entry_page(arrival)
    arrival.opened(refusal)
    return page


def entry_page(arrival: EntryRequest, **errors: Any) -> HttpResponse:
    """Return the page.

    Args:
        errors: `page_error` above all of it, `consent_error` or `notice_error` beside that box.
    """
    visit, recruitment = arrival.visit, arrival.recruitment
    if lets_choose(arrival.study) and not recruitment.nonce:
        # The number of a choice is valid only with the same form.
        recruitment = replace(recruitment, nonce=secrets.token_urlsafe(16))
    # A platform id in a link does not open a chat: only the session or the token does.
    mine = arrival.participant if arrival.is_theirs and not errors else None
    going_on = standing_open(mine) if mine else None
    if going_on and going_on.task and recruitment.submission:
        # Another visit of the same person is paid separately, and begins again.
        going_on = going_on if going_on.task.submission == recruitment.submission else None
    step = next_step(going_on) if going_on else None
    context = {
        **study_texts(arrival.study, arrival.study.version),
        **consent_texts(arrival.study.version),
        "work": work_of(arrival.study, arrival.study.version),
        "visit": visit,
        "recruitment": recruitment,
        "entry_field": recruitment_sign(arrival.study, arrival.study.version, recruitment),
        "is_preview": recruitment.is_preview,
        "choices": choices_of(arrival.study, arrival.participant, recruitment.nonce),
        "continue_url": step.address(going_on, visit) if step and going_on else "",
        "way": header_progress(arrival.study, "consent"),
        **errors,
    }
    return render(arrival.request, "participant/entry.html", context)


@register_step
class InstructionsStep:
    """Instructions before the first task."""

    name = "instructions"

    def is_applicable(self, standing: Standing) -> bool:
        return True

    def is_completed(self, standing: Standing) -> bool:
        return standing.task is not None

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        return visit.link("entry", standing.study.key)


@register_step
class QuestionnaireStep:
    """Answer the version's questions, once for all tasks of a participant."""

    name = "questions"

    def is_applicable(self, standing: Standing) -> bool:
        is_open = standing.task is not None and standing.task.state == Task.State.OPEN
        return is_open and bool(standing.version.values.questions)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return questions_answered(standing.participant, standing.version)

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.task is not None
        return visit.link("questions", standing.task.public_id)


def questions_due(standing: Standing) -> bool:
    """Return True if the participant must answer questions before anything else of the task."""
    step = QuestionnaireStep()
    if not step.is_applicable(standing) or not asks_questions(standing.study.protocol):
        return False
    return not step.is_completed(standing)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def questions(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Show the questions, or store the answers; stored ones cannot be changed here."""
    standing = standing_of(task)
    if step_before(QuestionnaireStep.name, standing) or not questions_due(standing):
        return to_next_step(standing, visit)
    asked = questions_before_task(task.participant, task.version)
    given: dict[str, Given] = {}
    errors: dict[str, str] = {}
    if request.method == "POST":
        given = {one.key: read_answer(request.POST, one, one.column) for one in asked}
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
        **questions_shown(shown),
        "passing": right_of(task.participant, shown),
        "way": header_progress(standing.study, "questions"),
    }
    return render(request, "participant/questions.html", context)


@register_step
class QuizStep:
    """Pass the quiz about the instructions, once for all tasks of a participant."""

    name = "quiz"

    def is_applicable(self, standing: Standing) -> bool:
        is_open = standing.task is not None and standing.task.state == Task.State.OPEN
        return is_open and bool(standing.version.values.checking.quiz_questions)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return quiz_due(standing.participant, standing.version) is None

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.task is not None
        return visit.link("quiz", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def quiz(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Show the questions that are still to be answered, or take the answers."""
    standing = standing_of(task)
    is_open = task.state == Task.State.OPEN and not step_before(QuizStep.name, standing)
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
    visit: ParticipantRequest,
    due: DueQuiz,
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
        **questions_shown(shown),
        "is_missed": is_missed,
        "n_missed": len(missed),
        "n_kept": len(due.right),
        "marked": {one.point for one in missed} if due.attempt > 1 else set(),
        "pay": version.values.checking.screened_out_pay,
        # A rehearsal continues with the next step; scripted participants know nothing.
        "passing": [(_field(at), one.right) for at, one in enumerate(due.questions)]
        if task.participant.is_synthetic
        else [],
        "way": header_progress(study, "quiz"),
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
