"""Input of assignment rules that depend on the participant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from webapp.studies.assignment.rules.base import AssignmentCase, Candidate, EarlierTask
from webapp.studies.models import Participant, QuestionAnswers, Study, Task


def assignment_case(study: Study, participant: Participant) -> AssignmentCase:
    """Read the input of an assignment rule, without candidates."""
    answers: dict[str, Any] = {}
    for stored in QuestionAnswers.objects.filter(participant=participant).order_by("pk"):
        answers |= stored.answers
    earlier = [
        EarlierTask(
            task.outcome,
            task.sitting,
            [
                (bot_id, condition or {})
                for bot_id, condition in task.slots.order_by("order").values_list("bot_id", "chat__condition")
                if bot_id
            ],
        )
        for task in participant.tasks.exclude(state=Task.State.OPEN).order_by("created_at", "pk")
    ]
    return AssignmentCase((), study.bots, participant.pk, participant.recruitment, answers, earlier)


def places_for(
    case: AssignmentCase, candidates: Sequence[Candidate], n: int, choose: Callable[[AssignmentCase], int]
) -> list[int]:
    """Return `n` different candidates, as indices in the rule's order."""
    remaining, places, drawn_places = list(candidates), list(range(len(candidates))), list[int]()
    for _number in range(n):
        index = choose(replace(case, candidates=tuple(remaining)))
        remaining.pop(index)
        drawn_places.append(places.pop(index))
    return drawn_places
