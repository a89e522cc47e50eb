"""Reddit casual conversations as released by Ghandeharioun et al. (2019).

A JSON list of `{"lines": [{"text": "…", "character": 0|1}]}`. Consecutive lines of a speaker form one utterance. Text
after an edit marker ("edit:", "edit 2:", "*edit"), web addresses, "[removed]" and "[deleted]" are removed.
`reddit_2019` reads the same files as the released code did.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.corpora.dialogues import CorpusError, Dialogue, speakers_numbered
from chatbots.text import quote

_EDIT = re.compile(r"(?:^|(?<=\s))(?:\*+\s*edit\b|edit(?:\s*\d+)?\s*:).*", re.IGNORECASE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(\s*(?:https?://|www\.)[^)]*\)")
_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_GONE = re.compile(r"\[(?:removed|deleted)\]")


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the conversations of a plain or `.gz` file.

    Consecutive lines of a speaker form one turn.
    """
    for location, lines in conversations_read(path):
        turns = [
            (character, text_clean(" ".join(text for _, text in group)))
            for character, group in groupby(lines, lambda line: line[0])
        ]
        characters, texts = zip(*turns, strict=True)
        yield Dialogue(texts, id=location, speakers=speakers_numbered(characters))


def text_clean(text: str) -> str:
    """Remove edit notes, web addresses and "[removed]" marks."""
    text = _LINK.sub(r"\1", _EDIT.sub("", text))
    return " ".join(_GONE.sub(" ", _URL.sub(" ", text)).split())


def conversations_read(path: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each conversation's location and its (character, text) lines.

    Raises:
        CorpusError: the file is unreadable, or a conversation is malformed (numbers and lines count from 1).
    """
    if path.is_dir():
        raise CorpusError(f"{path} is a folder; give the file with the conversations")
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            conversations = json.load(file)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{path.name}, line {error.lineno}: not JSON ({error})") from None
    except DAMAGE_ERRORS as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    if not isinstance(conversations, list):
        raise CorpusError(f"{path.name}: it must be a list of conversations, not {type(conversations).__name__}")
    for number, conversation in enumerate(conversations, start=1):
        location = f"{path.name}, conversation {number}"
        lines = conversation.get("lines") if isinstance(conversation, dict) else None
        if not isinstance(lines, list) or not lines:
            raise CorpusError(f'{location}: it must be {{"lines": [{{"text", "character"}}, …]}}')
        yield location, [_line(line, f"{location}, line {i}") for i, line in enumerate(lines, start=1)]


def _line(line: object, location: str) -> tuple[str, str]:
    if not isinstance(line, dict) or not isinstance(line.get("text"), str) or "character" not in line:
        raise CorpusError(f'{location}: it is {quote(line)}; it must be {{"text": "…", "character": 0}}')
    return str(line["character"]), line["text"]
