"""Practice: which pair is due, and the write of an answer about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.studies.models import Outcome, Participant, StudyVersion, Task, TrainingAnswer
from webapp.studies.services import task_end
from webapp.studies.training import MOST_ATTEMPTS, TrainingPair


@dataclass(frozen=True, slots=True)
class Practice:
    """The practice pair that is due for a participant.

    Attributes:
        place: its number among all, from 1.
        attempt: 1, or 2 after a wrong answer.
        before: answers of the first attempt; None at the first attempt.
    """

    pair: TrainingPair
    place: int
    of: int
    attempt: int
    before: Mapping[str, float] | None = None


def practice_due(participant: Participant, version: StudyVersion) -> Practice | None:
    """Return the participant's next practice pair; None once all pairs were right, or if there are none."""
    pairs = version.values.training.training_pairs
    if not pairs:
        return None
    given: dict[str, list[TrainingAnswer]] = {}
    digests = [pair.digest for pair in pairs]
    for answer in TrainingAnswer.objects.filter(participant=participant, pair__in=digests):
        given.setdefault(answer.pair, []).append(answer)
    for place, (pair, digest) in enumerate(zip(pairs, digests, strict=True), start=1):
        answers = given.get(digest, [])
        if any(answer.is_right for answer in answers):
            continue
        before = answers[-1].answers if answers else None
        return Practice(pair, place, len(pairs), len(answers) + 1, before)
    return None


def practice_answer(*, task: Task, attempt: int, pair: str, answers: Mapping[str, float]) -> bool:
    """Store the participant's answers about a practice pair; the second miss ends the task as screened out.

    Sent again it changes nothing.

    Args:
        attempt: attempt that the page was for, so that a form sent twice is no second attempt.
        pair: digest of the pair that the page showed.

    Returns:
        True if the answers were right.

    Raises:
        Refused: `closed` if the task is over, its participant erased, or another pair due.
    """
    with transaction.atomic():
        people = Participant.objects.select_for_update(of=("self",), no_key=True)
        participant = people.filter(pk=task.participant_id).first()
        is_open = Task.objects.filter(pk=task.pk, state=Task.State.OPEN).exists()
        if participant is None or not is_open:
            raise Refused("closed", _("This task is finished."))
        stored = TrainingAnswer.objects.filter(participant=participant, pair=pair, attempt=attempt)
        if (known := stored.first()) is not None:
            return known.is_right
        due = practice_due(participant, task.version)
        if due is None or (due.pair.digest, due.attempt) != (pair, attempt):
            raise Refused("closed", _("This page is not the one that is due."))
        is_right = not due.pair.missed(answers)
        TrainingAnswer.objects.create(
            participant=participant,
            pair=pair,
            attempt=attempt,
            answers=dict(answers),
            is_right=is_right,
        )
        if not is_right and attempt >= MOST_ATTEMPTS:
            task_end(task=task, outcome=Outcome.SCREENED_OUT)
    return is_right
