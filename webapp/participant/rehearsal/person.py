"""Scripted participant of a rehearsal."""

from __future__ import annotations

import random
from collections.abc import Sequence

from webapp.participant.rehearsal.doors import OutsideDoors
from webapp.participant.rehearsal.opinions import Impression

LENIENCY_SD = 0.14
NOISE_SD = 0.18
"""Standard deviations of participants and of single answers, as fractions of the scale.

Together 1.4 on seven points, as in people's ratings of one bot.
"""
_ALIKE = 0.1


class Person:
    """Scripted participant with an HTTP client, messages and opinions; all choices are drawn from `seed`.

    Args:
        lines: conversations to take messages from, each a list of one speaker's messages.
        comment: text for text boxes.

    Attributes:
        n_more: greatest number of messages beyond the required ones.
        said, heard: messages and their replies in the chat, so far.
        n_exchanges: messages that were answered, in all chats; one that two chatbots answered counts once.
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
        self.leniency = self.rng.gauss(0, LENIENCY_SD)
        self.lines = lines
        self.comment = comment
        self.n_more = n_more
        self.said: list[str] = []
        self.heard: list[str] = []
        self.n_exchanges = 0

    def answer(self, question: str, choices: list[str]) -> str:
        """Choose by the messages said and heard."""
        return self.choose(Impression.of(self.said, self.heard), question, choices)

    def opinion(self, impression: Impression, question: str) -> float:
        """Return an opinion by an impression, by one's own leniency and by chance; 0 to 1 is the scale."""
        return impression.about(question) + self.leniency + self.rng.gauss(0, NOISE_SD)

    def choose(self, impression: Impression, question: str, choices: list[str]) -> str:
        """Choose the point of a scale that is nearest to the opinion."""
        wanted = self.opinion(impression, question)
        return choices[max(0, min(len(choices) - 1, round(wanted * (len(choices) - 1))))]

    def prefer(self, said: str, heard: list[str], question: str, choices: list[str]) -> str:
        """Choose between two that were heard, the first choice for the first; one in the middle is for neither."""
        first, second = (Impression.of([said], [text]) for text in heard)
        return self.between(first, second, question, choices)

    def between(
        self, first: Impression, second: Impression, question: str, choices: list[str]
    ) -> str:
        """Choose between two impressions, as `prefer` does."""
        ahead = first.about(question) - second.about(question)
        ahead += self.rng.gauss(0, NOISE_SD) - self.rng.gauss(0, NOISE_SD)
        if len(choices) > 2 and abs(ahead) < _ALIKE:
            return choices[1]
        return choices[0] if ahead > 0 else choices[-1]

    def favourites(self, options: list[str], n: int) -> list[str]:
        """Choose `n` of several: some options are liked by many, and everybody likes some more than others do."""
        liking = {one: random.Random(one).gauss(0, 1) + self.rng.gauss(0, 1) for one in options}
        return sorted(options, key=liking.__getitem__, reverse=True)[:n]
