"""Marked chat: participants chat with a bot and give its replies the study's labels, during or after the chat."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.base import (
    Draw,
    Gives,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    register_protocol,
)
from webapp.studies.protocols.turns import LABELS, PAGE


@register_protocol
class MarkedChat(StudyProtocol):
    """One conversation a task; which of its replies are marked is drawn when it ends and stored in the task."""

    name = "marked_chat"
    title = "Chat, and mark the replies"
    description = (
        "Each person chats with a bot and ticks for its replies what is true of them, "
        "while they chat or afterwards."
    )
    headline = "Chat with a chatbot, then mark its replies"
    gives: Gives = "bots"
    settings: tuple[str, ...] = ("chat", "own_marking", "pacing", "filtering", "typing")
    identity = Identity("marked_chat", "1")
    steps = (
        Step("consent", _("About")),
        Step("instructions", _("About")),
        Step("quiz", _("About")),
        Step("questions", _("About")),
        Step("chat", _("Chat")),
        Step("judge", _("Mark")),
        Step("done", _("Done")),
    )
    asks = LABELS
    instructions = (
        "Write as you would to a person you have just met.\n"
        "Talk about anything you like.\n"
        "Then you read the chat once more and say what is true of each reply."
    )
    scale = (0, 1)
    page = PAGE

    def next_task(self, draw: Draw) -> TaskPlan:
        [bot] = draw.bots()
        return TaskPlan("chat", (SlotPlan(bot=bot),))
