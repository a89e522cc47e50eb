"""Growing file of a judge's preferences: CSV as `confab.rank` reads it, one line a pair."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.formats.spreadsheet import escaped, unescaped
from evaluation.judging import PairJudged
from evaluation.metrics.judge import PAIR_PROMPT, Judge

_TEXTS = ("item", "context", "first", "second")
_NUMBERS = ("preference", "first_place", "words_first", "words_second")
_COLUMNS = (*_TEXTS, "preferred", "judged_by", *_NUMBERS, "judge")


class JudgedRead(NamedTuple):
    """A file of judged pairs.

    Attributes:
        name: of the judge; judge: a digest of its model, prompt and window; both empty of a file without a pair.
    """

    name: str
    judge: str
    pairs: tuple[PairJudged, ...]


def judged_file_read(path: Path) -> JudgedRead:
    """Read a file of judged pairs; a last line that a kill cut short is passed over.

    Raises:
        ValueError: it is another kind of file, or holds the judgements of several judges.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            whole = list(csv.reader(line for line in file if line.endswith("\n")))
    except csv.Error:
        whole = []
    if not whole or tuple(whole[0]) != _COLUMNS or {len(row) for row in whole} != {len(_COLUMNS)}:
        raise ValueError(
            f"{path} is no file of judged pairs, as judge_pairs --output writes it; name another one"
        )
    rows = [dict(zip(_COLUMNS, row, strict=True)) for row in whole[1:]]
    judges = sorted({(unescaped(row["judged_by"]), row["judge"]) for row in rows})
    if len({judge for _name, judge in judges}) > 1:
        told = ", ".join(f"{name} ({judge})" for name, judge in judges)
        raise ValueError(f"{path} holds the judgements of several judges: {told}")
    name, judge = judges[0] if judges else ("", "")
    return JudgedRead(
        name,
        judge,
        tuple(
            PairJudged(
                **{name: unescaped(row[name]) for name in _TEXTS},
                preference=float(row["preference"]),
                first_place=float(row["first_place"]),
                words_first=int(row["words_first"]),
                words_second=int(row["words_second"]),
            )
            for row in rows
        ),
    )


class JudgedFile:
    """A file of judged pairs of one judge.

    What stands there is taken over, and what is judged later is added at its end; a line that a kill cut short is
    asked again.

    Args:
        prompt: what the judge is asked: of two replies, or of two chats.

    Raises:
        ValueError: it is another kind of file, or of another judge, model, prompt or window.
    """

    def __init__(self, path: Path, judge: Judge, *, prompt: str = PAIR_PROMPT) -> None:
        self.path = path
        self._name = judge.name
        self._judge = hashlib.sha256(f"{judge.identity.key} {prompt}".encode()).hexdigest()[:16]
        self.known: list[PairJudged] = []
        if path.exists() and path.stat().st_size:
            self.known = self._read()
            self._mend()

    def _mend(self) -> None:
        """Take away what a kill left of a line, so that the next one begins a new line."""
        with self.path.open("rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)

    def _read(self) -> list[PairJudged]:
        found = judged_file_read(self.path)
        if found.judge and found.judge != self._judge:
            raise ValueError(
                f"{self.path} is of another judge ({found.judge}, now {self._judge}): its model, its prompt "
                "or its window was another; name another file"
            )
        return list(found.pairs)

    def keep(self, pairs: Sequence[PairJudged]) -> None:
        """Add these pairs to the file, at once."""
        is_new = not self.path.exists() or not self.path.stat().st_size
        with self.path.open("a+", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(_COLUMNS)
            for one in pairs:
                texts = [getattr(one, name) for name in _TEXTS]
                numbers = [repr(getattr(one, name)) for name in _NUMBERS]
                writer.writerow(
                    [*map(escaped, texts), one.preferred, escaped(self._name), *numbers, self._judge]
                )  # fmt: skip
