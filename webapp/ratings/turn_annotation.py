"""Annotation of the replies in a participant's own chat.

Replies are annotated during the chat or after its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import conversation_complete
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import task_progress
from webapp.ratings.services import chat_end_check, rating_add, task_judged
from webapp.studies.conditions import condition_texts
from webapp.studies.models import Participant, Study, Task
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.questions import Question
from webapp.studies.refusals import CHAT_FINISHED, CHAT_NOT_FOUND
from webapp.studies.reply_marks import NONE
from webapp.studies.rubrics import post_task_questions
from webapp.studies.settings import StudyValues


@dataclass(frozen=True, slots=True)
class AnnotationRequest:
    """Request to annotate replies during a chat.

    Attributes:
        labels: available labels.
        turns: numbers of the annotated turns; None: all replies. An opening (turn 0) is not a reply.
    """

    labels: tuple[Question, ...]
    turns: list[int] | None

    def asks(self, turn: int) -> bool:
        """Return True if the reply with this number is annotated."""
        return turn > 0 and (self.turns is None or turn in self.turns)


def annotation_request(conversation: Conversation) -> AnnotationRequest | None:
    """Return the annotation requested during this chat, or None.

    It needs no query.
    """
    study, version = conversation.study, conversation.version
    if study is None or version is None or not get_protocol(study).marks_own_chats:
        return None
    values = version.values
    if values.own_marking.marked_when != "during":
        return None
    turns = values.own_marking.asked_while_chatting(*_draw_of(study, conversation, values))
    return AnnotationRequest(post_task_questions(version), turns)


def _draw_of(study: Study, conversation: Conversation, values: StudyValues) -> tuple[int, int, str, bool]:
    """Return the data needed to draw replies, besides the settings."""
    is_opened = bool(condition_texts(values, conversation.condition).opening)
    return values.chat.min_exchanges, study.seed, str(conversation.pk), is_opened


def marks_given(conversation_id: UUID) -> dict[int, list[str]]:
    """Return the stored labels by reply number; `NONE` if none applies."""
    rows = Rating.objects.filter(turn__conversation=conversation_id, task__slots__chat=conversation_id).values_list(
        "turn__index", "answers"
    )
    return {index: sorted(key for key, is_true in answers.items() if is_true) or [NONE] for index, answers in rows}


def reply_mark(*, conversation_id: UUID, turn_index: int, marks: Sequence[str]) -> None:
    """Store a reply's labels during its chat; an empty list deletes them.

    Args:
        marks: keys of the labels that apply, or only `NONE`.

    Raises:
        Refused: `not_found`, `closed`, or `bad_frame` for what cannot be marked.
    """
    with transaction.atomic():
        locked_chats = Conversation.objects.select_for_update(of=("self",)).filter(pk=conversation_id)
        conversation = locked_chats.select_related(
            "study__version", "slot__task__version__rubric", "slot__task__participant__study"
        ).first()
        if conversation is None or conversation.task is None:
            raise CHAT_NOT_FOUND.refused(turn=turn_index)
        request = annotation_request(conversation)
        if request is None or conversation.state != Conversation.State.OPEN:
            raise CHAT_FINISHED.refused(turn=turn_index)
        turn = conversation.turns.filter(index=turn_index, speaker=Turn.Speaker.BOT).first()
        known = {label.key for label in request.labels}
        ticked = set(marks)
        if turn is None or not request.asks(turn_index):
            sentence = _("The chatbot has no reply with this number to mark.")
            raise Refused("bad_frame", sentence, turn=turn_index)
        if ticked - known - {NONE} or (NONE in ticked and len(ticked) > 1):
            sentence = _("A reply can be marked with its labels or with none of them.")
            raise Refused("bad_frame", sentence, turn=turn_index)
        if not ticked:
            Rating.objects.filter(task=conversation.task, turn=turn).delete()
            return
        answers = {key: int(key in ticked) for key in known}
        rating_add(task=conversation.task, target=turn, answers=answers)


def chat_end_to_mark(*, conversation: Conversation, participant: Participant) -> Task:
    """Close the chat and draw the replies to label.

    The task is complete if all of them are already labelled. Repeated calls change nothing.

    Raises:
        Refused: `not_found`, `too_early`, `waiting_for_reply` or `closed`.
    """
    with transaction.atomic():
        conversation = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("study", "slot__task__version", "slot__task__participant__study")
            .get(pk=conversation.pk)
        )
        study, task = conversation.study, conversation.task
        if conversation.participant_id != participant.pk or study is None or task is None:
            raise CHAT_NOT_FOUND.refused()
        if "turns" in task.payload:
            return task
        chat_end_check(conversation, task.version)
        _place_taken_again(task)
        conversation_complete(conversation=conversation)
        marking_begin(study=study, task=task, conversation=conversation)
        if protocols.get(study.protocol).is_complete(task_progress(task)):
            return task_judged(task)
    return task


def _place_taken_again(task: Task) -> None:
    """Reopen a task that lost its reservation to another visit.

    The participant can still finish the chat, unless they have another open task: each can have one.
    """
    lost = Task.objects.filter(pk=task.pk, state=Task.State.EXPIRED)
    open_tasks = Task.objects.filter(participant=task.participant_id, state=Task.State.OPEN)
    try:
        with transaction.atomic():
            if not open_tasks.exists() and lost.update(state=Task.State.OPEN, ended_at=None):
                task.state, task.ended_at = Task.State.OPEN, None
    except IntegrityError:
        return  # the other task was opened just now


def marking_begin(*, study: Study, task: Task, conversation: Conversation) -> None:
    """Draw the replies of an ended chat to label, and store them."""
    values = task.version.values
    replies = conversation.turns.filter(speaker=Turn.Speaker.BOT, index__gt=0).order_by("index")
    chosen = values.own_marking.chosen(
        list(replies.values_list("index", flat=True)), *_draw_of(study, conversation, values)
    )
    task.payload = {**task.payload, "turns": {str(conversation.pk): chosen}}
    task.save(update_fields=["payload", "updated_at"])
