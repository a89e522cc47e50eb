"""Rating step for items, conversations and pairs, and its practice.

The page is the same for all protocols: progress, the conversation so far, what is rated, questions, Back and Next.
Its words, the partial that shows what is rated and the form with the questions are the protocol's. A practice page
looks like a page that counts, and all of its answers must be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.participant.access import ParticipantRequest, task_page
from webapp.participant.page_texts import header_progress, study_texts
from webapp.participant.question_forms.base import FormContext, SheetForm, sheets
from webapp.participant.question_forms.pairwise import PairForm
from webapp.participant.question_view import (
    QuestionShown,
    RatingForm,
    questions_after_task,
    right_of,
)
from webapp.participant.rating_view import judged_shown, practice_shown
from webapp.participant.reply_reports import places_reported, report_shown
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import RequestedRating, check_place, requested_ratings
from webapp.ratings.services import rating_add
from webapp.studies.models import Task
from webapp.studies.pre_task import DuePractice as Due
from webapp.studies.pre_task import practice_answer, practice_due
from webapp.studies.protocols.base import JudgePage, protocols

_MOST_SEGMENTS = 12
_GONE = "gone"


@register_step
class JudgeStep:
    """Answer the protocol's questions about each thing in turn; every answer is stored at once."""

    name = "judge"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is not None and bool(requested_ratings(standing.task))

    def is_completed(self, standing: Standing) -> bool:
        assert standing.task is not None
        is_over = standing.task.state != Task.State.OPEN
        return is_over or all(one.rating for one in requested_ratings(standing.task))

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.task is not None
        return visit.link("judge", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def judge(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Show the next judgement or an earlier one, or store the answers of one."""
    standing = standing_of(task)
    if not is_on_way(standing, JudgeStep.name) or step_before(JudgeStep.name, standing):
        return to_next_step(standing, visit)
    judgements = requested_ratings(task)
    unrated = [n for n, one in enumerate(judgements, start=1) if one.rating is None]
    if task.state != Task.State.OPEN or not unrated:
        return to_next_step(standing, visit)
    keys = {one.key for one in judgements}
    if request.method == "POST" and request.POST.get("_of", "") not in {"", *keys}:
        # The judged content is deleted: its participant has withdrawn.
        return redirect(visit.link("judge", task.public_id, note=_GONE))
    asked = request.POST.get("_n", "") if request.method == "POST" else request.GET.get("n", "")
    numbers = {str(number): number for number in range(1, len(judgements) + 1)}
    if request.method == "POST" and (named := request.POST.get("_of")):
        # Numbers change when something before is deleted; what an answer is about does not.
        asked = next(str(n) for n, one in enumerate(judgements, start=1) if one.key == named)
    n = numbers.get(asked, unrated[0])
    if judgements[n - 1].rating is None and n != unrated[0]:  # they come in their order
        return redirect(visit.link("judge", task.public_id))
    form, beside = _forms(request, task, judgements, n)
    if request.method != "POST":
        return _page(request, task, visit, judgements, n, form, beside)
    try:
        _store(task, judgements[n - 1], form, beside)
    except Refused as refused:
        if refused.code != "bad_answers":
            task.refresh_from_db()
            return to_next_step(standing_of(task), visit)
        return _page(request, task, visit, judgements, n, form, beside)
    if n < unrated[0]:
        return redirect(visit.link("judge", task.public_id, n=n + 1))
    if n < len(judgements):
        return redirect(visit.link("judge", task.public_id))
    task.refresh_from_db()
    return to_next_step(standing_of(task), visit)


def _forms(
    request: HttpRequest, task: Task, judgements: list[RequestedRating], n: int
) -> tuple[SheetForm, RatingForm]:
    """Return the sheet, and the form of the questions besides scales, which stands below every sheet."""
    rubric = protocols.get(task.participant.study.protocol).form(task.version)
    judgement = judgements[n - 1]
    questions = questions_after_task(task.participant, task.version)
    if check_place(task, judgements) != n - 1:
        questions = [question for question in questions if not question.is_check]
    scales = [question for question in questions if question.is_rated]
    others = [question for question in questions if not question.is_rated]
    sent = request.POST if request.method == "POST" else None
    sheet = sheets.get(_page_of(task).sheet)
    form = sheet.form(FormContext(rubric, scales, judgement, task.version), sent)
    stored = judgement.rating.other_answers if judgement.rating else None
    beside = RatingForm(others, sent or stored, first_number=len(form.questions()) + 1)
    return form, beside


def _passing(
    task: Task, judgement: RequestedRating, form: SheetForm, others: Sequence[QuestionShown]
) -> list[tuple[str, str]]:
    """Return the answers that pass the page's checks, by field; empty unless the participant is scripted."""
    item = judgement.slots[0].item
    if item is None or not item.expected or not task.participant.is_synthetic:
        return right_of(task.participant, others)
    right = {key: passing[0] for key, passing in item.expected.items()}
    shown = form.shown if isinstance(form, PairForm) else "{:g}".format
    return [
        *right_of(task.participant, others),
        *((key, shown(answer)) for key, answer in right.items()),
    ]


def _page_of(task: Task) -> JudgePage:
    protocol = protocols.get(task.participant.study.protocol)
    assert protocol.page is not None, f"protocol {protocol.name} has the step judge and no page"
    return protocol.page


def _store(task: Task, judgement: RequestedRating, form: SheetForm, beside: RatingForm) -> None:
    """Store the answers of one judgement.

    Raises:
        Refused: `bad_answers`, with errors shown next to the forms' questions; and as `rating_add`.
    """
    are_valid = form.is_valid(), beside.is_valid()
    if not all(are_valid):
        raise Refused("bad_answers", "")
    answers = {**form.answers, **beside.answers}
    try:
        rating_add(task=task, target=judgement.target, answers=answers, comment=form.comment)
    except Refused as refused:
        form.refuse(refused.details.get("errors", {}))
        raise


def _page(
    request: HttpRequest,
    task: Task,
    visit: ParticipantRequest,
    judgements: list[RequestedRating],
    n: int,
    form: SheetForm,
    beside: RatingForm,
) -> HttpResponse:
    study, version = task.participant.study, task.version
    page = _page_of(task)
    questions, others = form.questions(), beside.questions()
    n_left = sum(one.rating is None for one in judgements)
    is_few = len(judgements) <= _MOST_SEGMENTS
    context = {
        **study_texts(study, version),
        "visit": visit,
        "task": task,
        "page": page,
        "partial": f"participant/judge/{page.template}.html",
        "n": n,
        "of": len(judgements),
        "key": judgements[n - 1].key,
        "is_less": request.GET.get("note") == _GONE,
        "count": page.count % {"n": n, "of": len(judgements)},
        "segments": [one.rating is not None for one in judgements] if is_few else [],
        "n_rated": len(judgements) - n_left,
        # Of the study's time; a participant who has just begun has all of it left.
        "minutes_left": ceil(version.values.texts.minutes * n_left / len(judgements)),
        "judged": judged_shown(task, judgements[n - 1], judgements),
        "is_saved": judgements[n - 1].rating is not None,
        "form": form,
        "questions": questions,
        "others": others,
        "passing": _passing(task, judgements[n - 1], form, others),
        "wrong": [question for question in [*questions, *others] if question.errors],
        "some_refused": any(one.error and one.given for one in others),
        "back_url": visit.link("judge", task.public_id, n=n - 1) if n > 1 else "",
        "way": header_progress(study, "judge"),
        **report_shown(version, visit.link("task-report", task.public_id, n=n)),
        "reported": places_reported(task, judgements[n - 1]),
    }
    return render(request, "participant/judge.html", context)


_SHEET = "pair"


@register_step
class PracticeStep:
    """Answer each practice pair rightly, at the first or the second attempt."""

    name = "practice"

    def is_applicable(self, standing: Standing) -> bool:
        is_open = standing.task is not None and standing.task.state == Task.State.OPEN
        return is_open and bool(standing.version.values.training.training_pairs)

    def is_completed(self, standing: Standing) -> bool:
        assert standing.participant is not None
        return practice_due(standing.participant, standing.version) is None

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        assert standing.task is not None
        return visit.link("practice", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def practice(request: HttpRequest, task: Task, visit: ParticipantRequest) -> HttpResponse:
    """Show the pair that is due, or take the answers about it."""
    standing = standing_of(task)
    due = practice_due(task.participant, task.version)
    if (
        task.state != Task.State.OPEN
        or not is_on_way(standing, PracticeStep.name)
        or step_before(PracticeStep.name, standing)
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
    return _render_practice(request, task, visit, due, form)


def _form(task: Task, due: Due, request: HttpRequest) -> SheetForm:
    before = Rating(answers=due.before) if due.before is not None else None
    questions = questions_after_task(task.participant, task.version)
    scales = [question for question in questions if question.is_rated]
    asked = FormContext(task.version.rubric, scales, RequestedRating((), before), task.version)
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


def _render_practice(
    request: HttpRequest, task: Task, visit: ParticipantRequest, due: Due, form: SheetForm
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
        "way": header_progress(study, "practice"),
    }
    return render(request, "participant/practice.html", context)
