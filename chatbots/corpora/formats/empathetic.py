"""EmpatheticDialogues (Rashkin et al. 2019): `train.csv`, `valid.csv`, `test.csv`, or one of them.

Columns `conv_id, utterance_idx, context, prompt, speaker_idx, utterance, …`. Fields are not quoted: commas in texts are
written `_comma_`, and quotation marks have no special meaning. A dialogue's topic is its emotion label.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from chatbots.corpora.dialogues import CorpusError, Dialogue, lines_read, speakers_numbered
from chatbots.text import quote

COLUMNS = ("conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance")
COMMA = "_comma_"


class _Row(NamedTuple):
    conversation: str
    number: int
    emotion: str
    speaker: str
    text: str


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues, each from consecutive rows sorted by `utterance_idx`."""
    files = [path] if path.is_file() else [path / f"{split}.csv" for split in ("train", "valid", "test")]
    files = [file for file in files if file.is_file()]
    if not files:
        raise CorpusError(f"the folder {path} contains no train.csv, valid.csv or test.csv")
    for file in files:
        split = file.stem if file.stem in ("train", "valid", "test") else ""
        for name, group in groupby(_rows(file), lambda row: row.conversation):
            rows = sorted(group, key=lambda row: row.number)
            speakers = speakers_numbered([row.speaker for row in rows])
            texts = tuple(row.text for row in rows)
            yield Dialogue(texts, rows[0].emotion, name, speakers, split)


def _rows(file: Path) -> Iterator[_Row]:
    lines = lines_read(file)
    location, header = next(lines, (f"{file.name}, line 1", ""))
    if tuple(header.split(",")[: len(COLUMNS)]) != COLUMNS:
        raise CorpusError(f"{location}: the header is {quote(header)}; it must begin with {','.join(COLUMNS)}")
    for location, line in lines:
        fields = line.split(",")
        if len(fields) < len(COLUMNS):
            raise CorpusError(f"{location}: {len(fields)} columns; there must be at least {len(COLUMNS)}")
        name, number, emotion, _, speaker, text = fields[: len(COLUMNS)]
        if not number.isdecimal():
            raise CorpusError(f"{location}: utterance_idx is {quote(number)}; it must be a whole number")
        yield _Row(name, int(number), emotion, speaker, text.replace(COMMA, ",").strip())
