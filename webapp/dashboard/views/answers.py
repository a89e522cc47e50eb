"""Stored results on pages: the result, its job, or both if the data have changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import (
    conversations_link,
    kept_in_address,
    synthetic_asked,
)
from webapp.results.stored import Answer, Question, answer_for
from webapp.results.study_data import StudyFrame, study_frame
from webapp.runs.models import State
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as a page shows it.

    Attributes:
        result: None while there is none.
        frame: what stands around it in words; None without a result.
        waiting: what `_waiting.html` says of the job that makes a new one; None where there is none to make.
        question: that it answers.
    """

    result: Any
    frame: StudyFrame | None
    waiting: dict[str, Any] | None
    question: Question


def shown(request: HttpRequest, study: Study, part: str, *, failed: bool = False) -> Shown:
    """Return the stored result of a part of the analysis, or request it if there is none.

    Args:
        failed: whether to include chats whose bot failed.
    """
    question = Question(
        study,
        part,
        include_synthetic=synthetic_asked(request),
        include_failed=failed,
        without=without_now(request, study),
    )
    return _shown(request, question)


def shown_beside(request: HttpRequest, found: Shown, part: str) -> Shown:
    """Return the stored result of an additional part for the same data and page."""
    return _shown(request, found.question.beside(part))


def _shown(request: HttpRequest, question: Question) -> Shown:
    study, synthetic, without = question.study, question.include_synthetic, question.without
    answer = answer_for(question, created_by=request.user)  # type: ignore[arg-type]
    waiting = _waiting(request, question, answer)
    if answer.made is None:
        return Shown(None, None, waiting, question)
    suffix = kept_in_address(request)
    frame = study_frame(
        study,
        answer.made.facts,
        include_synthetic=synthetic,
        link=lambda bot: conversations_link(study, bot=bot, synthetic=synthetic, without=without),
        point_link=lambda *point: (
            reverse("dashboard:study_point", args=[study.key, *point]) + suffix
        ),
        without=without,
    )
    return Shown(answer.made.result, frame, waiting, question)


def _waiting(request: HttpRequest, question: Question, answer: Answer) -> dict[str, Any] | None:
    if answer.job is None:
        return None
    return {
        **job_context(answer.job, answer.job.kind),
        "over": answer.job.is_over,
        "failed": answer.job.state == State.FAILED,
        "made_at": answer.made_at,
        "n_since": max(answer.n_since, 0),
        "n_ratings": question.state.n_ratings,
        "n_bots": question.state.n_bots,
        "back": request.get_full_path(),
    }
