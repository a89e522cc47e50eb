"""Interface of a learned metric for its training; `evaluation/training/__init__.py` explains the whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from chatbots.outside import Values
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig
from evaluation.training.data import Splits

if TYPE_CHECKING:
    from torch import Tensor, nn


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
    options_type: ClassVar[type[Values]]
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
