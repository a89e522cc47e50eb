"""Writes of comparisons: which of two chats, made side by side, was the better one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from webapp.conversations.entering import task_goes_on
from webapp.conversations.services import pair_close
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.ratings.services import RatingOutcome, rating_add
from webapp.studies.models import Outcome, Slot, Task
from webapp.studies.protocols.arena import BOTH_BAD
from webapp.studies.services import task_complete

CHOICES: dict[str, tuple[int, int]] = {
    "a": (1, 0),
    "equal": (0, 0),
    "bad": (0, 1),
    "b": (-1, 0),
}
"""What can be chosen, with what is stored: which is better (1 the first, -1 the second), and whether both are bad."""


def comparison_submit(
    *,
    task: Task,
    slots: tuple[Slot, Slot],
    choice: str,
    besides: Mapping[str, Any] = MappingProxyType({}),
) -> RatingOutcome:
    """Store the choice, close both chats and open the next pair's, or complete the task, in one transaction.

    A pair to come with a bot that was set aside meanwhile makes way for another one.

    Submitted again, the first choice stays.

    Args:
        choice: a name in `CHOICES`.
        besides: answers to the questions that the study asks beside the choice, by their keys.

    Raises:
        Refused: `bad_answers` for another choice and wrong answers, and as `pair_close` and `rating_add`.
    """
    if choice not in CHOICES:
        raise Refused("bad_answers", _("Choose one of the four answers."))
    preference, both_bad = CHOICES[choice]
    with transaction.atomic():
        given = Rating.objects.filter(task=task, first=slots[0], second=slots[1]).first()
        if given is not None:
            return RatingOutcome(given, task, created=False)
        pair_close(slots=slots)
        [question] = task.version.rubric.dimensions.all()
        answers = {**besides, question.key: preference, BOTH_BAD: both_bad}
        outcome = rating_add(task=task, target=slots, answers=answers)
        if outcome.task.state == Task.State.OPEN and not task_goes_on(task=outcome.task):
            # No bot is left for the pairs to come: what was done earns the early end, which is our fault.
            ended = task_complete(task=outcome.task, outcome=Outcome.BOT_FAILED)
            return RatingOutcome(outcome.rating, ended, outcome.created)
    return outcome
