"""Protocols of live chats, and of labelled replies: chat, arena, picks, turns, error spans, and marked chat.

Chat: one conversation with one bot and the rubric's questions about it.

Arena: two anonymous chatbots answer the same messages side by side, and the participant names the better one.

Picks: two chatbots reply to each message, and the chat goes on with the reply that was picked. As the pairwise
per-turn evaluation of Smith et al. (2022).

Turns: single replies of stored conversations are marked with the study's labels, one after another.

Error spans: errors are marked in the words of such replies, as in MQM (Freitag et al. 2021), and give a score.

Marked chat: participants chat with a bot and give its replies the study's labels, during or after the chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from evaluation.analysis.error_spans import SCORE
from webapp.studies.models import StudyVersion
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
from webapp.studies.questions import Question
from webapp.studies.ready_made import ready_questions
from webapp.studies.settings import StudyValues


@register_protocol
class ChatProtocol(StudyProtocol):
    """One conversation a task, or several in turn; a returning participant gets bots that they have not met."""

    name = "chat"
    title = "Chat, then rate"
    description = (
        "Each person chats with a bot, then answers questions about the chat; with several bots in a row, if wanted."
    )
    gives: Gives = "bots"
    settings = ("chat", "people", "pacing", "filtering", "typing")
    has_sequences = True
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
    compares_pairs = True
    bots_at_once = 2
    settings: tuple[str, ...] = ("chat", "arena", "pacing", "filtering", "typing")
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


@register_protocol
class PicksProtocol(ArenaProtocol):
    """Some pairs of bots a task, one after another; each reply is compared with the other bot's reply."""

    name = "picks"
    title = "Pick a reply at every turn"
    description = (
        "Each person gets two replies to every message, picks the better one, and the chat goes on with that one."
    )
    headline = "Chat, and pick the better reply each time"
    picks_replies = True
    settings = ("chat", "arena", "picking", "pacing", "filtering", "typing")
    instructions = (
        "You get two replies to each of your messages.\n"
        "Pick the better one; the chat goes on with it.\n"
        "Talk about anything you like."
    )
    asks = ready_questions("picks")
    identity = Identity("picks", "1")
    steps = usual_steps(Step("picks", _("Chat")))

    def next_task(self, draw: Draw) -> TaskPlan:
        return replace(super().next_task(draw), kind=self.name)

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        return {}

    def example(self) -> dict[str, Any]:
        return {"arena": {"n_comparisons": 1}, "chat": {"min_exchanges": 6, "max_exchanges": 6}}


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
    marks_turns = True
    can_label_steps = True
    settings: tuple[str, ...] = ("marking", "step_marking")
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
class ErrorSpansProtocol(TurnsProtocol):
    """A reply's errors are stored with offsets, kind and severity; its labels and its score are made of them."""

    name = "error_spans"
    title = "Mark errors in replies"
    description = (
        "Each person reads conversations and marks the errors in the chatbot's replies, with kind and severity."
    )
    headline = "Mark the errors of a chatbot"
    marks_errors = True
    can_label_steps = False
    settings = ("marking", "error_marking")
    identity = Identity("error_spans", "1")
    asks = ready_questions("errors")
    instructions = (
        "Read the conversation from its beginning.\n"
        "Mark each error in the marked reply: its words, what kind it is, and how bad.\n"
        "Where a reply has no error, say so.\n"
        "Your answers are saved reply by reply, so you can stop and come back."
    )
    page = JudgePage(
        _("Mark the errors in the reply"),
        _("Reply %(n)s of %(of)s"),
        sheet="spans",
        template="turns",
        hint=_("Select words of the reply, then say what is wrong with them."),
        is_wide=True,
    )
    results = ("errors",)

    def scores(self, values: StudyValues) -> tuple[Question, ...]:
        title, low = "Minus the weighted errors of the reply", values.error_marking.lowest
        return (Question(key=SCORE, name="Error score", title=title, kind="scale", low=low, high=0),)

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        return {SCORE: (version.values.error_marking.lowest, 0)}


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
    marks_turns = True
    marks_own_chats = True
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
