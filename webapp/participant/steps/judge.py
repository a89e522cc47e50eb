"""Judge what a task holds: an item, a stored conversation, or two things side by side; one page for each.

The page is the same for all protocols: progress, the talk so far, what is judged, questions, Back and Next. Its
words, the partial that shows what is judged and the sheet with the questions are the protocol's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.core.errors import Refused
from webapp.participant.access import Visit, task_page
from webapp.participant.asked import QuestionShown, asked_after_of, right_of
from webapp.participant.forms import RatingForm
from webapp.participant.judged import judged_shown
from webapp.participant.presentation import study_texts, way_at
from webapp.participant.reporting import places_reported, report_shown
from webapp.participant.sheets.base import Asked, SheetForm, sheets
from webapp.participant.sheets.pair import PairForm
from webapp.participant.steps.base import (
    Standing,
    is_on_way,
    register_step,
    standing_of,
    step_before,
    to_next_step,
)
from webapp.ratings.judging import Judgement, check_place, judgements_of
from webapp.ratings.services import rating_add
from webapp.studies.models import Task
from webapp.studies.protocols.base import JudgePage, protocols

_MOST_SEGMENTS = 12
_GONE = "gone"


@register_step
class Judge:
    """Answer the protocol's questions about each thing in turn; every answer is stored at once."""

    name = "judge"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is not None and bool(judgements_of(standing.task))

    def is_completed(self, standing: Standing) -> bool:
        assert standing.task is not None
        is_over = standing.task.state != Task.State.OPEN
        return is_over or all(one.rating for one in judgements_of(standing.task))

    def address(self, standing: Standing, visit: Visit) -> str:
        assert standing.task is not None
        return visit.link("judge", standing.task.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
@task_page
def judge(request: HttpRequest, task: Task, visit: Visit) -> HttpResponse:
    """Show the next judgement or an earlier one, or store the answers of one."""
    standing = standing_of(task)
    if not is_on_way(standing, Judge.name) or step_before(Judge.name, standing):
        return to_next_step(standing, visit)
    judgements = judgements_of(task)
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
    request: HttpRequest, task: Task, judgements: list[Judgement], n: int
) -> tuple[SheetForm, RatingForm]:
    """Return the sheet, and the form of the questions besides scales, which stands below every sheet."""
    rubric = protocols.get(task.participant.study.protocol).form(task.version)
    judgement = judgements[n - 1]
    questions = asked_after_of(task.participant, task.version)
    if check_place(task, judgements) != n - 1:
        questions = [question for question in questions if not question.is_check]
    scales = [question for question in questions if question.is_rated]
    others = [question for question in questions if not question.is_rated]
    sent = request.POST if request.method == "POST" else None
    sheet = sheets.get(_page_of(task).sheet)
    form = sheet.form(Asked(rubric, scales, judgement, task.version), sent)
    stored = judgement.rating.other_answers if judgement.rating else None
    beside = RatingForm(others, sent or stored, first_number=len(form.questions()) + 1)
    return form, beside


def _passing(
    task: Task, judgement: Judgement, form: SheetForm, others: Sequence[QuestionShown]
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


def _store(task: Task, judgement: Judgement, form: SheetForm, beside: RatingForm) -> None:
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
    visit: Visit,
    judgements: list[Judgement],
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
        "way": way_at(study, "judge"),
        **report_shown(version, visit.link("task-report", task.public_id, n=n)),
        "reported": places_reported(task, judgements[n - 1]),
    }
    return render(request, "participant/judge.html", context)
