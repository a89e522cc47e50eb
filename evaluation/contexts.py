"""Positions in dialogues from which items are made: the context of a reply, and the filters of the papers.

Ghandeharioun et al. (2019) compare replies to contexts of more than 10 tokens without an unknown token; Huang et al.
(2020) take two utterances before the reply; Shi et al. (2023) take dialogues of at least two turns whose utterances
have up to 25 words on average.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chatbots import Conversation
from chatbots.corpora.text import tokenise

_UNKNOWN = re.compile(r"<unk>|\[unk\]|<unknown>|\bunk\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions that a context must meet.

    Attributes:
        n_utterances: number of newest utterances kept; a position with fewer before it is left out.
        more_than_tokens: of the context.
        unknown: whether a context may hold an unknown token.
        most_mean_words: of its utterances; 0: any number.
    """

    n_utterances: int = 3
    more_than_tokens: int = 0
    unknown: bool = False
    most_mean_words: float = 0

    def takes(self, context: Sequence[str]) -> bool:
        """Return True if a context meets the conditions."""
        if len(context) < self.n_utterances or not all(text.strip() for text in context):
            return False
        if not self.unknown and any(_UNKNOWN.search(text) for text in context):
            return False
        if sum(len(tokenise(text)) for text in context) <= self.more_than_tokens:
            return False
        words = sum(len(text.split()) for text in context) / len(context)
        return not self.most_mean_words or words <= self.most_mean_words


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a dialogue: the number of the replying turn, and the turns before it, oldest first."""

    turn: int
    context: tuple[str, ...]
    reply: str


def places_of(conversation: Conversation, filters: Filters) -> Iterator[Place]:
    """Yield the places at which the bot replied and whose context passes, in order."""
    texts = [turn.text for turn in conversation.turns]
    for n, turn in enumerate(conversation.turns):
        context = tuple(texts[max(0, n - filters.n_utterances) : n])
        if turn.speaker == "bot" and turn.text.strip() and filters.takes(context):
            yield Place(n, context, turn.text)
