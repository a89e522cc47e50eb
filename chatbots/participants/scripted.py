"""A scripted participant, with fixed messages and votes from simple counts.

The votes say nothing about a bot's quality. `rehearse` sends the same characters through a study's pages
(`webapp/participant/simulated`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import Any

from chatbots.corpora.dialogues import corpus_read
from chatbots.participants.base import Move, ParticipantTurn, SimulatedParticipant, register_participant

LENIENCY_SD = 0.14
NOISE_SD = 0.18
"""Standard deviations of participants and of single answers, as fractions of the scale.

Together 1.4 on seven points, as in human ratings of one bot.
"""
_LOWEST, _RANGE = 0.12, 0.6
"""Range of mean opinions. Only leniency and chance move ratings to the ends of the scale."""
_WORDS = 12.0
"""Number of words at which a reply has 63 % of the maximum credit for its length."""


@dataclass(frozen=True, slots=True)
class Impression:
    """Impression of a chat, with values from 0 (bad) to 1 (good).

    The values are simple counts that rate poor control bots lower. They serve to test a study and say nothing about a
    bot's quality.
    """

    new: float
    listening: float
    length: float
    asking: float

    @classmethod
    def from_replies(cls, messages: list[str], heard: list[str]) -> Impression:
        """Rate the replies to equally many messages; neutral without replies."""
        if not heard:
            return cls(new=0.5, listening=0.5, length=0.5, asking=0.5)
        n = len(heard)
        words = [text.split() for text in heard]
        n_echoes = sum(h == s for h, s in zip(heard, messages, strict=True))
        return cls(
            new=len(set(heard)) / n,
            listening=1 - n_echoes / n,
            length=1 - exp(-sum(map(len, words)) / n / _WORDS),
            asking=min(1.0, 2 * sum("?" in text or "؟" in text for text in heard) / n),
        )

    @property
    def overall(self) -> float:
        """Overall impression, from 0 to 1."""
        return 0.5 * self.new * self.listening + 0.5 * self.length

    def about(self, question: str) -> float:
        """Return the mean opinion from 0 to 1, never at the ends.

        Args:
            question: key of a question of the default rubric; any other gives the overall opinion.
        """
        single = {
            "fluency": self.length,
            "diversity": self.new,
            "contingency": self.listening,
            "empathy": self.asking,
        }.get(question, self.overall)
        return _LOWEST + _RANGE * (0.7 * self.overall + 0.3 * single)


class ScriptedCharacter:
    """Messages and opinions of one scripted participant.

    All choices are drawn from `seed`.

    Args:
        lines: conversations to take messages from, each a list of one speaker's messages.
    """

    def __init__(self, lines: Sequence[Sequence[str]], seed: int) -> None:
        self.rng = random.Random(seed)
        # Some raters are more lenient than others.
        self.leniency = self.rng.gauss(0, LENIENCY_SD)
        self.lines = lines
        self._script: list[str] = []

    def begin(self) -> None:
        """Draw the next conversation of the script."""
        self._script = list(self.rng.choice(self.lines))

    def message(self) -> str:
        """Return the next message, drawing a new conversation if needed."""
        if not self._script:
            self.begin()
        return self._script.pop(0)

    def opinion(self, impression: Impression, question: str) -> float:
        """Return an opinion (scale 0 to 1) from impression, leniency and noise."""
        return impression.about(question) + self.leniency + self.rng.gauss(0, NOISE_SD)

    def vote(self, messages: list[str], heard: list[str]) -> int | None:
        """Vote 1 or −1 on every second reply."""
        if self.rng.random() >= 0.5:
            return None
        return 1 if self.opinion(Impression.from_replies(messages, heard), "vote") > 0.5 else -1


@cache
def everyday_messages() -> tuple[tuple[str, ...], ...]:
    """Return the first speaker's messages of each everyday conversation."""
    return tuple(dialogue.turns[::2] for dialogue in corpus_read().dialogues)


@register_participant
class EverydayParticipant(SimulatedParticipant):
    """The scripted participant of rehearsals, with English everyday messages."""

    name = "scripted"
    title = "Scripted"
    description = "Writes one speaker's messages from the everyday corpus, as in rehearsals, regardless of the replies."
    capacity = 4096
    votes = True

    @property
    def params(self) -> dict[str, Any]:
        return {"corpus": corpus_read().digest}

    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return the script's next message, and a vote on every second reply."""
        return [self._move(turn) for turn in turns]

    def _move(self, turn: ParticipantTurn) -> Move:
        character = ScriptedCharacter(everyday_messages(), turn.chat_seed)
        messages = [character.message() for _ in range(turn.number + 1)]
        character.rng = random.Random(turn.seed)
        pairs = zip(turn.conversation.turns, turn.conversation.turns[1:], strict=False)
        exchanges = [(a.text, b.text) for a, b in pairs if (a.speaker, b.speaker) == ("human", "bot")]
        vote = None
        if exchanges and turn.conversation.turns[-1].speaker == "bot":
            vote = character.vote([said for said, _ in exchanges], [heard for _, heard in exchanges])
        return Move(messages[-1], vote=vote)
