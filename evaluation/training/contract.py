"""Interface between learned metrics and training.

`evaluation/training/__init__.py` gives an overview. Dialogues are read with the dialogue models' corpus readers.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from chatbots.corpora.dialogues import EVERYDAY as EVERYDAY_FOLDER
from chatbots.corpora.dialogues import CorpusError, Dialogue, dialogues_split, nested_share
from chatbots.corpora.reading import corpus_read
from chatbots.identity import canonical_json, derive_seed
from chatbots.training.config import EVERYDAY
from chatbots.validation import InputModel
from evaluation.data.items import detokenise_text
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Splits:
    """Dialogues by part, with detokenised texts (`evaluation.data.items`).

    Attributes:
        digest: digest of all dialogues, 16 hexadecimal digits.
    """

    train: tuple[Dialogue, ...]
    validation: tuple[Dialogue, ...]
    test: tuple[Dialogue, ...]
    digest: str

    def parts(self) -> Iterator[tuple[str, tuple[Dialogue, ...]]]:
        """Yield each part's name and dialogues."""
        yield "train", self.train
        yield "validation", self.validation
        yield "test", self.test

    @property
    def n_dialogues(self) -> dict[str, int]:
        """Number of dialogues per part."""
        return {name: len(part) for name, part in self.parts()}


def dialogues_read(config: MetricTrainingConfig) -> Splits:
    """Read and split the corpora of a config.

    Raises:
        CorpusError: if a corpus is unreadable or empty, or a part has no dialogues.
    """
    data = config.data
    parts: dict[str, list[Dialogue]] = {"train": [], "validation": [], "test": []}
    digest = hashlib.sha256()
    for corpus in data.corpora:
        path = EVERYDAY_FOLDER if corpus.path == EVERYDAY else config.path(corpus.path)
        dialogues = [_as_written(dialogue) for dialogue in corpus_read(corpus.format, path).dialogues]
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
            ("train", nested_share(split.train, data.share, derive_seed(config.seed, "share")), corpus.repeat),
            ("validation", split.validation, 1),
            ("test", split.test, 1),
        ):
            parts[name] += list(part) * times
            for dialogue in part:
                digest.update(canonical_json([name, times, *dialogue.turns]).encode())
    for name in ("train", "validation"):
        if not parts[name]:
            raise CorpusError(f"the {name} part has no dialogues; give more dialogues or another split")
    return Splits(**{name: tuple(part) for name, part in parts.items()}, digest=digest.hexdigest()[:16])


def _as_written(dialogue: Dialogue) -> Dialogue:
    turns = tuple(detokenise_text(turn) or turn for turn in dialogue.turns)
    return replace(dialogue, turns=turns)


@dataclass(frozen=True, slots=True)
class ExampleLoss:
    """Loss of a batch of examples.

    Attributes:
        total: loss to minimise, a mean over the batch.
        n: number of examples.
        told: other values to log, means over the batch.
    """

    total: Tensor
    n: int
    told: Mapping[str, Tensor] = field(default_factory=dict)


class Examples(ABC):
    """`n` examples of one part of the data."""

    n: int

    @abstractmethod
    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Any]:
        """Yield an epoch's batches from number `start`, shuffled by seed and epoch."""

    @abstractmethod
    def in_order(self, batch_size: int) -> Iterator[Any]:
        """Yield all examples once, in order, in batches."""

    def n_batches(self, batch_size: int) -> int:
        """Return the number of batches per epoch."""
        return -(-self.n // batch_size)

    def begin_epoch(self, network: nn.Module, epoch: int) -> None:  # noqa: B027
        """Update the examples with the network's current state before an epoch."""

    def told(self) -> dict[str, float]:
        """Return statistics of the examples to log."""
        return {}

    @property
    def is_settled(self) -> bool:
        """True to end the training because `begin_epoch` hardly changed anything."""
        return False

    def remember(self) -> dict[str, Tensor]:
        """Return the decisions of `begin_epoch`, to resume a training."""
        return {}

    def recall(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Restore the decisions returned by `remember`."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Input of a training.

    Attributes:
        train: training examples.
        validation: examples for selecting the best weights; None: keep the last weights.
        test: examples for the final test; None: validation only.
        digest: digest of texts, negatives and resources.
        files: other files needed for scoring, by name, such as a vocabulary.
        facts: entries for manifest and card: numbers of examples, resources and licences.
    """

    train: Examples
    validation: Examples | None
    test: Examples | None = None
    digest: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class LearnedMetric(ABC):
    """Trainable metric, registered as an instance.

    Attributes:
        name: name of the metric, and its kind in metrics.yaml.
        version: increased if the same config would give other weights, or the same weights other scores.
        options_type: model of its options.
        reads_dialogues: True: learns from the config's corpora; False: its options name other data; None: either.
        draws_share: True if `prepare` uses only `data.share` of training data that its options name; with corpora,
            `dialogues_read` does so.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    options_type: ClassVar[type[InputModel]]
    reads_dialogues: ClassVar[bool | None] = True
    draws_share: ClassVar[bool] = False

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        """Return reasons by option whose files are missing, without loading anything."""
        return {}

    @abstractmethod
    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        """Make examples from dialogues.

        Raises:
            CorpusError: if a part yields no examples.
        """

    @abstractmethod
    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        """Build an untrained network on the CPU; torch is already seeded."""

    @abstractmethod
    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        """Build a checkpoint's network on the CPU, without loading its weights."""

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Compute `loss` and logged values on examples, deterministically."""
        import torch

        network.eval()
        sums: dict[str, float] = {"loss": 0.0}
        n = 0
        with torch.no_grad():
            for batch in examples.in_order(batch_size):
                parts: ExampleLoss = network.loss(batch)  # type: ignore[operator]
                n += parts.n
                for name, value in {"loss": parts.total, **parts.told}.items():
                    sums[name] = sums.get(name, 0.0) + float(value) * parts.n
        return {name: total / max(n, 1) for name, total in sums.items()}
