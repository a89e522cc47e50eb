"""Dialogue corpora: reading, digest, and split for training.

A corpus is one file (`.jsonl`, `.jsonl.gz`) or a folder of such files, with one JSON object per line,
`{"turns": ["…", …]}`. The everyday corpus written for this project is next to this module; its lines also have a
`topic`. Published corpora in other formats are read by `chatbots.corpora.formats`.

Dialogues for training, validation and test are shuffled by a seed, or split as their corpus was published.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.identity import canonical_json
from chatbots.text import quote

EVERYDAY = Path(__file__).parent / "everyday"
"""Folder of the everyday corpus, with one `.jsonl` file per topic."""


class CorpusError(ValueError):
    """Error in a corpus file; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The utterances of one dialogue.

    Attributes:
        turns: the utterances.
        topic: its topic; "" if unknown.
        id: its id in the corpus, or file and line; ignored when dialogues are compared.
        speakers: the speaker of each turn, numbered from 0 by order of appearance; None for two who alternate.
        split: the corpus's own name for the part it belongs to; "" if there is none.
    """

    turns: tuple[str, ...]
    topic: str = ""
    id: str = field(default="", compare=False)
    speakers: tuple[int, ...] | None = None
    split: str = ""

    def __post_init__(self) -> None:
        if self.speakers is not None and len(self.speakers) != len(self.turns):
            raise CorpusError(
                f"dialogue {quote(self.id)} has {len(self.turns)} turns and {len(self.speakers)} "
                "speakers; there must be one speaker per turn"
            )

    def parts(self, readable: Callable[[str], bool]) -> list[Dialogue]:
        """Split the dialogue at unreadable turns and return the stretches between them.

        The turn after an unreadable one does not reply to the turn before it. If all turns are readable, the only
        stretch is the dialogue itself.
        """
        if all(map(readable, self.turns)):
            return [self]
        stretches = [
            [i for i, _ in stretch]
            for good, stretch in groupby(enumerate(map(readable, self.turns)), lambda pair: pair[1])
            if good
        ]
        return [
            replace(
                self,
                turns=tuple(self.turns[i] for i in stretch),
                speakers=None if self.speakers is None else tuple(self.speakers[i] for i in stretch),
                id=f"{self.id}/{number}",
            )
            for number, stretch in enumerate(stretches, start=1)
        ]


@dataclass(frozen=True)
class Corpus:
    """Dialogues in the order of their files' names and lines."""

    dialogues: tuple[Dialogue, ...]

    @cached_property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of all texts.

        Independent of file locations.
        """
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
        """Number of utterance-reply pairs, with each utterance used once."""
        return sum(len(dialogue.turns) // 2 for dialogue in self.dialogues)


def corpus_files(path: Path) -> list[Path]:
    """Return the files of a corpus, sorted by name.

    Raises:
        CorpusError: if there is nothing at `path`, or no `.jsonl` file in it.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CorpusError(f"there is no corpus at {path}: neither a file nor a folder")
    files = sorted(p for p in path.iterdir() if p.name.endswith((".jsonl", ".jsonl.gz")))
    if not files:
        raise CorpusError(f"the folder {path} contains no .jsonl or .jsonl.gz file")
    return files


def corpus_read(path: Path = EVERYDAY) -> Corpus:
    """Read a whole corpus.

    Raises:
        CorpusError: for the first line that is not a dialogue with at least one utterance, with file and line.
    """
    return Corpus(tuple(d for file in corpus_files(path) for d in _dialogues(file)))


