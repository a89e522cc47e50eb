"""An imported file format: a line for each turn, an empty line between conversations.

shout
> good morning
< GOOD MORNING
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chatbots import Turn
from evaluation.data.formats.base import Record, Skipped, register_format

_SPEAKERS = {">": "human", "<": "bot"}


@register_format
class Arrows:
    name = "arrows"
    title = "Arrows, > and <"

    def recognises(self, head: str) -> bool:
        return "\n> " in head

    def read(self, path: Path) -> Iterator[Record | Skipped]:
        line = 1
        for number, talk in enumerate(path.read_text(encoding="utf-8").split("\n\n"), start=1):
            bot, *said = talk.strip().splitlines()
            turns = tuple(Turn(_SPEAKERS[text[0]], text[2:]) for text in said)
            yield Record(line, str(number), bot, turns=turns)
            line += len(said) + 2
