"""Dialogues for training, validation and test of a metric, by the readers of the dialogue models' corpora."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chatbots.corpora.formats import corpus_read
from chatbots.corpora.reader import EVERYDAY as EVERYDAY_FOLDER
from chatbots.corpora.reader import CorpusError, Dialogue
from chatbots.corpora.split import dialogues_split
from chatbots.identity import canonical_json
from chatbots.training.config import EVERYDAY
from evaluation.training.config import MetricTrainingConfig
from evaluation.untokenised import untokenised


@dataclass(frozen=True)
class Splits:
    """Dialogues by part, their texts as a person would write them (`evaluation.untokenised`).

    Attributes:
        digest: 16 hexadecimal digits of all of them.
    """

    train: tuple[Dialogue, ...]
    validation: tuple[Dialogue, ...]
    test: tuple[Dialogue, ...]
    digest: str

    def parts(self) -> Iterator[tuple[str, tuple[Dialogue, ...]]]:
        """Yield the name and the dialogues of each part."""
        yield "train", self.train
        yield "validation", self.validation
        yield "test", self.test

    @property
    def n_dialogues(self) -> dict[str, int]:
        """Number of dialogues in each part."""
        return {name: len(part) for name, part in self.parts()}


def dialogues_read(config: MetricTrainingConfig) -> Splits:
    """Read and split the corpora of a config.

    Raises:
        CorpusError: one that cannot be read or is empty, or a part without dialogues.
    """
    data = config.data
    found: dict[str, list[Dialogue]] = {"train": [], "validation": [], "test": []}
    digest = hashlib.sha256()
    for corpus in data.corpora:
        path = EVERYDAY_FOLDER if corpus.path == EVERYDAY else config.path(corpus.path)
        dialogues = [_as_written(one) for one in corpus_read(corpus.format, path).dialogues]
        if 0 < data.max_dialogues < len(dialogues):
            dialogues = random.Random(data.split_seed).sample(dialogues, data.max_dialogues)
        split = dialogues_split(
            dialogues,
            validation=data.validation,
            test=data.test,
            seed=data.split_seed,
            published=data.split == "published",
        )
        for name, part, times in (
            ("train", split.train, corpus.repeat),
            ("validation", split.validation, 1),
            ("test", split.test, 1),
        ):
            found[name] += list(part) * times
            for dialogue in part:
                digest.update(canonical_json([name, times, *dialogue.turns]).encode())
    for name in ("train", "validation"):
        if not found[name]:
            raise CorpusError(f"the {name} part holds no dialogue; give more, or another split")
    return Splits(
        **{name: tuple(part) for name, part in found.items()}, digest=digest.hexdigest()[:16]
    )


def _as_written(dialogue: Dialogue) -> Dialogue:
    turns = tuple(untokenised(turn) or turn for turn in dialogue.turns)
    return replace(dialogue, turns=turns)
