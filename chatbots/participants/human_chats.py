"""Stored human chats with bots, from which simulated participants learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from chatbots.conversation import Conversation, Turn
from chatbots.corpora.situations import repetition_key
from chatbots.identity import derive_seed

SHORT_WORDS = 3
"""Maximum words of texts such as greetings, which may occur in chats with any bot and identify nobody."""


@dataclass(frozen=True)
class HumanChat:
    """Chat of a person with a bot.

    An empty name means an unknown person.
    """

    bot: str
    conversation: Conversation
    person: str = ""

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Non-blank turns, joined by speaker; a joined turn has the last vote."""
        joined: list[Turn] = []
        for turn in self.conversation.turns:
            text = turn.text.strip()
            if not text:
                continue
            if joined and joined[-1].speaker == turn.speaker:
                before = joined.pop()
                joined.append(Turn(turn.speaker, f"{before.text} {text}", vote=turn.vote or before.vote))
            else:
                joined.append(Turn(turn.speaker, text, vote=turn.vote))
        return tuple(joined)

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """The person's messages."""
        return tuple(turn.text for turn in self.turns if turn.speaker == "human")

    @cached_property
    def own_keys(self) -> frozenset[str]:
        """The person's longer messages, in lower case without punctuation."""
        return frozenset(repetition_key(text) for text in self.messages if len(text.split()) > SHORT_WORDS)

    @property
    def is_opened_by_bot(self) -> bool:
        """True if the bot wrote first."""
        return bool(self.turns) and self.turns[0].speaker == "bot"

    def vote_before(self, number: int) -> int | None:
        """Return the vote on the reply before message `number`, or None.

        Messages are counted from 0.
        """
        places = [i for i, turn in enumerate(self.turns) if turn.speaker == "human"]
        place = places[number] if number < len(places) else len(self.turns)
        before = self.turns[place - 1] if place else None
        return before.vote or None if before is not None and before.speaker == "bot" else None


@dataclass(frozen=True)
class HumanChats:
    """Collection of human chats with at least one human message.

    Attributes:
        chats: in any order, which affects the draws.
    """

    chats: tuple[HumanChat, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "chats", tuple(chat for chat in self.chats if chat.messages))

    def __len__(self) -> int:
        return len(self.chats)

    def __iter__(self) -> Iterator[HumanChat]:
        return iter(self.chats)

    @cached_property
    def keys_by_bot(self) -> dict[str, frozenset[str]]:
        """Longer messages to each bot, in lower case without punctuation."""
        keys: dict[str, set[str]] = {}
        for chat in self.chats:
            keys.setdefault(chat.bot, set()).update(chat.own_keys)
        return {bot: frozenset(bot_keys) for bot, bot_keys in keys.items()}

    def draw(
        self, seed: int, bot: str, person: str = "", *, least: int = 1, unlike: HumanChat | None = None
    ) -> HumanChat | None:
        """Draw another person's chat with another bot, as model for a simulation.

        It provides opening and length.

        Chats that the person opened with a message never sent to this bot are preferred.

        Args:
            least: preferred minimum number of the person's messages.
            unlike: a chat with which it must not share a longer message.

        Returns:
            The chat, or None if there are no chats of others.
        """
        if bot not in self._drawable:
            chats = [chat for chat in self.chats if chat.bot != bot]
            chats = [chat for chat in chats if not chat.is_opened_by_bot] or chats
            bot_keys = self.keys_by_bot.get(bot, ())
            self._drawable[bot] = [chat for chat in chats if repetition_key(chat.messages[0]) not in bot_keys] or chats
        chats = [chat for chat in self._drawable[bot] if not person or chat.person != person]
        if unlike is not None:
            chats = [chat for chat in chats if chat.own_keys.isdisjoint(unlike.own_keys)]
        chats = [chat for chat in chats if len(chat.messages) >= least] or chats
        return chats[derive_seed(seed, "drawn") % len(chats)] if chats else None

    @cached_property
    def _drawable(self) -> dict[str, list[HumanChat]]:
        return {}
