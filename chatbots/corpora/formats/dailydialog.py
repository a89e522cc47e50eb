"""DailyDialog (Li et al. 2017): dialogues by line, `__eou__` after each utterance.

Reads `dialogues_text.txt`, or the folder of the published archive: its unpacked `train`, `validation` and `test`
parts if they exist, otherwise `dialogues_text.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chatbots.corpora.dialogues import CorpusError, Dialogue, lines_read
from chatbots.text import quote

END = "__eou__"
WHOLE = "dialogues_text.txt"
PARTS = ("train", "validation", "test")
_SPACED_APOSTROPHE = re.compile(r"(?<=\w)\s*’\s*(?=(?:s|t|m|d|re|ve|ll)\b)")


def read(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues, with apostrophes rejoined: "don ’ t" becomes "don't"."""
    for file, split in _files(path):
        for location, line in lines_read(file):
            *turns, rest = line.split(END)
            if not turns:
                raise CorpusError(f"{location}: no {END}; it must end every utterance")
            if rest.strip():
                raise CorpusError(f"{location}: there is {quote(rest.strip())} after the last {END}")
            closed = tuple(_SPACED_APOSTROPHE.sub("'", turn).strip() for turn in turns)
            yield Dialogue(closed, id=location, split=split)


def _files(path: Path) -> list[tuple[Path, str]]:
    if path.is_file():
        return [(path, "")]
    parts = []
    for part in PARTS:
        name = f"dialogues_{part}.txt"
        parts += [(f, part) for f in (path / part / name, path / name) if f.is_file()][:1]
    if len(parts) == len(PARTS):
        return parts
    if (path / WHOLE).is_file():
        return [(path / WHOLE, "")]
    raise CorpusError(
        f"the folder {path} contains neither {WHOLE} nor dialogues_train.txt, dialogues_validation.txt "
        "and dialogues_test.txt, directly or in the folders train, validation and test"
    )
