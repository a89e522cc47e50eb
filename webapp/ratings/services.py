"""Writes of ratings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.conversations.models import Conversation
from webapp.conversations.services import conversation_complete
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.studies.models import Assignment, Participant, Rubric
from webapp.studies.services import assignment_complete, rubric_freeze


@dataclass(frozen=True, slots=True)
class RatingOutcome:
    """The stored rating and the assignment with its code; `created` False when it was there."""

    rating: Rating
    assignment: Assignment
    created: bool


def answers_check(*, rubric: Rubric, answers: dict[str, float]) -> dict[str, str]:
    """What is wrong with the answers: `{dimension key: message}`, empty if nothing is."""
    errors: dict[str, str] = {}
    dimensions = {dimension.key: dimension for dimension in rubric.dimensions.all()}
    for key, dimension in dimensions.items():
        low, high = dimension.scale
        value = answers.get(key)
        if value is None:
            if dimension.required:
                errors[key] = _("Please choose a number from %(low)g to %(high)g.") % {
                    "low": low,
                    "high": high,
                }
        elif not (math.isfinite(value) and low <= value <= high and float(value).is_integer()):
            errors[key] = _("%(value)s is not on the scale from %(low)g to %(high)g.") % {
                "value": value,
                "low": low,
                "high": high,
            }
    for key in answers.keys() - dimensions.keys():
        errors[key] = _("There is no question called %(key)s.") % {"key": key}
    return errors


def rating_submit(
    *,
    conversation: Conversation,
    participant: Participant,
    answers: dict[str, float],
    comment: str = "",
) -> RatingOutcome:
    """Store the rating, close the conversation and give the completion code, in one transaction.

    Submitted again, the first rating and its code come back unchanged.

    Raises:
        Refused: `not_found`, `too_early`, `closed`, or `bad_answers` with `errors` per dimension.
    """
    with transaction.atomic():
        conversation = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("study__rubric", "assignment")
            .get(pk=conversation.pk)
        )
        study, assignment = conversation.study, conversation.assignment
        if conversation.participant_id != participant.pk or study is None or assignment is None:
            raise Refused("not_found", _("We cannot open this chat here."))
        existing = Rating.objects.filter(conversation=conversation, participant=participant).first()
        if existing is not None:
            return RatingOutcome(existing, assignment, created=False)
        if conversation.state != Conversation.State.OPEN:
            raise Refused("closed", _("This chat is finished."))
        if conversation.n_exchanges < study.min_exchanges:
            raise Refused(
                "too_early",
                _("Write a little more before you rate the chat."),
                n_missing=study.min_exchanges - conversation.n_exchanges,
            )
        errors = answers_check(rubric=study.rubric, answers=answers)
        if errors:
            raise Refused("bad_answers", _("Some answers are missing."), errors=errors)
        rating = Rating.objects.create(
            conversation=conversation,
            participant=participant,
            rubric=study.rubric,
            answers={key: _number(value) for key, value in answers.items()},
            comment=comment.replace("\x00", "").strip()[:5000],
            submitted_at=timezone.now(),
        )
        rubric_freeze(rubric_id=study.rubric_id)
        conversation_complete(conversation=conversation)
        assignment = assignment_complete(assignment=assignment)
    return RatingOutcome(rating, assignment, created=True)


def _number(value: float) -> float | int:
    return int(value) if float(value).is_integer() else float(value)
