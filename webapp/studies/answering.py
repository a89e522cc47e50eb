"""Storage of participants' answers before their task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.studies.models import Participant, QuestionAnswers, Task
from webapp.studies.questions import answers_read


def question_answers_store(*, task: Task, answers: Mapping[str, Any]) -> QuestionAnswers:
    """Store the participant's answers to the questions of the task's version. Sent again, the first answers stay.

    Args:
        answers: a text or a list of options by the question's key.

    Raises:
        Refused: `closed` if the task is over or its participant erased, or `bad_answers` with `errors`, a sentence
            by the question's key.
    """
    with transaction.atomic():
        # Whoever withdraws or erases this person waits, and then finds the answers; as they do, this locks no task.
        person = Participant.objects.select_for_update(of=("self",), no_key=True)
        participant = person.filter(pk=task.participant_id).first()
        task_now = Task.objects.filter(pk=task.pk, state=Task.State.OPEN)
        if participant is None or not task_now.exists():
            raise Refused("closed", _("This task is finished."))
        given = QuestionAnswers.objects.filter(participant=participant, version=task.version)
        if (stored := given.first()) is not None:
            return stored
        found, wrong = answers_read(task.version.values.questions, answers)
        if wrong:
            raise Refused("bad_answers", _("Some answers are missing."), errors=wrong)
        return QuestionAnswers.objects.create(
            participant=participant, version=task.version, answers=found
        )
