"""A prompted participant: a chat model that plays a person.

The prompt gives a persona, a goal and a mood, and replaces the model's own system prompt. Chat models are trained to
reply to a user, so the roles are reversed: the bot's turns become the user's and the participant's turns the
assistant's. The reversed chat has its own id and seed. It only grows at its end, so prefix caches work as usual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatbots.bots.base import Bot
from chatbots.conversation import Conversation, Turn
from chatbots.endpoints.metering import PaidBot
from chatbots.participants.base import (
    Move,
    ParticipantProfile,
    ParticipantTurn,
    SimulatedParticipant,
    register_participant,
)
from chatbots.participants.human_chats import HumanChats
from chatbots.registry import bot_get

if TYPE_CHECKING:
    from chatbots.encoders.cache import TextStore

TASK = (
    "You are a person who tries out a chatbot. You are not an assistant. Answer the chatbot with one short, casual "
    "chat message, without a name or quotation marks."
)
PROFILE = {"persona": "You: {}", "goal": "Your goal: {}", "mood": "Your mood: {}"}
LEAVING = "To end the chat, write [leaves]."
TIMEOUT_S = 300.0
"""Maximum wait for a message, in seconds."""
_LEAVE = (
    r"(?:leav(?:es?|ing)|left|exit(?:s|ed|ing)?|quit(?:s|ting)?|end(?:s|ed|ing)?|clos(?:es?|ed|ing)|stop(?:s|ped)?|"
    r"disconnect(?:s|ed|ing)?|log(?:s|ged|ging)?[\s-]?(?:off|out)|sign(?:s|ed|ing)?[\s-]?(?:off|out)|"
    r"hang(?:s|ing)?[\s-]?up|hung[\s-]?up|walk(?:s|ed|ing)?[\s-]?(?:off|out|away)|go(?:es|ing)? (?:offline|away)|gone)"
)
_PLACES = "chat|conversation|call|room|chatroom|session|discussion|window|app|page|site|tab|laptop|computer|phone"
_CHAT = rf"(?:\s+(?:of|from)?\s*(?:the|this|our|my|his|her|their)?\s*(?:{_PLACES}))"
_STAGE = (
    r"(?:(?:i|user|human|person|participant|she|he|they)\s+)?(?:(?:\w+\s+){1,4}and\s+)?"
    rf"(?:(?:has|have|then|just|quietly|politely|is)\s+)*{_LEAVE}{_CHAT}?"
)
_LEAVES = re.compile(
    rf"[\[({{<*_~—]+\s*(?:{_STAGE}|end(?: of)?{_CHAT}|(?:the\s+)?(?:chat|conversation)\s+(?:is\s+)?"
    r"(?:over|ends?|ended|closed))(?:\s+now)?\s*[.!]?\s*[\])}>*_~—]+(?!\s+(?-i:[a-z]))"
    rf"|^\s*(?:/(?:leave|quit|exit|bye|end)|(?:{_LEAVE}{_CHAT}|leaves))\s*[.!]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""`[leaves]` and stage directions that mean the same, such as `*waves and leaves the chat*` or `/quit`."""
_LABEL = re.compile(r"^[*_]*(?:me|you|user|human|person|participant|assistant|chatbot|bot|ai)[*_]*:[*_]*\s*", re.I)
_QUOTES = ('""', "''", "“”", "‘’", "«»", "„“")


def prompt_for(profile: ParticipantProfile, *, may_leave: bool) -> str:
    """Return the system prompt of a participant."""
    lines = [text.format(getattr(profile, name)) for name, text in PROFILE.items() if getattr(profile, name)]
    return "\n".join([TASK, *lines, *([LEAVING] if may_leave else [])])


def clean_message(text: str) -> tuple[str, bool]:
    """Return a model's message without labels and quotes; True if it leaves.

    The message is cut where the model continues with the chatbot's lines.
    """
    before, *after = _LEAVES.split(text, maxsplit=1)
    lines = [line.strip() for line in before.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if number and _LABEL.match(line)]
    message = _LABEL.sub("", " ".join(lines[: ends[0]] if ends else lines)).strip()
    if len(message) > 1 and message[0] + message[-1] in _QUOTES:
        message = message[1:-1].strip()
    return message, bool(after)


class BotDrivenParticipant(SimulatedParticipant):
    """Base class of participants whose messages a bot writes, with reversed roles."""

    speaks_by_bot = True
    capacity = 1024  # bot serving forms its own batches

    def prompt_of(self, turn: ParticipantTurn) -> str | None:
        """Return the replacement of the bot's system prompt; None to keep it."""
        return None

    def refusal(self, bot: Bot) -> str | None:
        """Explain why this bot cannot write a participant's messages, or return None."""
        return None

    def __init__(self, bot: str = "") -> None:
        super().__init__(bot)
        self._device = "cpu"
        self.deterministic = not bot or self._bot.deterministic

    @property
    def _bot(self) -> Bot:
        return bot_get(self.bot)

    @property
    def params(self) -> dict[str, Any]:
        return {"bot": self._bot.identity.as_dict()} if self.bot else {}

    def unavailable_reason(self) -> str | None:
        if not self.bot:
            return f"it needs a bot to write its messages: {self.kind}:BOT"
        return self.refusal(self._bot) or self._bot.unavailable_reason()

    def load(self, device: str, people: HumanChats | None = None, store: TextStore | None = None) -> None:
        super().load(device, people, store)
        self._device = device
        self._bot.load(device)

    def unload(self) -> None:
        super().unload()
        self._bot.unload()

    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return one message for each turn.

        A sampled chat provides the first message.
        """
        from chatbots.serving import reply

        moves = [self.opening(turn) for turn in turns]
        places = [place for place, move in enumerate(moves) if move is None]
        contexts = [self.reversed(turns[place]) for place in places]
        bot = self._bot
        bot.load(self._device)  # the other side may have unloaded this bot
        for place, context, answer in zip(places, contexts, reply(bot, contexts, timeout_s=TIMEOUT_S), strict=True):
            cost = bot.cost_take(context) if isinstance(bot, PaidBot) else None
            text, leaves = clean_message(answer.text or "")
            if answer.text is None or not (text or leaves):
                moves[place] = Move(error=answer.error or "wrote nothing", cost=cost)
            else:
                moves[place] = Move(text or None, is_last=leaves, cost=cost)
        return [move for move in moves if move is not None]

    def reversed(self, turn: ParticipantTurn) -> Conversation:
        """Return the chat with reversed roles, as the participant's bot sees it."""
        chat = turn.conversation
        return replace(
            chat,
            id=f"{chat.id}:participant",
            seed=turn.chat_seed,
            turns=tuple(Turn("bot" if message.speaker == "human" else "human", message.text) for message in chat.turns),
            bot_prompt="",
            system_prompt=self.prompt_of(turn),
            is_opened=True,
        )


@register_participant
class PromptedParticipant(BotDrivenParticipant):
    """Chat model prompted to play a person."""

    name = "prompted"
    title = "Prompted"
    description = "A chat model prompted to write as a person with a persona, a goal and a mood."

    @property
    def params(self) -> dict[str, Any]:
        return {**super().params, "prompt": [TASK, PROFILE, LEAVING]}

    def prompt_of(self, turn: ParticipantTurn) -> str:
        return prompt_for(turn.profile, may_leave=turn.n_planned is None)

    def refusal(self, bot: Bot) -> str | None:
        if hasattr(getattr(bot, "options", None), "system_prompt"):
            return None
        return f"{bot.name} does not use prompts; choose a chat model (transformers, gguf or an endpoint)"
