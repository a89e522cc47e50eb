"""Reddit casual conversations, read like the code of Ghandeharioun et al. (2019).

Each sentence is an utterance, so one speaker often has several in a row. Everything after the letters "edit" is lost,
even inside "credit", and so is the rest of a line after a web address. Use `reddit` for training and this module to
reproduce results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chatbots.corpora.dialogues import Dialogue, speakers_numbered
from chatbots.corpora.formats.reddit import conversations_read

_EDIT = re.compile(r"edit.*", re.IGNORECASE | re.DOTALL)
_URL_AND_REST = re.compile(r"(?:https?://|www\.).*")
_GONE = re.compile(r"\[(?:removed|deleted)\]|\n\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the conversations of several sentences, one turn per sentence."""
    for location, lines in conversations_read(path):
        sentences = [(character, sentence) for character, text in lines for sentence in _sentences(text)]
        if len(sentences) >= 2:
            characters, texts = zip(*sentences, strict=True)
            yield Dialogue(texts, id=location, speakers=speakers_numbered(characters))


def _sentences(text: str) -> list[str]:
    cleaned = _EDIT.sub("", _GONE.sub(" ", _URL_AND_REST.sub("", text)))
    return [sentence for sentence in _SENTENCE_END.split(cleaned.strip()) if sentence]
