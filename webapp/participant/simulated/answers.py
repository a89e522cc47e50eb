"""Messages and ratings of scripted participants.

Ratings come from simple counts that say nothing about a bot.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp

from django.conf import settings
from django.utils.translation import to_locale

from chatbots.corpora.dialogues import corpus_read
from webapp.participant.simulated.client import StudyClient

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


_COMMENT = "Written by a scripted participant."
_SCRIPT_FILE = "scripted_participant.txt"
"""In a language's folder: a comment, then chats, one message a line, with a blank line between them."""


@dataclass(frozen=True, slots=True)
class ScriptedTexts:
    """Texts that a scripted participant may write.

    Attributes:
        lines: one person's messages, talk by talk.
        comment: text for text boxes; at least three words, as some boxes require a reason.
    """

    lines: tuple[tuple[str, ...], ...]
    comment: str


@cache
def script_in(language: str) -> ScriptedTexts:
    """Return the script in the language of a study: of the everyday corpus in English, else of a few talks of ours."""
    if language == "en":
        talks = tuple(dialogue.turns[::2] for dialogue in corpus_read().dialogues)
        return ScriptedTexts(talks, _COMMENT)
    file = settings.LOCALE_PATHS[0] / to_locale(language) / _SCRIPT_FILE
    comment, *chats = file.read_text(encoding="utf-8").strip().split("\n\n")
    return ScriptedTexts(tuple(tuple(chat.splitlines()) for chat in chats), comment)


LENIENCY_SD = 0.14
NOISE_SD = 0.18
"""Standard deviations of participants and of single answers, as fractions of the scale.

Together 1.4 on seven points, as in people's ratings of one bot.
"""
_ALIKE = 0.1


class ScriptedPerson:
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
        doors: StudyClient,
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

    def between(self, first: Impression, second: Impression, question: str, choices: list[str]) -> str:
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
