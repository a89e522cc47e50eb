"""Tables of studies: versions, rubrics, participants and tasks."""

from __future__ import annotations

from webapp.studies.models.participants import (
    Breakage,
    Erasure,
    Item,
    LinkCount,
    OneTimeLink,
    OrderState,
    ParticipantMessage,
    PlatformIds,
    QuizAttempt,
    SequenceCount,
    TaskCount,
    TrainingAnswer,
    Whereabouts,
)
from webapp.studies.models.rubrics import Dimension, Rubric
from webapp.studies.models.studies import (
    ClosedBy,
    ConsentText,
    Study,
    StudyAgreement,
    StudyHelper,
    StudyPlan,
    StudyVersion,
)
from webapp.studies.models.tasks import AGREED_BY_PEOPLE, Outcome, Participant, QuestionAnswers, Slot, Task

__all__ = [
    "AGREED_BY_PEOPLE",
    "Breakage",
    "ClosedBy",
    "ConsentText",
    "Dimension",
    "Erasure",
    "Item",
    "LinkCount",
    "OneTimeLink",
    "OrderState",
    "Outcome",
    "Participant",
    "ParticipantMessage",
    "PlatformIds",
    "QuestionAnswers",
    "QuizAttempt",
    "Rubric",
    "SequenceCount",
    "Slot",
    "Study",
    "StudyAgreement",
    "StudyHelper",
    "StudyPlan",
    "StudyVersion",
    "Task",
    "TaskCount",
    "TrainingAnswer",
    "Whereabouts",
]