def lines_read(file: Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Read the non-blank lines of a text file, plain or `.gz`.

    Yields:
        The location of each line ("name, line 3"), for messages, and the line without its ending.

    Raises:
        CorpusError: if the file cannot be read.
    """
    opener = gzip.open if file.name.endswith(".gz") else open
    try:
        # Only a line feed ends a line, because some corpora have other line separators in their texts.
        with opener(file, "rt", encoding=encoding, newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{file.name}, line {number}", line.rstrip("\r\n")
    except DAMAGE_ERRORS as error:
        raise CorpusError(f"{file} cannot be read: {error}") from error


def _dialogues(file: Path) -> Iterator[Dialogue]:
    for location, line in lines_read(file):
        yield _dialogue(line, location)


def _dialogue(line: str, location: str) -> Dialogue:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{location}: not JSON ({error})") from None
    turns = entry.get("turns") if isinstance(entry, dict) else None
    if not isinstance(turns, list) or not turns:
        raise CorpusError(f'{location}: it must be {{"turns": ["…", …]}} with at least one utterance')
    for turn in turns:
        if not isinstance(turn, str) or not turn.strip():
            raise CorpusError(f"{location}: an utterance is {quote(turn)}; it must be non-blank text")
    for key in ("topic", "split"):
        if not isinstance(entry.get(key, ""), str):
            raise CorpusError(f"{location}: the {key} is {quote(entry[key])}; it must be a text")
    return Dialogue(
        tuple(turn.strip() for turn in turns),
        entry.get("topic", ""),
        str(entry.get("id", location)),
        _speakers(entry.get("speakers"), len(turns), location),
        entry.get("split", ""),
    )


def _speakers(names: object, n_turns: int, location: str) -> tuple[int, ...] | None:
    """Replace speakers' names by numbers in order of appearance; None stays None.

    Raises:
        CorpusError: `names` is not a list with one name per turn.
    """
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != n_turns:
        raise CorpusError(f"{location}: speakers must be a list with one name for each of {n_turns} turns")
    return speakers_numbered([str(name) for name in names])


def speakers_numbered(names: Sequence[str]) -> tuple[int, ...]:
    """Return each speaker's number, from 0 in order of appearance."""
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return tuple(number[name] for name in names)


_PUBLISHED = {"train": "train", "val": "validation", "dev": "validation", "test": "test"}
"""Prefixes of the names of published parts ("valid", "valid_freq", "test_rare")."""


@dataclass(frozen=True)
class Split:
    """Training, validation and test dialogues; each part may be empty."""

    train: tuple[Dialogue, ...]
    validation: tuple[Dialogue, ...]
    test: tuple[Dialogue, ...]


def dialogues_split(
    dialogues: Sequence[Dialogue], *, validation: float = 0.1, test: float = 0.1, seed: int = 0, published: bool = False
) -> Split:
    """Divide dialogues into training, validation and test dialogues.

    Args:
        validation, test: shares of the dialogues that are shuffled, by default those of Ghandeharioun et al.
            (2019), 80/10/10 with seed 0. With three or more dialogues no part is empty.
        published: keep dialogues in the part that their corpus names, and shuffle only the others.

    Raises:
        CorpusError: a share is out of range; with `published`, a part has an unknown name, or none is named.
    """
    if validation < 0 or test < 0 or validation + test >= 1:
        raise CorpusError(
            f"validation {validation} and test {test} must be shares of 0 or more that leave data for training"
        )
    parts: dict[str, list[Dialogue]] = {"train": [], "validation": [], "test": []}
    shuffled = list(dialogues)
    if published:
        shuffled = [d for d in dialogues if not d.split]
        if len(shuffled) == len(dialogues):
            raise CorpusError("no dialogue names its split (for example with a key `split`); shuffle them instead")
        for dialogue in dialogues:
            if dialogue.split:
                parts[_part(dialogue)].append(dialogue)
    random.Random(seed).shuffle(shuffled)
    n_all = len(shuffled)
    least = 1 if n_all >= 3 else 0
    for name, share in (("validation", validation), ("test", test)):
        n = max(least, round(n_all * share)) if share else 0
        parts[name] += shuffled[:n]
        del shuffled[:n]
    parts["train"] += shuffled
    return Split(**{name: tuple(part) for name, part in parts.items()})


T = TypeVar("T")


def nested_share(items: Sequence[T], share: float, seed: int) -> list[T]:
    """Return a random share of the items, at least one, in their order.

    With the same seed, a smaller share is part of each larger one.
    """
    if share >= 1 or not items:
        return list(items)
    order = random.Random(seed).sample(range(len(items)), len(items))
    return [items[k] for k in sorted(order[: max(1, round(share * len(items)))])]


def _part(dialogue: Dialogue) -> str:
    for begins, part in _PUBLISHED.items():
        if dialogue.split.lower().startswith(begins):
            return part
    raise CorpusError(
        f"dialogue {quote(dialogue.id)} has the split {quote(dialogue.split)}; its name must begin with "
        f"{', '.join(_PUBLISHED)}"
    )
