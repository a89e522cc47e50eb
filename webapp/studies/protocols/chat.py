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
    """One conversation a task, or several in turn; a returning participant gets bots that they have not met."""

    name = "chat"
    title = "Chat, then rate"
    description = (
        "Each person chats with a bot, then answers questions about the chat; "
        "with several bots in a row, if wanted."
    )
    gives: Gives = "bots"
    settings = ("chat", "pacing", "filtering", "typing")
    identity = Identity("chat", "1")
    steps = (
        Step("consent", _("About")),
        Step("instructions", _("About")),
        Step("quiz", _("About")),
        Step("questions", _("About")),
        Step("chat", _("Chat")),
        Step("form", _("Rate")),
        Step("done", _("Done")),
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        bots, order = draw.in_turn()
        payload = {"sequence": order} if order else {}
        return TaskPlan("chat", tuple(SlotPlan(bot=bot) for bot in bots), payload)
