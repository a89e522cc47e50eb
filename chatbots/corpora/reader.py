"""Reading dialogue corpora: one JSON object per line, `{"turns": ["…", …]}`, and their digest.

A corpus is one file (`.jsonl`, `.jsonl.gz`) or a folder of such files. The everyday corpus written for
this project lies beside this module; its lines also carry a `topic`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chatbots.identity import canonical_json

EVERYDAY = Path(__file__).parent / "everyday"
"""The folder of the everyday corpus: one `.jsonl` file per topic."""


class CorpusError(ValueError):
    """A corpus that cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The utterances of one dialogue, its speakers taking turns, and what it is about ("" if unknown)."""

    turns: tuple[str, ...]
    topic: str = ""


@dataclass(frozen=True)
class Corpus:
    """Dialogues in the order of their files' names and lines."""

    dialogues: tuple[Dialogue, ...]

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits of a SHA-256 over all texts: equal for equal dialogues, wherever they lie."""
        sha = hashlib.sha256()
        for dialogue in self.dialogues:
            sha.update(canonical_json([dialogue.topic, *dialogue.turns]).encode() + b"\n")
        return sha.hexdigest()[:16]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, sorted, without the empty one."""
        return tuple(sorted({d.topic for d in self.dialogues} - {""}))

    @property
    def n_exchanges(self) -> int:
        """How many pairs of an utterance and its reply the corpus holds, each utterance used once."""
        return sum(len(dialogue.turns) // 2 for dialogue in self.dialogues)


def corpus_files(path: Path) -> list[Path]:
    """The files of a corpus, sorted by name.

    Raises:
        CorpusError: if there is nothing at `path`, or no `.jsonl` file in it.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CorpusError(f"there is no corpus at {path}: neither a file nor a folder")
    files = sorted(p for p in path.iterdir() if p.name.endswith((".jsonl", ".jsonl.gz")))
    if not files:
        raise CorpusError(f"the folder {path} holds no .jsonl or .jsonl.gz file")
    return files


def corpus_read(path: Path = EVERYDAY) -> Corpus:
    """Read a corpus whole.

    Raises:
        CorpusError: at the first line that is no dialogue of at least one utterance, naming file and line.
    """
    return Corpus(tuple(d for file in corpus_files(path) for d in _dialogues(file)))


def _dialogues(file: Path) -> Iterator[Dialogue]:
    opener = gzip.open if file.name.endswith(".gz") else open
    try:
        with opener(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _dialogue(line, f"{file.name}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{file} cannot be read: {error}") from error


def _dialogue(line: str, where: str) -> Dialogue:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{where}: no JSON ({error})") from None
    turns = entry.get("turns") if isinstance(entry, dict) else None
    if not isinstance(turns, list) or not turns:
        raise CorpusError(f'{where}: it must be {{"turns": ["…", …]}} with at least one utterance')
    for turn in turns:
        if not isinstance(turn, str) or not turn.strip():
            raise CorpusError(
                f"{where}: an utterance is {turn!r}; it must be a text that is not blank"
            )
    topic = entry.get("topic", "")
    if not isinstance(topic, str):
        raise CorpusError(f"{where}: the topic is {topic!r}; it must be a text")
    return Dialogue(tuple(turn.strip() for turn in turns), topic)
