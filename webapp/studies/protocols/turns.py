"""Protocols of labelled replies: turns, and marked chat.

Turns: single replies of stored conversations are marked with the study's labels, one after another.

Marked chat: participants chat with a bot and give its replies the study's labels, during or after the chat.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.base import (
    Draw,
    Gives,
    JudgePage,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    register_protocol,
    usual_steps,
)
from webapp.studies.ready_made import ready_questions

LABEL_PAGE = JudgePage(
    _("Mark the chatbot’s replies"),
    _("Reply %(n)s of %(of)s"),
    sheet="marks",
    template="turns",
    hint=_("One reply after another. Tick everything that is true of it."),
    is_wide=True,
)


@register_protocol
class TurnsProtocol(StudyProtocol):
    """A label is stored for every marked reply: 1 where it is true of it, else 0."""

    name = "turns"
    title = "Mark replies"
    description = "Each person reads conversations and ticks for the chatbot's replies what is true of them."
    headline = "Mark a chatbot’s replies"
    gives: Gives = "conversations"
    settings = ("marking",)
    identity = Identity("turns", "1")
    steps = usual_steps(Step("judge", _("Mark")))
    asks = ready_questions("labels")
    instructions = (
        "Read the conversation from its beginning.\n"
        "Tick for each marked reply everything that is true of it, or “None of these”.\n"
        "Your answers are saved reply by reply, so you can stop and come back."
    )
    scale = (0, 1)
    page = LABEL_PAGE

    def next_task(self, draw: Draw) -> TaskPlan:
        chats = draw.conversations(draw.values.marking.n_conversations)
        slots = tuple(SlotPlan(conversation=chat) for chat in chats)
        return TaskPlan("judge", slots, {"turns": dict(draw.replies(chats))})


@register_protocol
class MarkedChatProtocol(StudyProtocol):
    """One conversation a task; which of its replies are marked is drawn when it ends and stored in the task."""

    name = "marked_chat"
    title = "Chat, and mark the replies"
    description = (
        "Each person chats with a bot and ticks for its replies what is true of them, while they chat or afterwards."
    )
    headline = "Chat with a chatbot, then mark its replies"
    gives: Gives = "bots"
    settings: tuple[str, ...] = ("chat", "own_marking", "pacing", "filtering", "typing")
    identity = Identity("marked_chat", "1")
    steps = usual_steps(Step("chat", _("Chat")), Step("judge", _("Mark")))
    asks = ready_questions("labels")
    instructions = (
        "Write as you would to a person you have just met.\n"
        "Talk about anything you like.\n"
        "Then you read the chat once more and say what is true of each reply."
    )
    scale = (0, 1)
    page = LABEL_PAGE

    def next_task(self, draw: Draw) -> TaskPlan:
        [bot] = draw.bots()
        return TaskPlan("chat", (SlotPlan(bot=bot),))
