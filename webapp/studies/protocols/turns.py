"""Turns: single replies of stored conversations are marked with the study's labels, one after another."""

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
)
from webapp.studies.questions import Question

LABELS = tuple(
    Question(
        key=key, name=name, title=name, help=meaning, kind="scale", low=0, high=1, reversed=is_bad
    )
    for key, name, is_bad, meaning in (
        (
            "ignores",
            "Ignores what was said",
            True,
            "The reply would be the same whatever the person had written.",
        ),
        (
            "contradicts",
            "Contradicts itself",
            True,
            "It says the opposite of what the chatbot said before.",
        ),
        (
            "invents",
            "Makes up a fact about itself",
            True,
            "It claims what a program cannot have, such as a brother or a holiday.",
        ),
        (
            "nonsense",
            "Goes against common sense",
            True,
            "What it says cannot be true, as everybody knows.",
        ),
        (
            "repeats",
            "Repeats itself",
            True,
            "The chatbot said the same before, in these words or in others.",
        ),
        (
            "feeling",
            "Shows feeling",
            False,
            "It answers to how the person feels, or is glad or sorry with them.",
        ),
        ("asks", "Asks about the person", False, "It wants to know something about the person."),
    )
)
"""Default labels of a reply, for studies without their own."""
PAGE = JudgePage(
    _("Mark the chatbot’s replies"),
    _("Reply %(n)s of %(of)s"),
    sheet="marks",
    template="turns",
    hint=_("One reply after another. Tick everything that is true of it."),
    is_wide=True,
)


@register_protocol
class Turns(StudyProtocol):
    """A label is stored for every marked reply: 1 where it is true of it, else 0."""

    name = "turns"
    title = "Mark replies"
    description = (
        "Each person reads conversations and ticks for the chatbot's replies what is true of them."
    )
    headline = "Mark a chatbot’s replies"
    gives: Gives = "conversations"
    settings = ("marking",)
    identity = Identity("turns", "1")
    steps = (
        Step("consent", _("About")),
        Step("instructions", _("About")),
        Step("quiz", _("About")),
        Step("questions", _("About")),
        Step("judge", _("Mark")),
        Step("done", _("Done")),
    )
    asks = LABELS
    instructions = (
        "Read the conversation from its beginning.\n"
        "Tick for each marked reply everything that is true of it, or “None of these”.\n"
        "Your answers are saved reply by reply, so you can stop and come back."
    )
    scale = (0, 1)
    page = PAGE

    def next_task(self, draw: Draw) -> TaskPlan:
        chats = draw.conversations(draw.values.marking.n_conversations)
        slots = tuple(SlotPlan(conversation=chat) for chat in chats)
        return TaskPlan("judge", slots, {"turns": dict(draw.replies(chats))})
