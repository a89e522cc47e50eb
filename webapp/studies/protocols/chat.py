"""Chat, then rate: one conversation with one bot and the rubric's questions about it."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.models import Rubric, StudyVersion
from webapp.studies.protocols.base import (
    Draw,
    Gives,
    Progress,
    SlotPlan,
    Step,
    TaskPlan,
    register_protocol,
)


@register_protocol
class Chat:
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

    def form(self, version: StudyVersion) -> Rubric:
        return version.rubric

    def is_complete(self, progress: Progress) -> bool:
        return progress.n_rated >= progress.n_slots
