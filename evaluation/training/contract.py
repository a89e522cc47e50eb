"""Interface of a learned metric for its training, and its dialogues.

`evaluation/training/__init__.py` explains the whole. Dialogues are read by the readers of the dialogue models'
corpora.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from chatbots.corpora.dialogues import EVERYDAY as EVERYDAY_FOLDER
from chatbots.corpora.dialogues import CorpusError, Dialogue, dialogues_split
from chatbots.corpora.formats import corpus_read
from chatbots.identity import canonical_json
from chatbots.training.config import EVERYDAY
from chatbots.validation import InputModel
from evaluation.items import detokenise_text
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Splits:
    """Dialogues by part, their texts as a person would write them (`evaluation.items`).

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
            ("train", split.train, corpus.repeat),
            ("validation", split.validation, 1),
            ("test", split.test, 1),
        ):
            parts[name] += list(part) * times
            for dialogue in part:
                digest.update(canonical_json([name, times, *dialogue.turns]).encode())
    for name in ("train", "validation"):
        if not parts[name]:
            raise CorpusError(f"the {name} part holds no dialogue; give more, or another split")
    return Splits(**{name: tuple(part) for name, part in parts.items()}, digest=digest.hexdigest()[:16])


def _as_written(dialogue: Dialogue) -> Dialogue:
    turns = tuple(detokenise_text(turn) or turn for turn in dialogue.turns)
    return replace(dialogue, turns=turns)


@dataclass(frozen=True, slots=True)
class ExampleLoss:
    """Losses of a batch of examples.

    Attributes:
        total: the loss that is minimised; a mean over the batch.
        n: examples.
        told: other figures for the log, means over the batch.
    """

    total: Tensor
    n: int
    told: Mapping[str, Tensor] = field(default_factory=dict)


class Examples(ABC):
    """Examples of one part of the data; `n` of them."""

    n: int

    @abstractmethod
    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch, shuffled by seed and epoch, from the batch `start` on."""

    @abstractmethod
    def in_order(self, batch_size: int) -> Iterator[Any]:
        """Yield all examples once, in their order."""

    def n_batches(self, batch_size: int) -> int:
        """Count the batches of an epoch."""
        return -(-self.n // batch_size)

    def begin_epoch(self, network: nn.Module, epoch: int) -> None:  # noqa: B027
        """Change examples by the network's current state, before the first batch of an epoch."""

    def told(self) -> dict[str, float]:
        """Return figures on the examples themselves for a line of the log."""
        return {}

    @property
    def is_settled(self) -> bool:
        """True if `begin_epoch` found nothing left to learn; the training then ends."""
        return False

    def remember(self) -> dict[str, Tensor]:
        """Return the decisions of `begin_epoch`, which a resumed training restores."""
        return {}

    def recall(self, kept: dict[str, Tensor]) -> None:  # noqa: B027
        """Restore the values of `remember`."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything a training reads.

    Attributes:
        train: examples to learn from.
        validation: those that choose the best weights; None: the last ones are kept.
        test: those that the finished network is measured on; None: only validation.
        digest: of all that the examples were made of: texts, negatives, resources.
        files: what scoring needs besides the weights, by file name: a vocabulary, counts.
        facts: for manifest and card: how many examples, which resources under which licence.
    """

    train: Examples
    validation: Examples | None
    test: Examples | None = None
    digest: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class LearnedMetric(ABC):
    """A metric that is trained; one instance is registered under its name.

    Attributes:
        name: of the metric; also of its kind in metrics.yaml.
        version: raised when equal configs would train other weights, or equal weights give other scores.
        options_type: its own keys of a config.
        reads_dialogues: whether it learns from the corpora of a config; if not, its options say from what; None:
            either.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    options_type: ClassVar[type[InputModel]]
    reads_dialogues: ClassVar[bool | None] = True

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        """Return the options that name something missing on this machine, each with the reason; loads nothing."""
        return {}

    @abstractmethod
    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        """Make examples of dialogues.

        Raises:
            CorpusError: a part that leaves no example.
        """

    @abstractmethod
    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        """Make the network before its first batch, on the CPU; torch's generator is seeded."""

    @abstractmethod
    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        """Make the network of a checkpoint, on the CPU, without its stored weights, which are filled in then."""

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Measure on examples: `loss`, and the means of what `loss` tells; deterministic."""
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
