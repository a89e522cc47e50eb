"""Who goes through the doors in a rehearsal."""

from __future__ import annotations

import random
from collections.abc import Sequence

from webapp.participant.rehearsal.doors import OutsideDoors
from webapp.participant.rehearsal.opinions import Impression


class Person:
    """Somebody with a browser, lines to say and opinions, all choices drawn from `seed`.

    Args:
        lines: talks to take messages from, each a list of what one person says.
        comment: what is written in boxes for text.

    Attributes:
        n_more: the most messages that are written beyond what is needed.
        said, heard: messages and their replies in the chat, so far.
    """

    def __init__(
        self,
        doors: OutsideDoors,
        *,
        lines: Sequence[Sequence[str]],
        seed: int,
        comment: str = "Written by a scripted participant.",
        n_more: int = 2,
    ) -> None:
        self.doors = doors
        self.rng = random.Random(seed)
        # Some people rate everything higher than others.
        self.leniency = self.rng.gauss(0, 0.12)
        self.lines = lines
        self.comment = comment
        self.n_more = n_more
        self.said: list[str] = []
        self.heard: list[str] = []

    def answer(self, question: str, choices: list[str]) -> str:
        """Choose by what was said and heard."""
        return self.choose(Impression.of(self.said, self.heard), question, choices)

    def choose(self, impression: Impression, question: str, choices: list[str]) -> str:
        """Choose by an impression, by one's own leniency and by chance."""
        wanted = impression.about(question) + self.leniency + self.rng.gauss(0, 0.1)
        return choices[max(0, min(len(choices) - 1, round(wanted * (len(choices) - 1))))]

    def prefer(self, said: str, heard: list[str], question: str, choices: list[str]) -> str:
        """Choose between two that were heard, the first choice for the first; one in the middle is for neither."""
        first, second = (Impression.of([said], [text]).about(question) for text in heard)
        ahead = first - second + self.rng.gauss(0, 0.2)
        if len(choices) > 2 and abs(ahead) < 0.1:
            return choices[1]
        return choices[0] if ahead > 0 else choices[-1]
