"""Cornell Movie-Dialogs (Danescu-Niculescu-Mizil and Lee 2011): `movie_lines.txt`, `movie_conversations.txt`.

ISO-8859-1, fields separated by ` +++$+++ `. Lines: line id, user id, film id, name, text. Conversations: two
user ids, film id, list of line ids. A dialogue's topic is its film.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chatbots.corpora.dialogues import CorpusError, Dialogue, lines_read, speakers_numbered
from chatbots.text import quote

LINES, CONVERSATIONS = "movie_lines.txt", "movie_conversations.txt"
_SEPARATOR = " +++$+++ "
_ENCODING = "iso-8859-1"
_IDS = re.compile(r"\[\s*'[^']+'(?:\s*,\s*'[^']+')*\s*\]")


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the conversations of a folder, in the order of `movie_conversations.txt`."""
    for name in (LINES, CONVERSATIONS):
        if not (path / name).is_file():
            raise CorpusError(f"{path} must be a folder with {LINES} and {CONVERSATIONS}; {name} is missing")
    lines_by_id = {}
    for location, line in lines_read(path / LINES, _ENCODING):
        line_id, user, _, _, text = _fields(line, 5, location)
        lines_by_id[line_id] = (user, text.strip())
    for location, line in lines_read(path / CONVERSATIONS, _ENCODING):
        *_, film, ids = _fields(line, 4, location)
        ids = ids.strip()
        if not _IDS.fullmatch(ids):
            raise CorpusError(f"{location}: the line ids are {quote(ids)}; they must be a list such as ['L1', 'L2']")
        line_ids = re.findall(r"'([^']+)'", ids)
        for line_id in line_ids:
            if line_id not in lines_by_id:
                raise CorpusError(f"{location}: {LINES} has no line {line_id}")
        users, texts = zip(*(lines_by_id[line_id] for line_id in line_ids), strict=True)
        yield Dialogue(texts, film, f"{film}/{line_ids[0]}", speakers_numbered(users))


def _fields(line: str, n: int, location: str) -> list[str]:
    # A line without text may lack its trailing space.
    fields = f"{line} ".split(_SEPARATOR, n - 1)
    if len(fields) != n:
        raise CorpusError(f"{location}: {len(fields)} fields between{_SEPARATOR}; there must be {n}")
    return fields
