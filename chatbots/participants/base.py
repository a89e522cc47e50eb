"""Interface of simulated participants, who play the human in chats with bots.

A participant keeps no memory of a chat: it needs only a `ParticipantTurn`, so chats can be batched and resumed freely.
A kind is a class in a file of this folder, decorated with `register_participant`.
The name of a kind whose messages a bot writes includes that bot: `prompted:smollm2`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation
from chatbots.endpoints.metering import ReplyCost
from chatbots.identity import Identity, derive_seed
from chatbots.participants.human_chats import HumanChat, HumanChats
from chatbots.registry import C, Registry
from chatbots.text import quote

if TYPE_CHECKING:
    from chatbots.encoders.cache import TextStore


@dataclass(frozen=True, slots=True)
class ParticipantProfile:
    """Character of a participant: identity, goal of the chat, mood.

    Empty fields are unspecified.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # used to validate profile files

    persona: str = ""
    goal: str = ""
    mood: str = ""


@dataclass(frozen=True, slots=True)
class ParticipantTurn:
    """Point of a chat at which the participant must act.

    Attributes:
        conversation: all turns so far; the participant's are "human".
        bot: name of the bot. The participant must not learn from chats with it.
        profile: character of the participant.
        n_planned: number of messages that the participant will write; None if it decides itself when to leave.
        sampled_chat: a real chat with another bot, sampled by the chat's seed; its opening and length are reused.
        person: id of the participant whose stored chat is simulated, and whose chats must not be used for learning.
            Empty if unknown.
        written: the simulated participant's messages so far, if the conversation has the real person's instead.
    """

    conversation: Conversation
    bot: str
    profile: ParticipantProfile = ParticipantProfile()
    n_planned: int | None = None
    sampled_chat: HumanChat | None = None
    person: str = ""
    written: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """Number of messages that the participant has written."""
        return sum(turn.speaker == "human" for turn in self.conversation.turns)

    @property
    def chat_seed(self) -> int:
        """Seed of choices that stay fixed throughout the chat."""
        return derive_seed(self.conversation.seed, "participant")

    @property
    def seed(self) -> int:
        """Seed of this move, by chat and turn and independent of the batch."""
        return derive_seed(self.chat_seed, "move", len(self.conversation.turns))


@dataclass(frozen=True, slots=True)
class Move:
    """Action of a participant: a message, or leaving.

    Attributes:
        text: the message; None if the participant leaves or failed.
        vote: vote on the bot's last turn, 1 or −1, or None.
        error: reason why the participant could not act, which ends the chat.
        is_last: the participant leaves after the reply to this message.
        source: id of the stored chat that the text comes from, so that erasing that chat also erases the text.
        cost: cost of the message, for paid participants.
    """

    text: str | None = None
    vote: int | None = None
    error: str | None = None
    is_last: bool = False
    source: str = ""
    cost: ReplyCost | None = None


class SimulatedParticipant(ABC):
    """Base class of simulated participants; subclasses set the class attributes.

    Args:
        bot: name of the bot that writes its messages; empty for none.

    Attributes:
        name: name in commands, URLs and files: the kind, followed by a colon and its bot.
        title: name on pages.
        description: one sentence for lists.
        capacity: maximum number of moves per batch.
        deterministic: the same turn and seed give the same move.
        needs_people: requires stored human chats to learn from.
        speaks_by_bot: requires a bot that writes its messages.
        votes: may vote on replies.
    """

    name = ""
    title = ""
    description = ""
    capacity = 256
    deterministic = True
    needs_people = False
    speaks_by_bot = False
    votes = False
    version = "1"

    def __init__(self, bot: str = "") -> None:
        self.bot = bot
        self.kind = type(self).name
        self.people: HumanChats | None = None
        if bot:
            self.name = f"{self.kind}:{bot}"
            self.title = f"{type(self).title}: {bot}"

    @property
    def params(self) -> dict[str, Any]:
        """All settings that affect the moves, for the identity.

        Without human chats and secrets.
        """
        return {}

    @property
    def identity(self) -> Identity:
        """Identity without the human chats, known before loading."""
        return Identity(self.name, self.version, self.params)

    def unavailable_reason(self) -> str | None:
        """Explain why the participant cannot be loaded here, or return None."""
        return None

    def load(self, device: str, people: HumanChats | None = None, store: TextStore | None = None) -> None:
        """Load the participant.

        Args:
            people: stored chats to learn from.
            store: persistent store of sentence vectors; erasing a person removes theirs.

            Raises:
            BotError: the participant cannot be loaded, with the reason.
        """
        if self.needs_people and not people:
            raise BotError(f"{self.name} learns from human chats, but there are none")
        self.people = people

    def unload(self) -> None:
        """Free memory. The participant can be loaded again."""
        self.people = None

    @abstractmethod
    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return one move for each turn, in order.

        A failed move has an error.
        """

    def opening(self, turn: ParticipantTurn) -> Move | None:
        """Return the sampled chat's first message if nothing has been written yet."""
        if turn.sampled_chat is None or turn.conversation.turns:
            return None
        return Move(turn.sampled_chat.messages[0], source=turn.sampled_chat.conversation.id)


participants: Registry[SimulatedParticipant] = Registry("simulated participant", "chatbots.participants")


def register_participant(cls: C) -> C:
    """Register a class, instantiated without arguments, as a kind of participant."""
    participants.register(cls)
    return cls


def participant_get(name: str) -> SimulatedParticipant:
    """Return a new, unloaded participant by name (`retrieval`, `prompted:smollm2`).

    Raises:
        UnknownName: there is no such kind; the message names the nearest ones.
        BotError: the kind does not support the bot in the name.
    """
    kind, _, bot = name.partition(":")
    entry = participants.get(kind)
    if entry.speaks_by_bot != bool(bot):
        advice = f"use {kind}:BOT with the id of a bot" if entry.speaks_by_bot else f"use {kind} without a bot"
        raise BotError(f"{quote(name)} is not a participant; {advice}")
    return type(entry)(bot)


def participant_load(
    name: str, device: str = "cpu", people: HumanChats | None = None, store: TextStore | None = None
) -> SimulatedParticipant:
    """Return a loaded participant.

    Raises the errors of `participant_get` and `load`.
    """
    participant = participant_get(name)
    reason = participant.unavailable_reason()
    if reason is not None:
        raise BotError(f"{name} cannot be loaded: {reason}")
    participant.load(device, people, store)
    return participant
