"""Rating step for items, conversations and pairs, and its practice.

All protocols use the same page: progress, the conversation so far, the rated object, questions, Back and Next. The
protocol provides its words, the partial of the rated object and the question form. A practice page looks like a real
one, and all of its answers must be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import ceil
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.participant.question_forms.base import FormContext, SheetForm, sheets
from webapp.participant.question_forms.pairwise import PairForm
from webapp.participant.question_view import QuestionShown, RatingForm, get_passing_answers, questions_after_task
from webapp.participant.rating_view import judged_shown, practice_shown
from webapp.participant.reply_reports import places_reported, report_shown
from webapp.participant.steps.base import Standing, TaskStep, register_step
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import RequestedRating, check_place
from webapp.ratings.services import rating_add
from webapp.studies.models import Outcome
from webapp.studies.pre_task import DuePractice, practice_answer
from webapp.studies.protocols.base import JudgePage, protocols
from webapp.studies.questions import Question
from webapp.studies.recruitment.owed import pay_for_ending

_MOST_SEGMENTS = 12
_GONE = "gone"


class RatingsStep(TaskStep):
    """Base of a step with one rating after another."""

    def is_completed(self, standing: Standing) -> bool:
        return all(judgement.rating for judgement in standing.judgements)

    @property
    def judgements(self) -> list[RequestedRating]:
        """Everything that the task asks the participant to rate, in order."""
        return self.standing.judgements

    @cached_property
    def n_current(self) -> int:
        """Number of the first unrated judgement, from 1."""
        return next(n for n, judgement in enumerate(self.judgements, start=1) if judgement.rating is None)

    @property
    def sent(self) -> Mapping[str, Any] | None:
        """Fields of the submitted form; None if none was submitted."""
        return self.request.POST if self.request.method == "POST" else None

    def questions_at(self, n: int) -> list[Question]:
        """Return the questions about one judgement.

        Attention checks are asked at one position of the task.
        """
        questions = questions_after_task(self.task.participant, self.task.version)
        if check_place(self.task, self.judgements) == n - 1:
            return questions
        return [question for question in questions if not question.is_check]

    def segments(self, are_done: Iterable[bool]) -> list[bool]:
        """Return the segments of the progress bar.

        None if there are too many.
        """
        return list(are_done) if len(self.judgements) <= _MOST_SEGMENTS else []


@register_step
class JudgeStep(RatingsStep):
    """Answers to the protocol's questions about each item in turn.

    Every answer is stored immediately.
    """

    name = "judge"

    def get(self) -> HttpResponse:
        """Show the next judgement, or an earlier one."""
        n = self._number(self.request.GET.get("n", ""))
        return self.again() if self._is_ahead(n) else self._page(n, *self._forms(n))

    def post(self) -> HttpResponse:
        """Store the answers of one judgement."""
        n = self._number(self.request.POST.get("_n", ""))
        if requested_key := self.request.POST.get("_of"):
            # Numbers change when an earlier judgement is deleted; the target of an answer does not.
            by_key = {judgement.key: number for number, judgement in enumerate(self.judgements, start=1)}
            if requested_key not in by_key:
                # The judged content is deleted: its participant has withdrawn.
                return self.again(note=_GONE)
            n = by_key[requested_key]
        if self._is_ahead(n):
            return self.again()
        form, other_form = self._forms(n)
        try:
            self._store(n, form, other_form)
        except Refused as refused:
            return self._page(n, form, other_form) if refused.code == "bad_answers" else self.onward()
        if n < self.n_current:
            return self.again(n=n + 1)
        return self.again() if n < len(self.judgements) else self.onward()

    def _number(self, requested: str) -> int:
        """Return the number of the requested judgement.

        By default the first one without a rating.
        """
        numbers = {str(n): n for n in range(1, len(self.judgements) + 1)}
        return numbers.get(requested, self.n_current)

    def _is_ahead(self, n: int) -> bool:
        """Return True if this unrated judgement is not the next one."""
        return self.judgements[n - 1].rating is None and n != self.n_current

    @property
    def _layout(self) -> JudgePage:
        protocol = protocols.get(self.standing.study.protocol)
        assert protocol.page is not None, f"{protocol.name} has the step judge and no page"
        return protocol.page

    def _forms(self, n: int) -> tuple[SheetForm, RatingForm]:
        """Return the question form, and the form of further questions below it."""
        questions, judgement = self.questions_at(n), self.judgements[n - 1]
        rubric = protocols.get(self.standing.study.protocol).form(self.task.version)
        scales = [question for question in questions if question.is_rated]
        other_questions = [question for question in questions if not question.is_rated]
        context = FormContext(rubric, scales, judgement, self.task.version)
        form = sheets.get(self._layout.sheet).form(context, self.sent)
        stored = judgement.rating.other_answers if judgement.rating else None
        first_number = len(form.questions()) + 1
        return form, RatingForm(other_questions, self.sent or stored, first_number=first_number)

    def _store(self, n: int, form: SheetForm, other_form: RatingForm) -> None:
        """Store the answers of one judgement.

        Raises:
            Refused: `bad_answers`, with errors shown next to the forms' questions; and as in `rating_add`.
        """
        are_valid = form.is_valid(), other_form.is_valid()
        if not all(are_valid):
            raise Refused("bad_answers", "")
        answers = {**form.answers, **other_form.answers}
        target = self.judgements[n - 1].target
        try:
            rating_add(task=self.task, target=target, answers=answers, comment=form.comment)
        except Refused as refused:
            form.refuse(refused.details.get("errors", {}))
            raise

    def _passing(
        self, judgement: RequestedRating, form: SheetForm, other_questions: Sequence[QuestionShown]
    ) -> list[tuple[str, str]]:
        """Return the answers that pass the page's checks, by field.

        Empty unless the participant is scripted.
        """
        passing = get_passing_answers(self.task.participant, other_questions)
        item = judgement.slots[0].item
        if item is None or not item.expected or not self.task.participant.is_synthetic:
            return passing
        page_value = form.to_page_value if isinstance(form, PairForm) else "{:g}".format
        return [*passing, *((key, page_value(right[0])) for key, right in item.expected.items())]

    def _page(self, n: int, form: SheetForm, other_form: RatingForm) -> HttpResponse:
        task, version, page = self.task, self.standing.version, self._layout
        judgement, n_judgements = self.judgements[n - 1], len(self.judgements)
        questions, other_questions = form.questions(), other_form.questions()
        n_left = sum(each_judgement.rating is None for each_judgement in self.judgements)
        return self.render(
            page=page,
            partial=f"participant/judge/{page.template}.html",
            n=n,
            of=n_judgements,
            key=judgement.key,
            is_less=self.request.GET.get("note") == _GONE,
            count=page.count % {"n": n, "of": n_judgements},
            segments=self.segments(each_judgement.rating is not None for each_judgement in self.judgements),
            n_rated=n_judgements - n_left,
            # Share of the study's time left; all of it for a participant who has just started.
            minutes_left=ceil(version.values.texts.minutes * n_left / n_judgements),
            judged=judged_shown(task, judgement, self.judgements),
            is_saved=judgement.rating is not None,
            form=form,
            questions=questions,
            others=other_questions,
            passing=self._passing(judgement, form, other_questions),
            wrong=[question for question in [*questions, *other_questions] if question.errors],
            some_refused=any(question.error and question.answer for question in other_questions)
            or any(getattr(question, "is_refused", False) for question in questions),
            back_url=self.visit.link("judge", task.public_id, n=n - 1) if n > 1 else "",
            **report_shown(version, self.visit.link("task-report", task.public_id, n=n)),
            reported=places_reported(task, judgement),
        )


@register_step
class PracticeStep(TaskStep):
    """Practice pairs, each answered correctly at the first or second attempt."""

    name = "practice"

    def is_completed(self, standing: Standing) -> bool:
        return standing.practice is None

    @property
    def _due(self) -> DuePractice:
        assert self.standing.practice is not None
        return self.standing.practice

    def get(self) -> HttpResponse:
        form, before = self._form(None), self._due.before
        if before is None:
            return self._page(form)
        form.is_valid()
        form.refuse(dict.fromkeys(self._due.pair.missed(before), _("Not quite. Choose again.")))
        return self._page(form, is_missed=True)

    def post(self) -> HttpResponse:
        form = self._form(self.request.POST)
        if not form.is_valid():
            return self._page(form)
        with suppress(Refused):  # the current practice is shown
            practice_answer(
                task=self.task, attempt=self.attempt, pair=self.request.POST.get("_pair", ""), answers=form.answers
            )
        return self.onward()

    def _form(self, sent: Mapping[str, Any] | None) -> SheetForm:
        before, version = self._due.before, self.task.version
        stored = Rating(answers=before) if before is not None else None
        questions = questions_after_task(self.task.participant, version)
        scales = [question for question in questions if question.is_rated]
        context = FormContext(version.rubric, scales, RequestedRating((), stored), version)
        return sheets.get("pair").form(context, sent)

    def _page(self, form: SheetForm, *, is_missed: bool = False) -> HttpResponse:
        due, questions = self._due, form.questions()
        wrong = [question for question in questions if question.errors]
        return self.render(
            page=protocols.get(self.standing.study.protocol).page,
            partial="participant/judge/pair.html",
            n=due.place,
            of=due.n_pairs,
            count=_("Practice %(n)s of %(of)s") % {"n": due.place, "of": due.n_pairs},
            segments=[place < due.place for place in range(1, due.n_pairs + 1)],
            judged=practice_shown(due.pair, self.standing.version.values),
            form=form,
            questions=questions,
            wrong=[] if is_missed else wrong,
            practice=due,
            pay=pay_for_ending(self.standing.version.values, Outcome.SCREENED_OUT).text,
            is_missed=is_missed,
            # A rehearsal continues with the next step, because scripted participants know nothing.
            right=_right(due) if self.task.participant.is_synthetic else "",
        )


def _right(due: DuePractice) -> str:
    sides = {"first": "a", "same": "same", "second": "b"}
    # The order must not depend on the database.
    return urlencode({key: sides[which] for key, which in sorted(due.pair.answers.items())})
