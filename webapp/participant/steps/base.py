"""Base class of a step, a participant's progress, and their current step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from chatbots.registry import C, Registry
from webapp.conversations.models import Conversation
from webapp.participant.access import ParticipantRequest, View, conversation_page, task_page
from webapp.participant.page_texts import header_progress, study_texts
from webapp.participant.selectors import conversation_open, task_chat_now, task_under_way
from webapp.ratings.rating_tasks import RequestedRating, requested_ratings
from webapp.studies.models import Participant, Study, StudyVersion, Task
from webapp.studies.pre_task import DuePractice, DueQuiz, practice_due, quiz_due
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.links import step_reached


@dataclass(frozen=True)
class Standing:
    """A participant's progress in one task of a study.

    A new visitor has none of the last three values. Each property queries the database at most once, so a page creates
    a new object after a write.
    """

    study: Study
    participant: Participant | None = None
    task: Task | None = None
    conversation: Conversation | None = None

    @property
    def is_open(self) -> bool:
        """True while the task is open."""
        return self.task is not None and self.task.state == Task.State.OPEN

    @property
    def is_chat_open(self) -> bool:
        """True until the chat is rated or left.

        A chat can stay open after its task.
        """
        return self.conversation is not None and self.conversation.state == Conversation.State.OPEN

    @property
    def version(self) -> StudyVersion:
        """The study's version that the task follows.

        The newest for a new visitor.
        """
        return self.task.version if self.task else self.study.version

    @cached_property
    def quiz(self) -> DueQuiz | None:
        """The participant's due quiz."""
        assert self.participant is not None
        return quiz_due(self.participant, self.version)

    @cached_property
    def practice(self) -> DuePractice | None:
        """The participant's next practice pair."""
        assert self.participant is not None
        return practice_due(self.participant, self.version)

    @cached_property
    def judgements(self) -> list[RequestedRating]:
        """Everything that the task asks the participant to rate, in order."""
        return requested_ratings(self.task) if self.task is not None else []


class ParticipantStep(ABC):
    """Base of a step.

    A subclass has `get`, and `post` if its page sends a form.

    The registry has one object for all participants. Each request gets its own object, with the attributes `request`,
    `visit`, `row` and `standing`.
    """

    name: str
    """Name of the step in protocols."""
    request: HttpRequest
    visit: ParticipantRequest
    row: Study | Task | Conversation
    """Row named by the page's address."""
    standing: Standing

    @property
    def page(self) -> str:
        """Name of the page's address and template; by default, the step's."""
        return self.name

    def is_applicable(self, standing: Standing) -> bool:
        """Return True if the step applies to the participant.

        By default, while the task is open.
        """
        return standing.is_open

    def is_completed(self, standing: Standing) -> bool:
        """Return True if the participant has completed the step; by default, never."""
        return False

    def is_open(self, standing: Standing) -> bool:
        """Return True if the page can be shown.

        By default, if it is the participant's current step.
        """
        step = next_step(standing)
        return step is not None and step.name == self.name

    @abstractmethod
    def address(self, standing: Standing, visit: ParticipantRequest, *, note: str = "", n: int = 0) -> str:
        """Return the address of the step's page, with a note or a number."""

    @abstractmethod
    def urls(self) -> list[URLPattern]:
        """Return the routes of the step's page."""

    @abstractmethod
    def get(self) -> HttpResponse:
        """Return the page."""

    @classmethod
    def view(cls, access: Callable[[View], View]) -> View:
        """Return the view of the page.

        It redirects to the current step if this one is not open.

        Args:
            access: decorator that loads the row and admits only its participant.
        """

        def view(request: HttpRequest, row: Study | Task | Conversation, visit: ParticipantRequest) -> HttpResponse:
            step = cls()
            step.request, step.visit, step.row = request, visit, row
            step.standing = standing_of(row)
            if not step.is_open(step.standing):
                return to_next_step(step.standing, visit)
            response: HttpResponse = getattr(step, "post" if request.method == "POST" else "get")()
            task = step.standing.task
            if task is not None and request.method == "GET" and response.status_code == 200:
                step_reached(task=task, step=cls.name)
            return response

        methods = ["GET", "HEAD", "POST"] if hasattr(cls, "post") else ["GET", "HEAD"]
        return require_http_methods(methods)(access(view))

    def render(self, **context: Any) -> HttpResponse:
        """Render the step's template with this context.

        What all steps show is added.
        """
        progress = self.standing
        common = {
            **study_texts(progress.study, progress.version),
            "visit": self.visit,
            "way": header_progress(progress.study, self.name),
        }
        return render(self.request, f"participant/{self.page}.html", {**common, **context})

    def again(self, *, note: str = "", n: int = 0) -> HttpResponse:
        """Redirect to the page itself, with a note or a number in its address."""
        return redirect(self.address(self.standing, self.visit, note=note, n=n))

    def onward(self) -> HttpResponse:
        """Redirect to the current step after a write."""
        self.row.refresh_from_db()
        return to_next_step(standing_of(self.row), self.visit)


