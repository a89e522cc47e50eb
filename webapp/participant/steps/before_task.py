"""Steps before a task: consent, instructions, questionnaire, and quiz.

The instructions are the second half of the consent page. All quiz answers must be right, at the first or the second
try.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.core.language import LANGUAGES
from webapp.participant.access import ParticipantRequest, study_page
from webapp.participant.entry import EntryRequest, describe_work
from webapp.participant.page_texts import consent_texts, header_progress, study_texts
from webapp.participant.question_view import (
    Given,
    QuestionShown,
    get_passing_answers,
    questions_before_task,
    questions_shown,
    read_answer,
)
from webapp.participant.recruitment_links import recruitment_read, recruitment_sign
from webapp.participant.services import BAD_LINK, questions_answer, quiz_answer
from webapp.participant.sitting_texts import all_parts_pay, sitting_lines
from webapp.participant.steps.base import ParticipantStep, Standing, TaskStep, next_step, register_step, standing_open
from webapp.studies.assignment.choices import choices_of, lets_choose
from webapp.studies.languages import question_told, text_told
from webapp.studies.models import Outcome
from webapp.studies.pre_task import DueQuiz
from webapp.studies.questions import Question
from webapp.studies.recruitment.owed import pay_for_ending
from webapp.studies.selectors import questions_answered, sitting_next


@register_step
class ConsentStep(ParticipantStep):
    """Consent to all tasks of the study. Without consent, the visit ends."""

    name = "consent"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is None or standing.task.outcome != Outcome.NO_CONSENT

    def is_completed(self, standing: Standing) -> bool:
        return standing.participant is not None and standing.participant.consented_at is not None

    def is_open(self, standing: Standing) -> bool:
        return True

    def address(self, standing: Standing, visit: ParticipantRequest, *, note: str = "", n: int = 0) -> str:
        return visit.link("entry", standing.study.key)

    def urls(self) -> list[URLPattern]:
        return [path("s/<slug:study_key>/", self.view(study_page), name="entry")]

    def get(self) -> HttpResponse:
        """Show consent and instructions.

        Nothing is stored: link previews must not use up places.
        """
        request, study = self.request, self.standing.study
        arrival = EntryRequest(request, study, self.visit, recruitment_read(study, request.GET))
        refusal = None
        if problem := arrival.recruitment.problem_for(arrival.participant):
            refusal = Refused(problem, str(BAD_LINK))
        elif (moved := arrival.moved_page()) is not None:
            return moved
        else:
            # "Read the consent again", for visitors who declined.
            ended = arrival.ended_page(may_agree="again" in request.GET)
            if ended is not None:
                return ended
            refusal = arrival.refusal()
        page = arrival.refused_page(refusal) if refusal else entry_page(arrival)
        if "chosen" not in request.GET:
            arrival.opened(refusal)
        return page


def entry_page(arrival: EntryRequest, **errors: Any) -> HttpResponse:
    """Return the page.

    Args:
        errors: `page_error` above the whole page, `consent_error` or `notice_error` next to its box.
    """
    visit, recruitment = arrival.shown_visit, arrival.recruitment
    if lets_choose(arrival.study) and not recruitment.nonce:
        # The number of a choice is valid only with the same form.
        recruitment = replace(recruitment, nonce=secrets.token_urlsafe(16))
    # Only the session or the token opens a chat, not a platform id in a link.
    participant = arrival.participant if arrival.is_theirs and not errors else None
    going_on = standing_open(participant) if participant else None
    if going_on and going_on.task and recruitment.submission:
        # Another visit of the same participant is paid separately and starts again.
        going_on = going_on if going_on.task.submission == recruitment.submission else None
    step = next_step(going_on) if going_on else None
    context = {
        **study_texts(arrival.study, arrival.study.version),
        **consent_texts(arrival.study.version),
        "work": describe_work(arrival.study, arrival.study.version),
        "visit": visit,
        "recruitment": recruitment,
        "entry_field": recruitment_sign(arrival.study, arrival.study.version, recruitment),
        "is_preview": recruitment.is_preview,
        "device_link": _device_link(arrival),
        "choices": choices_of(arrival.study, arrival.participant, recruitment.nonce),
        "part_lines": sitting_lines(arrival.study.values),
        "all_pay": all_parts_pay(arrival.study.values),
        "due": sitting_next(arrival.study, arrival.participant) if arrival.participant else None,
        "continue_url": step.address(going_on, visit) if step and going_on else "",
        "way": header_progress(arrival.study, "consent"),
        "languages": _languages(arrival),
        **errors,
    }
    return render(arrival.request, "participant/entry.html", context)


def _languages(arrival: EntryRequest) -> list[tuple[str, str, str]]:
    """Return code, native name and address of each language.

    Empty without a choice and after consent.
    """
    person, offered = arrival.participant, arrival.study.values.texts.languages
    has_agreed = person is not None and person.consented_at is not None
    if len(offered) < 2 or has_agreed or arrival.request.method != "GET":
        return []
    query = arrival.request.GET.copy()
    query["chosen"] = "1"  # not counted as another opening of the link
    choices = []
    for code in sorted(offered):
        query["lang"] = code
        choices.append((code, LANGUAGES[code], f"?{query.urlencode()}"))
    return choices


def _device_link(arrival: EntryRequest) -> str:
    """Return the visitor's link for another device.

    Empty if the study accepts all devices.
    """
    recruitment = arrival.study.values.recruitment
    needs_some = recruitment.least_width or recruitment.needs_keyboard
    return arrival.request.build_absolute_uri() if needs_some and arrival.request.method == "GET" else ""


@register_step
class InstructionsStep(ConsentStep):
    """Instructions before the first task, on the consent page."""

    name = "instructions"

    def is_applicable(self, standing: Standing) -> bool:
        return True

    def is_completed(self, standing: Standing) -> bool:
        return standing.task is not None

    def urls(self) -> list[URLPattern]:
        return []


@register_step
class QuestionnaireStep(TaskStep):
    """Questions before the task, once for all tasks of a participant.

    Stored answers cannot be changed here.
    """

    name = "questions"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.is_open and bool(standing.version.values.questions)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return questions_answered(standing.participant, standing.version)

    def get(self) -> HttpResponse:
        return self._page({}, {})

    def post(self) -> HttpResponse:
        answers = {
            question.key: read_answer(self.request.POST, question, question.column) for question in self._questions
        }
        try:
            questions_answer(task=self.task, answers=answers)
        except Refused as refused:
            if refused.code != "bad_answers":
                return redirect(self.visit.link("entry", self.standing.study.key))
            return self._page(answers, refused.details["errors"])
        return self.onward()

    @cached_property
    def _questions(self) -> list[Question]:
        return questions_before_task(self.task.participant, self.task.version)

    def _page(self, answers: Mapping[str, Given], errors: Mapping[str, str]) -> HttpResponse:
        questions = [
            QuestionShown(
                number, question, question.column, answers.get(question.key, ""), errors.get(question.key, "")
            )
            for number, question in enumerate(self._questions, start=1)
        ]
        return self.render(**questions_shown(questions), passing=get_passing_answers(self.task.participant, questions))


@register_step
class QuizStep(TaskStep):
    """Quiz about the instructions, once for all tasks of a participant."""

    name = "quiz"

    def is_completed(self, standing: Standing) -> bool:
        return standing.quiz is None

    @property
    def _due(self) -> DueQuiz:
        assert self.standing.quiz is not None
        return self.standing.quiz

    def get(self) -> HttpResponse:
        due = self._due
        if due.attempt == 1:
            return self._page([], {})
        n_points = len(study_texts(self.standing.study, self.standing.version)["instructions"])
        version = self.standing.version
        hints = {
            index: _hint(question.point, text_told(question.why, version), n_points)
            for index, question in enumerate(due.questions)
            if index not in due.right
        }
        return self._page(list(due.before), hints, is_missed=True)

    def post(self) -> HttpResponse:
        sent = self.request.POST
        answers = [sent.get(_field(index), "") for index in range(len(self._due.questions))]
        try:
            quiz_answer(task=self.task, quiz=sent.get("_quiz", ""), attempt=self.attempt, answers=answers)
        except Refused as refused:
            if refused.code == "bad_answers":
                missing = _("Please answer this question.")
                return self._page(answers, dict.fromkeys(refused.details["errors"], missing))
        return self.onward()

    def _page(self, answers: Sequence[str], errors: Mapping[int, str], *, is_missed: bool = False) -> HttpResponse:
        due = self._due
        version = self.standing.version
        questions = [
            QuestionShown(
                index + 1,
                question_told(question.to_question(index + 1), version),
                _field(index),
                answers[index] if answers else "",
                errors.get(index, ""),
            )
            for index, question in enumerate(due.questions)
        ]
        missed = [question for index, question in enumerate(due.questions) if index not in due.right]
        return self.render(
            **questions_shown(questions),
            due=due,
            asked=[(question, index in due.right) for index, question in enumerate(questions)],
            is_missed=is_missed,
            n_missed=len(missed),
            n_kept=len(due.right),
            marked={question.point for question in missed} if due.attempt > 1 else set(),
            pay=pay_for_ending(self.standing.version.values, Outcome.SCREENED_OUT).text,
            # A rehearsal continues with the next step, because scripted participants know nothing.
            passing=[(_field(index), question.right) for index, question in enumerate(due.questions)]
            if self.task.participant.is_synthetic
            else [],
        )


def _field(index: int) -> str:
    return f"quiz_{index + 1}"


def _hint(point: int, explanation: str, n_points: int) -> str:
    """Return the hint next to a question with a wrong answer."""
    if explanation and 0 < point <= n_points:
        return _("Not quite. %(why)s Look at point %(point)d above and choose again.") % {
            "why": explanation,
            "point": point,
        }
    if explanation:
        return _("Not quite. %(why)s Choose again.") % {"why": explanation}
    return _("Not quite. Look at point %(point)d above and choose again.") % {"point": point}
