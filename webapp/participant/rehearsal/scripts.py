"""Texts that scripted participants write, in the language of the study."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chatbots.corpora.reader import corpus_read

_LINES = Path(__file__).parent / "lines"
_COMMENTS = {
    "en": "Written by a scripted participant.",
    "de": "Das schreibt eine Person nach Skript.",
    "ar": "كتب هذا مشارك آلي في تجربة.",
}


@dataclass(frozen=True, slots=True)
class Script:
    """Texts that a scripted participant may write.

    Attributes:
        lines: one person's messages, talk by talk.
        comment: text for text boxes; at least three words, as some boxes require a reason.
    """

    lines: tuple[tuple[str, ...], ...]
    comment: str


@cache
def script_in(language: str) -> Script:
    """Return the script in the language of a study: of the everyday corpus in English, else of a few talks of ours."""
    if language == "en":
        talks = tuple(dialogue.turns[::2] for dialogue in corpus_read().dialogues)
    else:
        text = (_LINES / f"{language}.txt").read_text(encoding="utf-8")
        talks = tuple(tuple(talk.splitlines()) for talk in text.strip().split("\n\n"))
    return Script(talks, _COMMENTS[language])
