"""PersonaChat as published for ConvAI2, in ParlAI's text format.

Zhang et al. (2018), Dinan et al. (2019). Lines are numbered, from 1 in each dialogue: `1 your persona: …`, `5 partner's
text<TAB>own reply<TAB><TAB>candidate|candidate|…`. Candidates and personas are ignored. Reads a file, or a folder with
one file per split; file names begin with `train`, `valid` and (optionally) `test`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chatbots.corpora.dialogues import CorpusError, Dialogue, lines_read

SILENCE = "__SILENCE__"
"""Placeholder text of the partner if the other speaker begins."""
_NUMBERED = re.compile(r"(\d+) (.*)", re.DOTALL)
_PERSONA = re.compile(r"(?:your|partner's) persona:")


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues; speaker 1 is the one with the persona."""
    for file, split in _files(path):
        yield from _dialogues(file, split)


def _dialogues(file: Path, split: str) -> Iterator[Dialogue]:
    turns: list[tuple[int, str]] = []
    began, previous = "", 0
    for location, line in lines_read(file):
        match = _NUMBERED.fullmatch(line)
        if not match:
            raise CorpusError(f"{location}: the line must begin with a number and a space")
        number = int(match[1])
        if number == 1:
            if turns:
                yield _dialogue(turns, began, split)
            turns, began = [], location
        elif number != previous + 1:
            raise CorpusError(f"{location}: number {number} after {previous}; it must be {previous + 1} or 1")
        previous = number
        if _PERSONA.match(match[2]):
            continue
        fields = match[2].split("\t")
        if len(fields) < 2:
            raise CorpusError(
                f"{location}: there is no tab; the line must contain the partner's text, a tab and the reply"
            )
        if fields[0] != SILENCE:
            turns.append((0, fields[0].strip()))
        turns.append((1, fields[1].strip()))
    if turns:
        yield _dialogue(turns, began, split)


def _dialogue(turns: list[tuple[int, str]], location: str, split: str) -> Dialogue:
    speakers, texts = zip(*turns, strict=True)
    return Dialogue(texts, id=location, speakers=speakers, split=split)


def _files(path: Path) -> list[tuple[Path, str]]:
    if path.is_file():
        return [(path, "")]
    split_files: list[tuple[Path, str]] = []
    for split in ("train", "valid", "test"):
        files = sorted(path.glob(f"{split}*.txt"))
        if len(files) > 1:
            names = ", ".join(f.name for f in files)
            raise CorpusError(
                f"the folder {path} contains several variants of one split ({names}); name one file, or "
                "put one file per split in a separate folder"
            )
        split_files += [(file, split) for file in files]
    if not split_files:
        raise CorpusError(f"the folder {path} contains no train*.txt, valid*.txt or test*.txt")
    return split_files
