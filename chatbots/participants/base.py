"""Contract of simulated participants, who take a person's side in conversations with bots.

A participant keeps no memory of a chat: a `ParticipantTurn` is all it needs, so that chats advance in any batches and
are resumed anywhere. A kind is one class in a file of this folder under `register_participant`.
A kind whose messages a bot writes is named with that bot: `prompted:smollm2`.
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
    """Character of a participant: who it is, what it wants of the chat, how it feels. Empty: nothing is given."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # files of profiles are read as this

    persona: str = ""
    goal: str = ""
    mood: str = ""


@dataclass(frozen=True, slots=True)
class ParticipantTurn:
    """Point of a chat at which the participant has to act.

    Attributes:
        conversation: all turns so far; the participant's are "human".
        bot: name of the bot. Nothing may be learned from chats with it.
        profile: character of the participant.
        n_planned: messages that the participant is to write in all; None: it leaves when it wants to.
        sampled_chat: a real chat with another bot, sampled by the chat's seed; its opening and length are reused.
        person: id of the participant whose stored chat is simulated. Nothing may be learned from this person's chats.
            Empty if unknown.
        written: the simulated participant's messages so far, if the conversation holds the real person's instead.
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
        """Seed of what stays the same throughout the chat."""
        return derive_seed(self.conversation.seed, "participant")

    @property
    def seed(self) -> int:
        """Seed of this move; depends on the chat and the turn, not on the batch."""
        return derive_seed(self.chat_seed, "move", len(self.conversation.turns))


@dataclass(frozen=True, slots=True)
class Move:
    """Action of a participant: a message, or leaving.

    Attributes:
        text: the message; None: the participant leaves, or failed.
        vote: on the bot's last turn, 1 or −1; None: none.
        error: why the participant could not act. It ends the chat.
        is_last: the participant leaves after the reply to this message.
        source: id of the stored chat that the text is taken from, so that erasing it can erase the text.
        cost: what the message took, of participants that cost money.
    """

    text: str | None = None
    vote: int | None = None
    error: str | None = None
    is_last: bool = False
    source: str = ""
    cost: ReplyCost | None = None


class SimulatedParticipant(ABC):
    """Contract of all kinds of simulated participants; derive from it and set the class attributes.

    Args:
        bot: name of the bot that writes its messages; empty: none.

    Attributes:
        name: in commands, URLs and files: the kind, and its bot after a colon.
        title: name on pages.
        description: one sentence for lists.
        capacity: most moves made at once.
        deterministic: the same turn and seed give the same move.
        needs_people: learns from stored chats of people and cannot do without.
        speaks_by_bot: needs a bot that writes its messages.
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
        """Everything that decides the moves, for the identity, but people's chats. No secrets."""
        return {}

    @property
    def identity(self) -> Identity:
        """Identity without the chats of people; known before loading."""
        return Identity(self.name, self.version, self.params)

    def unavailable_reason(self) -> str | None:
        """Explain why the participant cannot be loaded here, or return None."""
        return None

    def load(self, device: str, people: HumanChats | None = None, store: TextStore | None = None) -> None:
        """Make ready, or raise a BotError with the reason.

        Args:
            people: stored chats to learn from.
            store: keeps sentence vectors of texts between runs; erasing a person removes them there.
        """
        if self.needs_people and not people:
            raise BotError(f"{self.name} learns from chats of people, and there are none")
        self.people = people

    def unload(self) -> None:
        """Free memory. The participant can be loaded again."""
        self.people = None

    @abstractmethod
    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return one move for each turn, in order. A failure is a move with an error."""

    def opening(self, turn: ParticipantTurn) -> Move | None:
        """Return the drawn person's first message if nothing has been written; else None."""
        if turn.sampled_chat is None or turn.conversation.turns:
            return None
        return Move(turn.sampled_chat.messages[0], source=turn.sampled_chat.conversation.id)


participants: Registry[SimulatedParticipant] = Registry("simulated participant", "chatbots.participants")


def register_participant(cls: C) -> C:
    """Decorate a class: make one participant of it, without arguments, and list it."""
    participants.register(cls)
    return cls


def participant_get(name: str) -> SimulatedParticipant:
    """Return a new participant, not loaded, by its name, such as `retrieval` or `prompted:smollm2`.

    Raises:
        UnknownName: there is no such kind; the message names the nearest ones.
        BotError: the kind and the bot in the name do not go together.
    """
    kind, _, bot = name.partition(":")
    entry = participants.get(kind)
    if entry.speaks_by_bot != bool(bot):
        advice = f"write {kind}:BOT with the id of a bot" if entry.speaks_by_bot else f"write {kind} alone"
        raise BotError(f"{quote(name)} is no participant; {advice}")
    return type(entry)(bot)


def participant_load(
    name: str, device: str = "cpu", people: HumanChats | None = None, store: TextStore | None = None
) -> SimulatedParticipant:
    """Return a participant that is ready to act, or raise as `participant_get` and `load` do."""
    participant = participant_get(name)
    reason = participant.unavailable_reason()
    if reason is not None:
        raise BotError(f"{name} cannot be loaded: {reason}")
    participant.load(device, people, store)
    return participant
