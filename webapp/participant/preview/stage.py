"""Temporary participant at a step of a study, for a preview.

The caller must be inside a transaction that is rolled back. The rows are as they would be, without the services'
effects for real participants: nothing is frozen, counted or published, and no bot is called.
"""

from __future__ import annotations

import secrets

from django.utils import timezone

from webapp.conversations.models import Conversation
from webapp.participant.preview.samples import PreviewDraw, bot_sample, turns_add
from webapp.participant.steps.base import Standing, standing_of
from webapp.ratings.marks import marking_begin
from webapp.studies.checking import quiz_digest, quiz_told
from webapp.studies.models import (
    Outcome,
    Participant,
    QuestionAnswers,
    QuizAttempt,
    Study,
    Task,
    TrainingAnswer,
)
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import marks_own_chats
from webapp.studies.services import participant_enter, slots_add

_TASK_STATES = {
    Outcome.RATED: Task.State.COMPLETED,
    Outcome.BOT_FAILED: Task.State.COMPLETED,
    Outcome.WITHDRAWN: Task.State.WITHDRAWN,
}
_CHAT_STATES = {
    Outcome.RATED: Conversation.State.COMPLETED,
    Outcome.BOT_FAILED: Conversation.State.FAILED,
    Outcome.WITHDRAWN: Conversation.State.WITHDRAWN,
}
# What a platform's link brings along; none of it is of anybody.
_BROUGHT = {
    "prolific": {"PROLIFIC_PID": "preview", "STUDY_ID": "preview", "SESSION_ID": "preview"},
    "mturk": {
        "workerId": "preview",
        "assignmentId": "preview",
        "hitId": "preview",
        "turkSubmitTo": "https://workersandbox.mturk.com",
    },
}


def standing_staged(
    study: Study, step: str, outcome: Outcome, *, is_missed: bool = False
) -> Standing:
    """Return the standing of a new person who has come to this step of the study's newest version.

    Args:
        step: one after consent and instructions.
        outcome: how the task has ended, where the step is `done`.
        is_missed: whether they have missed the first question of the quiz once, where the step is `quiz`.
    """
    platform = study.values.recruitment.platform
    participant = participant_enter(
        study=study,
        platform=platform if platform in _BROUGHT else "",
        recruitment=_BROUGHT.get(platform, {}),
    )
    participant.consented_at = timezone.now()
    participant.save(update_fields=["consented_at"])
    task = _task(study, participant)
    for slot in task.slots.exclude(bot_id=""):
        chat = Conversation.objects.create(
            source=Conversation.Source.CHAT,
            bot=bot_sample(),
            study=study,
            participant=participant,
            slot=slot,
        )
        turns_add(chat, least=study.values.chat.min_exchanges)
        if marks_own_chats(study) and step != "chat":
            Conversation.objects.filter(pk=chat.pk).update(state=Conversation.State.COMPLETED)
            marking_begin(study=study, task=task, conversation=chat)
    if step not in ("quiz", "questions"):
        QuestionAnswers.objects.create(participant=participant, version=task.version, answers={})
    if step not in ("quiz", "questions", "practice"):
        TrainingAnswer.objects.bulk_create(
            TrainingAnswer(
                participant=participant, pair=pair.digest, attempt=1, answers={}, is_right=True
            )
            for pair in study.values.training.training_pairs
        )
    _quiz_staged(study, participant, is_before=step == "quiz", is_missed=is_missed)
    if step == "done":
        _end(task, outcome)
    return standing_of(task)


def _quiz_staged(
    study: Study, participant: Participant, *, is_before: bool, is_missed: bool
) -> None:
    """Store an attempt at the quiz: a passed one for a later step, or one that missed the first question."""
    questions = study.values.checking.quiz_questions
    if not questions or (is_before and not is_missed):
        return
    answers = [one.right for one in questions]
    if is_before:
        answers[0] = next(one for one in questions[0].options if one != questions[0].right)
    QuizAttempt.objects.create(
        participant=participant,
        quiz=quiz_digest(questions),
        attempt=1,
        answers=quiz_told(questions, answers),
        is_right=not is_before,
    )


def _task(study: Study, participant: Participant) -> Task:
    plan = protocols.get(study.protocol).next_task(
        PreviewDraw(study, participant, study.values, available=())
    )
    task = Task.objects.create(
        participant=participant,
        version=study.version,
        kind=plan.kind,
        payload=dict(plan.payload),
        submission=participant.submission,
    )
    slots_add(task=task, plan=plan)
    return task


def _end(task: Task, outcome: Outcome) -> None:
    task.state = _TASK_STATES.get(outcome, Task.State.ENDED)
    task.outcome, task.ended_at = outcome, timezone.now()
    if outcome != Outcome.WITHDRAWN:
        # Drawn, as real ones are: two previews at once must not wait for each other.
        task.completion_code = f"AB{secrets.randbelow(10**6):06d}"
    task.save()
    state = _CHAT_STATES.get(outcome, Conversation.State.ENDED)
    Conversation.objects.filter(slot__task=task).update(state=state)