class TaskStep(ParticipantStep):
    """Base of a step with a page of the task."""

    @property
    def task(self) -> Task:
        """Task of the request."""
        assert self.standing.task is not None
        return self.standing.task

    def address(self, standing: Standing, visit: ParticipantRequest, *, note: str = "", n: int = 0) -> str:
        assert standing.task is not None
        return visit.link(self.page, standing.task.public_id, note=note, n=n)

    def urls(self) -> list[URLPattern]:
        return [path(f"task/<uuid:task_id>/{self.page}/", self.view(task_page), name=self.page)]

    def render(self, **context: Any) -> HttpResponse:
        return super().render(**{"task": self.task, **context})

    @property
    def attempt(self) -> int:
        """Number of the attempt that the submitted form was for.

        0 if it names none.
        """
        sent = self.request.POST.get("_attempt", "")
        return int(sent) if sent in ("1", "2") else 0


class ConversationStep(ParticipantStep):
    """Base of a step with a page of the chat.

    It is applicable while the chat is open.
    """

    route: str
    """End of the address, after the chat's."""

    @property
    def conversation(self) -> Conversation:
        """Chat of the request."""
        assert self.standing.conversation is not None
        return self.standing.conversation

    def is_applicable(self, standing: Standing) -> bool:
        return standing.is_chat_open

    def address(self, standing: Standing, visit: ParticipantRequest, *, note: str = "", n: int = 0) -> str:
        assert standing.conversation is not None
        return visit.link(self.page, standing.conversation.pk, note=note, n=n)

    def urls(self) -> list[URLPattern]:
        address = f"chat/<uuid:conversation_id>/{self.route}"
        return [path(address, self.view(conversation_page), name=self.page)]

    def render(self, **context: Any) -> HttpResponse:
        return super().render(**{"conversation": self.conversation, **context})


steps: Registry[ParticipantStep] = Registry("step", "webapp.participant.steps")


def register_step(cls: C) -> C:
    """Make one step of the decorated class and list it."""
    steps.register(cls)
    return cls


def steps_of(study: Study) -> list[ParticipantStep]:
    """Return the steps of the study's protocol, in order."""
    return [steps.get(step.name) for step in protocols.get(study.protocol).steps]


def next_step(progress: Standing) -> ParticipantStep | None:
    """Return the first applicable, uncompleted step of the study's protocol.

    None at the end of a task without an outcome: the chatbot was swapped, or the place was lost.
    """
    return next(
        (step for step in steps_of(progress.study) if step.is_applicable(progress) and not step.is_completed(progress)),
        None,
    )


def standing_of(row: Study | Task | Conversation) -> Standing:
    """Return the participant's progress by a chat, task or study.

    A task's progress is at its open chat, or otherwise at its last one.
    """
    if isinstance(row, Study):
        return Standing(row)
    if isinstance(row, Task):
        return Standing(row.participant.study, row.participant, row, task_chat_now(row))
    assert row.study is not None, f"chat {row.pk} without a study"
    return Standing(row.study, row.participant, row.task, row)


def standing_open(participant: Participant) -> Standing | None:
    """Return the participant's progress in their open chat or task.

    None if neither is open. A chat can stay open after its task if another visit took the task's place.
    """
    row = conversation_open(participant) or task_under_way(participant)
    return standing_of(row) if row is not None else None


def to_next_step(progress: Standing, visit: ParticipantRequest, *, note: str = "") -> HttpResponse:
    """Redirect to the current step, with a note in its address.

    A finished chat leads to the next one of its task. A task that ended without an outcome leads to the participant's
    open task, else to the study's first page. It only reads: opening a page ends no task.
    """
    step = next_step(progress)
    if step is None:
        assert progress.participant is not None
        going_on = standing_open(progress.participant)
        step = next_step(going_on) if going_on else None
        if going_on is None or step is None:
            return redirect(visit.link("entry", progress.study.key))
        progress = going_on
    return redirect(step.address(progress, visit, note=note))
