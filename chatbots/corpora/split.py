"""Dialogues for training, validation and test: shuffled by a seed, or as their corpus was published."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from chatbots.corpora.reader import CorpusError, Dialogue
from chatbots.storable import quote

_PUBLISHED = {"train": "train", "val": "validation", "dev": "validation", "test": "test"}
"""What the names of published parts begin with ("valid", "valid_freq", "test_rare")."""


@dataclass(frozen=True)
class Split:
    """The three parts; each may be empty."""

    train: tuple[Dialogue, ...]
    validation: tuple[Dialogue, ...]
    test: tuple[Dialogue, ...]


def dialogues_split(
    dialogues: Sequence[Dialogue],
    *,
    validation: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    published: bool = False,
) -> Split:
    """Divide dialogues into training, validation and test dialogues.

    Args:
        validation, test: shares of the dialogues that are shuffled, by default those of Ghandeharioun et al.
            (2019), 80/10/10 with seed 0. From three dialogues on none of the parts is empty.
        published: dialogues whose corpus names their part go there; only the others are shuffled.

    Raises:
        CorpusError: a share that cannot be; with `published`, a part whose name says nothing, or none named.
    """
    if validation < 0 or test < 0 or validation + test >= 1:
        raise CorpusError(
            f"validation {validation} and test {test} must be shares of 0 or more that leave something to "
            "learn from"
        )
    parts: dict[str, list[Dialogue]] = {"train": [], "validation": [], "test": []}
    shuffled = list(dialogues)
    if published:
        shuffled = [d for d in dialogues if not d.split]
        if len(shuffled) == len(dialogues):
            raise CorpusError(
                "no dialogue names its part (a key `split`, say); shuffle them instead"
            )
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


def _part(dialogue: Dialogue) -> str:
    for begins, part in _PUBLISHED.items():
        if dialogue.split.lower().startswith(begins):
            return part
    raise CorpusError(
        f"dialogue {quote(dialogue.id)} is of the part {quote(dialogue.split)}; its name must begin with "
        f"{', '.join(_PUBLISHED)}"
    )
