"""Interface of a step, and lookup of a participant's current step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from django.http import HttpResponse
from django.shortcuts import redirect

from chatbots.registry import C, Registry
from webapp.conversations.models import Conversation
from webapp.participant.access import ParticipantRequest
from webapp.participant.selectors import conversation_open, task_chat_now, task_under_way
from webapp.studies.models import Participant, Study, StudyVersion, Task
from webapp.studies.protocols.base import protocols


@dataclass(frozen=True, slots=True)
class Standing:
    """A participant's progress in one task of a study; a new visitor has none of the last three values."""

    study: Study
    participant: Participant | None = None
    task: Task | None = None
    conversation: Conversation | None = None

    @property
    def chat_is_over(self) -> bool:
        """True if nothing is left to do in the chat: it was rated or left, or there is none."""
        return self.conversation is None or self.conversation.state != Conversation.State.OPEN

    @property
    def version(self) -> StudyVersion:
        """The study's version that the task follows; the newest for a new visitor."""
        return self.task.version if self.task else self.study.version


class StepView(Protocol):
    """One step. `name` is its name in protocols."""

    name: str

    def is_applicable(self, standing: Standing) -> bool:
        """Return True if the participant goes through the step at all."""
        ...

    def is_completed(self, standing: Standing) -> bool:
        """Return True if the participant has gone through the step."""
        ...

    def address(self, standing: Standing, visit: ParticipantRequest) -> str:
        """Return the address of the step's page."""
        ...


steps: Registry[StepView] = Registry("step", "webapp.participant.steps")


def register_step(cls: C) -> C:
    """Make one step of the decorated class and list it."""
    steps.register(cls)
    return cls


def is_on_way(standing: Standing, name: str) -> bool:
    """Return True if the study's protocol has the step of this name."""
    return any(step.name == name for step in protocols.get(standing.study.protocol).steps)


def next_step(standing: Standing) -> StepView | None:
    """Return the first step of the study's protocol that is applicable and not completed.

    None at the end of a task that ended in nothing: the chatbot was swapped, or the place was lost.
    """
    way = (steps.get(step.name) for step in protocols.get(standing.study.protocol).steps)
    return next(
        (step for step in way if step.is_applicable(standing) and not step.is_completed(standing)),
        None,
    )


def step_before(name: str, standing: Standing) -> StepView | None:
    """Return the first step before the one of this name that is applicable and not completed; None: this one's turn.

    So a page need not check whether its own step is completed, which it does anyway.
    """
    names = [step.name for step in protocols.get(standing.study.protocol).steps]
    way = (steps.get(one) for one in names[: names.index(name)])
    return next(
        (step for step in way if step.is_applicable(standing) and not step.is_completed(standing)),
        None,
    )


def standing_in(conversation: Conversation) -> Standing:
    """Return the participant's progress in the task that this chat belongs to."""
    assert conversation.study is not None, f"chat {conversation.pk} without a study"
    return Standing(conversation.study, conversation.participant, conversation.task, conversation)


def standing_of(task: Task) -> Standing:
    """Return the participant's progress in the task: at its open chat, if it has one, else at the last."""
    conversation = task_chat_now(task)
    return Standing(task.participant.study, task.participant, task, conversation)


def standing_open(participant: Participant) -> Standing | None:
    """Return the participant's progress in their open chat or task; None if neither is open.

    A chat can stay open after its task if another visit took the task's place.
    """
    chat = conversation_open(participant)
    if chat is not None:
        return standing_in(chat)
    task = task_under_way(participant)
    return standing_of(task) if task is not None else None


def to_next_step(standing: Standing, visit: ParticipantRequest) -> HttpResponse:
    """Redirect from a page that this task no longer has, or does not have yet, to the current step.

    A chat that is over leads to the next one of its task. A task that ended without an outcome leads to the
    participant's open task, else to the study's first page. It only reads: no task ends by opening a page.
    """
    step = next_step(standing)
    if step is None:
        assert standing.participant is not None
        going_on = standing_open(standing.participant)
        step = next_step(going_on) if going_on else None
        if going_on is None or step is None:
            return redirect(visit.link("entry", standing.study.key))
        standing = going_on
    return redirect(step.address(standing, visit))
