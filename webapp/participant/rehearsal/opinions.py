"""Opinions of scripted participants, from simple counts that say nothing about a bot."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

_LOWEST, _RANGE = 0.12, 0.6
"""Not the whole scale: only leniency and chance take ratings of the worst or best chat to its ends."""
_WORDS = 12.0
"""Longer replies count for more, each word for less: at so many a reply has 63 % of all that length can give."""


@dataclass(frozen=True, slots=True)
class Impression:
    """A scripted participant's impression of a chat, each value from 0 (bad) to 1 (good).

    Simple counts that rate poor control bots lower than others: they test a study and say nothing about a bot.
    """

    new: float
    listening: float
    length: float
    asking: float

    @classmethod
    def of(cls, said: list[str], heard: list[str]) -> Impression:
        """Rate the replies heard to the messages said; both of equal length, not empty."""
        n = len(heard)
        words = [text.split() for text in heard]
        own = sum(h == s for h, s in zip(heard, said, strict=True))
        return cls(
            new=len(set(heard)) / n,
            listening=1 - own / n,
            length=1 - exp(-sum(map(len, words)) / n / _WORDS),
            asking=min(1.0, 2 * sum("?" in text or "؟" in text for text in heard) / n),
        )

    @property
    def overall(self) -> float:
        """The whole, from 0 to 1."""
        return 0.5 * self.new * self.listening + 0.5 * self.length

    def about(self, question: str) -> float:
        """Return the average opinion, from 0 to 1 of the scale and never at its ends.

        Args:
            question: key of a question of the usual rubric; any other asks for the whole.
        """
        single = {
            "fluency": self.length,
            "diversity": self.new,
            "contingency": self.listening,
            "empathy": self.asking,
        }.get(question, self.overall)
        return _LOWEST + _RANGE * (0.7 * self.overall + 0.3 * single)
