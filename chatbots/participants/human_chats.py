"""Stored chats of people with bots, from which simulated participants learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from chatbots.conversation import Conversation, Turn
from chatbots.corpora.situations import repetition_key
from chatbots.identity import derive_seed

SHORT_WORDS = 3
"""Texts of so many words, such as greetings, are nobody's own: they may occur in chats with any bot."""


@dataclass(frozen=True)
class HumanChat:
    """One chat of a person with a bot. The person's turns are "human"; an empty name is an unknown person."""

    bot: str
    conversation: Conversation
    person: str = ""

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The turns that have text, neighbouring ones of one speaker joined; the last vote of them counts."""
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
        """The person's messages of more than a few words, without capitals and punctuation."""
        return frozenset(repetition_key(text) for text in self.messages if len(text.split()) > SHORT_WORDS)

    @property
    def is_opened_by_bot(self) -> bool:
        """True if the bot wrote first."""
        return bool(self.turns) and self.turns[0].speaker == "bot"

    def vote_before(self, number: int) -> int | None:
        """Return the person's vote on the reply before message `number` (from 0); None if there is none."""
        places = [i for i, turn in enumerate(self.turns) if turn.speaker == "human"]
        place = places[number] if number < len(places) else len(self.turns)
        before = self.turns[place - 1] if place else None
        return before.vote or None if before is not None and before.speaker == "bot" else None


@dataclass(frozen=True)
class HumanChats:
    """Chats of people with bots; those without any message of a person are left out.

    Attributes:
        chats: in any order; what is drawn of them depends on it.
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
        """The messages of more than a few words to each bot, without capitals and punctuation."""
        keys: dict[str, set[str]] = {}
        for chat in self.chats:
            keys.setdefault(chat.bot, set()).update(chat.own_keys)
        return {bot: frozenset(bot_keys) for bot, bot_keys in keys.items()}

    def draw(
        self, seed: int, bot: str, person: str = "", *, least: int = 1, unlike: HumanChat | None = None
    ) -> HumanChat | None:
        """Draw a chat of another person with another bot, whose opening and length a simulated chat takes over.

        Chats that the person opened, with a message that nobody wrote to this bot, are preferred.

        Args:
            least: messages that the person has written at least, where there is such a chat.
            unlike: a chat with which it may share no message of more than a few words.

        Returns:
            None if there are no chats of others.
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
