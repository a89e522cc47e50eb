"""What scripted participants think of what they read. Simple counts, which say nothing about a bot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Impression:
    """What a scripted participant makes of a chat, each from 0 (bad) to 1 (good).

    Simple counts, so that poor control bots are rated low and others higher: they try a study out and
    say nothing about a bot.
    """

    new: float
    listening: float
    length: float
    asking: float

    @classmethod
    def of(cls, said: list[str], heard: list[str]) -> Impression:
        """Judge what was heard in answer to what was said; both of one length, not empty."""
        n = len(heard)
        words = [text.split() for text in heard]
        own = sum(h == s for h, s in zip(heard, said, strict=True))
        return cls(
            new=len(set(heard)) / n,
            listening=1 - own / n,
            length=min(1.0, sum(map(len, words)) / n / 16),
            asking=min(1.0, 2 * sum("?" in text or "؟" in text for text in heard) / n),
        )

    @property
    def overall(self) -> float:
        """The whole, stretched so that good and bad chats reach the ends of a scale."""
        return 1.25 * (0.5 * self.new * self.listening + 0.5 * self.length) - 0.15

    def about(self, question: str) -> float:
        """Return the opinion that a question of the usual rubric asks for; the one of the whole for any other."""
        single = {
            "fluency": self.length,
            "diversity": self.new,
            "contingency": self.listening,
            "empathy": self.asking,
        }.get(question, self.overall)
        return 0.7 * self.overall + 0.3 * single
