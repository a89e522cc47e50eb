"""Protocols of live chats and of labelled replies.

Chat: one conversation with one bot and the rubric's questions about it.

Arena: two anonymous chatbots answer the same messages side by side, and the participant names the better one.

Picks: two chatbots reply to each message, and the chat goes on with the reply that was picked. As the pairwise
per-turn evaluation of Smith et al. (2022).

Turns: single replies of stored conversations are marked with the study's labels, one after another.

Error spans: errors are marked in the words of such replies, as in MQM (Freitag et al. 2021), and give a score.

Marked chat: participants chat with a bot and give its replies the study's labels, during or after the chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import comb
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from evaluation.analysis.error_spans import SCORE
from webapp.studies.models import StudyVersion
from webapp.studies.protocols.base import (
    Activity,
    Draw,
    ExtraAnswer,
    Gives,
    JudgePage,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    WorkDescription,
    register_protocol,
    usual_steps,
)
from webapp.studies.questions import Answers, Question
from webapp.studies.ready_made import ready_questions
from webapp.studies.reply_marks import SPANS, STEPS, span_answers, step_answers
from webapp.studies.sent_answers import SentAnswers
from webapp.studies.settings import StudyValues


@register_protocol
class ChatProtocol(StudyProtocol):
    """Protocol: a chat with one bot, or with several in turn.

    A returning participant gets bots that are new to them.
    """

    name = "chat"
    title = "Chat, then rate"
    description = (
        "Each person chats with a bot, then answers questions about the chat; with several bots in a row, if wanted."
    )
    gives: Gives = "bots"
    activity_place = 1
    settings = ("chat", "people", "pacing", "filtering", "safety", "typing")
    has_sequences = True
    identity = Identity("chat", "1")
    steps = usual_steps(Step("chat", _("Chat")), Step("form", _("Rate")))

    def next_task(self, draw: Draw) -> TaskPlan:
        bots, order = draw.in_turn()
        payload = {"sequence": order} if order else {}
        return TaskPlan("chat", tuple(SlotPlan(bot=bot) for bot in bots), payload)

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        _n_least, n = n_asked
        if values.people.disclosure != "none":
            lead = ngettext(
                "One short conversation, then %(n)s question about it. There are no right or wrong answers.",
                "One short conversation, then %(n)s questions about it. There are no right or wrong answers.",
                n,
            )
        else:
            lead = ngettext(
                "One short conversation with a computer program, then %(n)s question about it. "
                "There are no right or wrong answers.",
                "One short conversation with a computer program, then %(n)s questions about it. "
                "There are no right or wrong answers.",
                n,
            )
        return _chat_work(values, lead % {"n": n})


def _chat_work(values: StudyValues, lead: str) -> WorkDescription:
    n = values.chat.min_exchanges
    amount = ngettext("%(n)s message", "%(n)s messages", n) % {"n": n}
    return WorkDescription(lead, amount, gettext("or more from you"), "min_exchanges")


def _n_pairs(values: StudyValues) -> int:
    # No participant gets a pair twice, so few chatbots make fewer pairs.
    return min(values.arena.n_comparisons, comb(len(values.bots), 2) or 1)


BOTH_BAD = "both_bad"
"""Name of an additional answer: 1 if neither chatbot is better because both are bad."""


@register_protocol
class ArenaProtocol(StudyProtocol):
    """Protocol: two bots side by side, for some pairs of bots.

    The pairs come one after another; in each pair one bot is A and one is B.
    """

    name = "arena"
    title = "Arena: two chatbots at once"
    description = "Each person talks to two chatbots side by side and says which one is better."
    headline = "Talk to two chatbots at once"
    gives: Gives = "bots"
    activity: Activity | None = "arena"
    activity_place = 1
    compares_pairs = True
    bots_at_once = 2
    settings: tuple[str, ...] = ("chat", "arena", "pacing", "filtering", "safety", "typing")
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

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        n = _n_pairs(values)
        return WorkDescription(
            gettext("You write to two computer programs at the same time and say which one is better."),
            ngettext("%(n)s pair", "%(n)s pairs", n) % {"n": n},
            gettext("of chatbots to compare"),
            "n_comparisons",
        )


@register_protocol
class PicksProtocol(ArenaProtocol):
    """Protocol: the better of two replies at every turn.

    A task has some pairs of bots, one after another.
    """

    name = "picks"
    title = "Pick a reply at every turn"
    description = (
        "Each person gets two replies to every message, picks the better one, and the chat goes on with that one."
    )
    headline = "Chat, and pick the better reply each time"
    activity_place = 2
    picks_replies = True
    settings = ("chat", "arena", "picking", "pacing", "filtering", "safety", "typing")
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

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        n = values.chat.min_exchanges * _n_pairs(values)
        return WorkDescription(
            gettext("You write to a computer program, get two replies to each message, and pick the better one."),
            ngettext("%(n)s message", "%(n)s messages", n) % {"n": n},
            gettext("or more from you"),
            "min_exchanges",
        )

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


STEP_LABELS = ExtraAnswer(STEPS, "json", "Labels of each step of the reply's trace; an empty list if none applies.")


@register_protocol
class TurnsProtocol(StudyProtocol):
    """Protocol: labels of stored replies.

    A label is stored as 1 if it applies to a reply, otherwise 0.
    """

    name = "turns"
    title = "Mark replies"
    description = "Each person reads conversations and ticks for the chatbot's replies what is true of them."
    headline = "Mark a chatbot’s replies"
    gives: Gives = "conversations"
    activity_place = 2
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

    def read_answers(self, sent: SentAnswers) -> tuple[Answers, dict[str, str]]:
        n_steps = sent.reply.n_steps if sent.reply is not None else 0
        steps, steps_wrong = step_answers(sent.answers.get(STEPS), n_steps, sent.version)
        answers = {key: answer for key, answer in sent.answers.items() if key not in steps}
        accepted, errors = super().read_answers(replace(sent, answers=answers))
        return {**accepted, **steps}, {**errors, **steps_wrong}

    def get_extra_answers(self, versions: Iterable[StudyVersion]) -> tuple[ExtraAnswer, ...]:
        has_steps = self.can_label_steps and any(version.values.step_marking.label_steps for version in versions)
        return (*self.extra_answers, *((STEP_LABELS,) if has_steps else ()))

    def taken_keys(self, values: StudyValues) -> tuple[str, ...]:
        return (STEPS,) if values.step_marking.label_steps else ()

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        return self._reading_work(values, gettext("You read a conversation and tick what is true of its replies."))

    def _reading_work(self, values: StudyValues, lead: str) -> WorkDescription:
        n = values.marking.n_conversations
        amount = ngettext("%(n)s chat", "%(n)s chats", n) % {"n": n}
        return WorkDescription(lead, amount, gettext("to read"), "n_conversations")


@register_protocol
class ErrorSpansProtocol(TurnsProtocol):
    """Protocol: errors in stored replies.

    They are stored with offsets, category and severity; labels and score are computed from them.
    """

    name = "error_spans"
    title = "Mark errors in replies"
    description = (
        "Each person reads conversations and marks the errors in the chatbot's replies, with kind and severity."
    )
    headline = "Mark the errors of a chatbot"
    activity_place = 3
    marks_errors = True
    can_label_steps = False
    extra_answers = (
        ExtraAnswer(SPANS, "json", "Marked errors: start, end, category, severity; empty list: no error."),
    )
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

    def read_answers(self, sent: SentAnswers) -> tuple[Answers, dict[str, str]]:
        assert sent.reply is not None, "errors are marked in a reply"
        scores, spans, wrong = span_answers(sent.answers.get(SPANS), sent.reply.text, sent.version)
        answers = {key: answer for key, answer in sent.answers.items() if key != SPANS}
        accepted, errors = super().read_answers(replace(sent, answers=answers | scores))
        return {**accepted, SPANS: spans}, {SPANS: wrong} if wrong else errors

    def taken_keys(self, values: StudyValues) -> tuple[str, ...]:
        return SCORE, SPANS, "no_error"

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        return self._reading_work(values, gettext("You read a conversation and mark the errors in its replies."))


@register_protocol
class MarkedChatProtocol(StudyProtocol):
    """Protocol: a chat with labels of the bot's replies.

    The labelled replies are drawn when the chat ends and stored in the task.
    """

    name = "marked_chat"
    title = "Chat, and mark the replies"
    description = (
        "Each person chats with a bot and ticks for its replies what is true of them, while they chat or afterwards."
    )
    headline = "Chat with a chatbot, then mark its replies"
    gives: Gives = "bots"
    activity_place = 2
    marks_turns = True
    marks_own_chats = True
    settings: tuple[str, ...] = ("chat", "own_marking", "pacing", "filtering", "safety", "typing")
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

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        lead = gettext(
            "One short conversation with a computer program. You mark its replies. There are no right or wrong answers."
        )
        return _chat_work(values, lead)
