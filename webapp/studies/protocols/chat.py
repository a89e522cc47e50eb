"""Chat, then rate: one conversation with one bot and the rubric's questions about it."""

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


@register_protocol
class Chat(StudyProtocol):
    """One conversation a task; whoever comes again gets a bot they have not met."""

    name = "chat"
    title = "Chat, then rate"
    description = "Each person chats with one bot, then answers questions about the chat."
    gives: Gives = "bots"
    settings = ("chat",)
    identity = Identity("chat", "1")
    steps = (
        Step("consent", _("About")),
        Step("instructions", _("About")),
        Step("questions", _("About")),
        Step("chat", _("Chat")),
        Step("form", _("Rate")),
        Step("done", _("Done")),
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        [bot] = draw.bots()
        return TaskPlan("chat", (SlotPlan(bot=bot),))
