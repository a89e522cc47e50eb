"""Protocols of live chats: chat, and arena.

Chat: one conversation with one bot and the rubric's questions about it.

Arena: two anonymous chatbots answer the same messages side by side, and the participant names the better one.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.models import StudyVersion
from webapp.studies.protocols.base import (
    Draw,
    Gives,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    register_protocol,
    usual_steps,
)
from webapp.studies.ready_made import ready_questions


@register_protocol
class ChatProtocol(StudyProtocol):
    """One conversation a task, or several in turn; a returning participant gets bots that they have not met."""

    name = "chat"
    title = "Chat, then rate"
    description = (
        "Each person chats with a bot, then answers questions about the chat; with several bots in a row, if wanted."
    )
    gives: Gives = "bots"
    settings = ("chat", "pacing", "filtering", "typing")
    identity = Identity("chat", "1")
    steps = usual_steps(Step("chat", _("Chat")), Step("form", _("Rate")))

    def next_task(self, draw: Draw) -> TaskPlan:
        bots, order = draw.in_turn()
        payload = {"sequence": order} if order else {}
        return TaskPlan("chat", tuple(SlotPlan(bot=bot) for bot in bots), payload)


BOTH_BAD = "both_bad"
"""Name of an additional answer: 1 if neither chatbot is better because both are bad."""


@register_protocol
class ArenaProtocol(StudyProtocol):
    """Some pairs of bots a task, one after another; of each pair one bot is A and one is B."""

    name = "arena"
    title = "Arena: two chatbots at once"
    description = "Each person talks to two chatbots side by side and says which one is better."
    headline = "Talk to two chatbots at once"
    gives: Gives = "bots"
    settings = ("chat", "arena", "pacing", "filtering", "typing")
    instructions = (
        "You write to two chatbots at once, and both answer.\n"
        "Talk about anything you like.\n"
        "When you know which one is better, choose it and save."
    )
    scale = (-1, 1)
    n_asked = 1
    asks = ready_questions("arena")
    identity = Identity("arena", "1")
    steps = usual_steps(Step("arena", _("Compare")))

    def next_task(self, draw: Draw) -> TaskPlan:
        pairs = draw.pairs(draw.values.arena.n_comparisons)
        sides = ((bot, side) for pair in pairs for bot, side in zip(pair, "AB", strict=True))
        return TaskPlan("arena", tuple(SlotPlan(bot=bot, side=side) for bot, side in sides))

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        return {BOTH_BAD: (0, 1)}
