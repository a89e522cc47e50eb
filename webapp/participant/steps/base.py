"""The contract of a step, and which step somebody has come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from django.http import HttpResponse
from django.shortcuts import redirect

from chatbots.registry import C, Registry
from webapp.conversations.models import Conversation
from webapp.participant.access import Visit
from webapp.participant.selectors import conversation_open
from webapp.studies.models import Participant, Study, StudyVersion, Task
from webapp.studies.protocols.base import protocols


@dataclass(frozen=True, slots=True)
class Standing:
    """How far somebody is in one task of a study; whoever has just come has none of the last three."""

    study: Study
    participant: Participant | None = None
    task: Task | None = None
    conversation: Conversation | None = None

    @property
    def version(self) -> StudyVersion:
        """The study's version that the task follows; the newest for whoever has just come."""
        return self.task.version if self.task else self.study.version


class StepView(Protocol):
    """One step. `name` is what protocols call it."""

    name: str

    def is_applicable(self, standing: Standing) -> bool:
        """Return whether this person goes through the step at all."""
        ...

    def is_completed(self, standing: Standing) -> bool:
        """Return whether they have gone through it."""
        ...

    def address(self, standing: Standing, visit: Visit) -> str:
        """Return the address of the step's page."""
        ...


steps: Registry[StepView] = Registry("step", "webapp.participant.steps")


def register_step(cls: C) -> C:
    """Make one step of the decorated class and list it."""
    steps.register(cls)
    return cls


def next_step(standing: Standing) -> StepView | None:
    """Return the first step of the study's protocol that is applicable and not completed.

    None at the end of a task that ended in nothing: the chatbot was swapped, or the place was lost.
    """
    way = (steps.get(step.name) for step in protocols.get(standing.study.protocol).steps)
    return next(
        (step for step in way if step.is_applicable(standing) and not step.is_completed(standing)),
        None,
    )


def standing_in(conversation: Conversation) -> Standing:
    """Return how far the participant is in the task that this chat belongs to."""
    assert conversation.study is not None, f"chat {conversation.pk} without a study"
    return Standing(conversation.study, conversation.participant, conversation.task, conversation)


def to_next_step(conversation: Conversation, visit: Visit) -> HttpResponse:
    """Lead somebody on who asks for a page that this chat no longer has, or not yet.

    From a task that ended in nothing the way leads to their open chat, and without one to the study's
    first page.
    """
    standing = standing_in(conversation)
    step = next_step(standing)
    if step is None:
        assert standing.participant is not None
        open_one = conversation_open(standing.participant)
        if open_one is None:
            return redirect(visit.link("entry", standing.study.key))
        return redirect(visit.link("chat", open_one.pk))
    return redirect(step.address(standing, visit))
