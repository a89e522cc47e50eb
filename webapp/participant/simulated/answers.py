"""Texts and answers of scripted participants.

Ratings come from simple counts that say nothing about a bot. The participants' messages and opinions are in
`chatbots/participants/scripted.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.utils.translation import to_locale

from chatbots.participants.scripted import NOISE_SD, Impression, ScriptedCharacter, everyday_messages
from webapp.participant.simulated.client import StudyClient

_COMMENT = "Written by a scripted participant."
_SCRIPT_FILE = "scripted_participant.txt"
"""Script in a language's folder: a comment, then chats with one message per line, separated by blank lines."""


@dataclass(frozen=True, slots=True)
class ScriptedTexts:
    """Texts that a scripted participant may write.

    Attributes:
        lines: one speaker's messages, by conversation.
        comment: text for text boxes; at least three words, as some boxes require a reason.
    """

    lines: tuple[tuple[str, ...], ...]
    comment: str


@cache
def script_in(language: str) -> ScriptedTexts:
    """Return the script in a study's language.

    In English it comes from the everyday corpus, otherwise from a few conversations of ours.
    """
    if language == "en":
        return ScriptedTexts(everyday_messages(), _COMMENT)
    file = settings.LOCALE_PATHS[0] / to_locale(language) / _SCRIPT_FILE
    comment, *chats = file.read_text(encoding="utf-8").strip().split("\n\n")
    return ScriptedTexts(tuple(tuple(chat.splitlines()) for chat in chats), comment)


_ALIKE = 0.1


class ScriptedPerson(ScriptedCharacter):
    """Scripted participant with an HTTP client and answers.

    All choices are drawn from `seed`.

    Args:
        lines: conversations to take messages from, each a list of one speaker's messages.
        comment: text for text boxes.

    Attributes:
        n_more: maximum number of messages beyond the required ones.
        said, heard: messages and replies in the chat so far.
        n_exchanges: answered messages in all chats; a message answered by two chatbots counts once.
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
        super().__init__(lines, seed)
        self.doors = doors
        self.comment = comment
        self.n_more = n_more
        self.said: list[str] = []
        self.heard: list[str] = []
        self.n_exchanges = 0

    def answer(self, question: str, choices: list[str]) -> str:
        """Choose by the messages sent and received."""
        return self.choose(Impression.from_replies(self.said, self.heard), question, choices)

    def choose(self, impression: Impression, question: str, choices: list[str]) -> str:
        """Choose the point of a scale nearest to the opinion."""
        opinion = self.opinion(impression, question)
        return choices[max(0, min(len(choices) - 1, round(opinion * (len(choices) - 1))))]

    def prefer(self, message: str, heard: list[str], question: str, choices: list[str]) -> str:
        """Choose between two replies; the first choice is for the first.

        A middle choice is for neither.
        """
        first, second = (Impression.from_replies([message], [text]) for text in heard)
        return self.between(first, second, question, choices)

    def between(self, first: Impression, second: Impression, question: str, choices: list[str]) -> str:
        """Choose between two impressions, as `prefer` does."""
        ahead = first.about(question) - second.about(question)
        ahead += self.rng.gauss(0, NOISE_SD) - self.rng.gauss(0, NOISE_SD)
        if len(choices) > 2 and abs(ahead) < _ALIKE:
            return choices[1]
        return choices[0] if ahead > 0 else choices[-1]

    def ranked(self, message: str, heard: list[str], choices: list[str]) -> list[str]:
        """Order the choices, best first.

        Each belongs to one received text.
        """
        liking = [Impression.from_replies([message], [text]).overall + self.rng.gauss(0, NOISE_SD) for text in heard]
        return [choices[index] for index in sorted(range(len(choices)), key=lambda index: -liking[index])]

    def favourites(self, options: list[str], n: int) -> list[str]:
        """Choose `n` options.

        Some are liked by many, and individual tastes differ.
        """
        liking = {option: random.Random(option).gauss(0, 1) + self.rng.gauss(0, 1) for option in options}
        return sorted(options, key=liking.__getitem__, reverse=True)[:n]
