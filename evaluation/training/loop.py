"""Training of learned metrics, and its output files.

The loop itself is in `chatbots/training/engine.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from chatbots.checkpoints import CheckpointError
from chatbots.identity import canonical_json, derive_seed
from chatbots.training.engine import BEST_FOLDER, TrainingLoop, TrainingResult, training_folder
from chatbots.training.run_folder import TrainingProgress
from chatbots.validation import ValuesError
from evaluation.training.checkpoint import (
    Checkpoint,
    MetricManifest,
    checkpoint_read,
    checkpoint_write,
    weights_fill,
    weights_take_over,
)
from evaluation.training.config import MetricTrainingConfig, backbone_identity, learned_get
from evaluation.training.contract import ExampleLoss, LearnedMetric, Prepared, Splits, dialogues_read


def train(
    config: MetricTrainingConfig,
    output: Path | str,
    *,
    device: str = "cpu",
    restart: bool = False,
    watch: Callable[[TrainingProgress], None] | None = None,
) -> TrainingResult:
    """Train a metric, or resume its training.

    If the training is already finished, its result is returned.

    Args:
        output: folder of the training, created if missing.
        device: "cpu", "cuda", …
        restart: start from scratch, discarding what the folder contains.
        watch: called after every batch; if it raises, the training stops and can be resumed.

    Raises:
        ValuesError, CorpusError, EncoderError: if config, corpus or encoder are unusable.
        StateError: if the folder belongs to another config or corpus.
        TrainingError: if too many gradients are not finite, or another process uses the folder.
    """
    output = Path(output)
    with training_folder(output, device, restart=restart):
        return _MetricTraining(config, output, torch.device(device), watch).run()


def restored(checkpoint: Checkpoint, device: str = "cpu") -> nn.Module:
    """Load a checkpoint's network with its weights, in evaluation mode.

    Raises:
        CheckpointError: if a file is missing or was changed, or the encoder differs from the installed one.
    """
    learned, manifest = learned_get(checkpoint.manifest.metric), checkpoint.manifest
    if manifest.version != learned.version:
        raise CheckpointError(
            f"{checkpoint.folder} was trained with version {manifest.version} of {manifest.metric}; this Confab has "
            f"version {learned.version}. Retrain it"
        )
    here = backbone_identity(checkpoint.config.backbone)
    if canonical_json(here) != canonical_json(dict(manifest.backbone)):
        raise CheckpointError(
            f"{checkpoint.folder} was trained with another encoder than the {checkpoint.config.backbone.model} here"
        )
    network = learned.restored(checkpoint)
    weights_fill(network, checkpoint)
    return network.to(device).eval()


def adam_for(network: nn.Module, config: MetricTrainingConfig) -> torch.optim.Adam:
    """Return AdamW over trainable weights; biases and norms do not decay, as in BERT."""
    optimiser = config.optimiser
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in learning if p.dim() > 1], "weight_decay": optimiser.weight_decay},
        {"params": [p for p in learning if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=optimiser.lr, betas=(0.9, optimiser.beta2), eps=optimiser.eps
    )


class _MetricTraining(TrainingLoop[Any, ExampleLoss]):
    """State of one call to `train`."""

    def __init__(
        self,
        config: MetricTrainingConfig,
        output: Path,
        device: torch.device,
        watch: Callable[[TrainingProgress], None] | None,
    ) -> None:
        self.config = config
        # Check before encoding the texts, which can take half an hour.
        first = _first_stage(output.parent / config.start) if config.start else None
        self.learned: LearnedMetric = learned_get(config.metric)
        splits = dialogues_read(config) if config.data.corpora else Splits((), (), (), "")
        self.prepared: Prepared = self.learned.prepare(config, splits, str(device))
        self.n_dialogues = splits.n_dialogues
        torch.manual_seed(derive_seed(config.seed, "weights"))
        network = self.learned.network(config, self.prepared)
        if first is not None:
            _take_over(network, first)
        network.to(device).train()
        optimiser = config.optimiser
        per_epoch = self.prepared.train.n_batches(optimiser.batch_size)
        if optimiser.warmup_share:
            planned = min(optimiser.epochs * per_epoch, optimiser.max_batches or math.inf)
            optimiser = optimiser.model_copy(update={"warmup": round(optimiser.warmup_share * planned)})
        super().__init__(
            name=config.name,
            seed=config.seed,
            optimiser=optimiser,
            keeping=config.keeping,
            model=network,
            adam=adam_for(network, config),
            per_epoch=per_epoch,
            fingerprint=self._fingerprint(),
            output=output,
            device=device,
            watch=watch,
        )

    def _fingerprint(self) -> str:
        """Return a digest of everything that affects the weights."""
        parts = [
            self.config.digest,
            self.prepared.digest,
            self.learned.version,
            backbone_identity(self.config.backbone),
        ]
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]

    def batches(self, epoch: int, start: int) -> Iterator[Any]:
        return self.prepared.train.batches(
            self.config.optimiser.batch_size, derive_seed(self.config.seed, "order"), epoch, start
        )

    def begin_epoch(self, epoch: int) -> None:
        self.prepared.train.begin_epoch(self.model, epoch)
        self.model.train()

    @property
    def is_settled(self) -> bool:
        return self.prepared.train.is_settled

    def more_logged(self) -> dict[str, float]:
        return self.prepared.train.told()

    def remember(self) -> dict[str, Tensor]:
        return self.prepared.train.remember()

    def recall(self, state: dict[str, Tensor]) -> None:
        self.prepared.train.recall(state)

    def loss(self, batch: Any, generator: torch.Generator) -> ExampleLoss:
        return self.model.loss(batch)  # type: ignore[operator]

    def learnt(self, parts: ExampleLoss) -> tuple[float, int]:
        return float(parts.total.detach()), parts.n

    def rate(self) -> float:
        return super().rate() * self.config.optimiser.plateau**self.progress.plateaus

    def window(self) -> ExampleWindow:
        return ExampleWindow()

    def validate(self) -> dict[str, float] | None:
        if self.prepared.validation is None:
            return None
        return self.learned.measure(self.model, self.prepared.validation, self.config.optimiser.batch_size)

    def keep_best(self) -> None:
        checkpoint_write(self.output / BEST_FOLDER, self.model, self._manifest({}), self.prepared.files)

    def _manifest(self, best: dict[str, float]) -> MetricManifest:
        config, progress = self.config, self.progress
        return MetricManifest(
            metric=self.learned.name,
            version=self.learned.version,
            config=config.model_dump(mode="json"),
            decisive=config.decisive,
            backbone=backbone_identity(config.backbone),
            data=self.prepared.digest,
            facts=dict(self.prepared.facts),
            metrics={k: None if v != v else v for k, v in best.items()},
            title=config.title or config.name,
            training={
                "n_dialogues": self.n_dialogues,
                "best_step": progress.best_step,
                "steps": progress.step,
                "epochs": progress.epoch + 1,
                "n_examples": progress.n_tokens,
                "seconds": round(progress.seconds, 1),
                "skipped": progress.skipped,
                "device": self.device.type,
                "torch": torch.__version__,
            },
        )

    def measure_best(self) -> Mapping[str, float | None]:
        progress, folder = self.progress, self.output / BEST_FOLDER
        checkpoint = checkpoint_read(folder)
        if not checkpoint.manifest.metrics:
            weights_fill(self.model, checkpoint)
            best = {"step": float(progress.best_step)}
            if self.prepared.validation is not None:
                best = {"validation_loss": progress.best_loss, **best}
            if self.prepared.test is not None:
                measured = self.learned.measure(self.model, self.prepared.test, self.config.optimiser.batch_size)
                best |= {f"test_{name}": value for name, value in measured.items()}
            written = replace(checkpoint.manifest, metrics=best)
            files = {name: checkpoint.file(name) for name in self.prepared.files}
            checkpoint_write(folder, self.model, written, files)
            checkpoint = checkpoint_read(folder)
        return checkpoint.manifest.metrics


class ExampleWindow:
    """Means over examples and speed since the last log line."""

    def __init__(self) -> None:
        self.sums: dict[str, float | Tensor] = {}
        self.n = self.n_batches = self.n_skipped = 0
        self.seconds = self.waited = 0.0

    def add(self, parts: ExampleLoss, norm: Tensor, waited: float, seconds: float) -> None:
        self.n_batches += 1
        self.n += parts.n
        self.seconds += seconds
        self.waited += waited
        figures = {"loss": parts.total, **parts.told}
        for name, value in figures.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach() * parts.n
        self.sums["gradient_norm"] = self.sums.get("gradient_norm", 0.0) + norm.detach() * parts.n

    def skip(self, waited: float, seconds: float) -> None:
        """Count a skipped batch, whose losses would make all means undefined."""
        self.n_skipped += 1
        self.seconds += seconds
        self.waited += waited

    def values(self) -> dict[str, float]:
        """Return the means and the speed."""
        total_seconds = max(self.seconds + self.waited, 1e-9)
        values = {name: float(total) / max(self.n, 1) for name, total in self.sums.items()}
        values["examples_per_s"] = self.n / total_seconds
        values["waiting_share"] = self.waited / total_seconds
        if self.n_skipped:
            values["skipped"] = self.n_skipped
        return values


def _first_stage(folder: Path) -> Checkpoint:
    try:
        return checkpoint_read(folder)
    except CheckpointError as error:
        raise ValuesError(f"start: {error}; train that run first") from error


def _take_over(network: nn.Module, first: Checkpoint) -> None:
    try:
        n = weights_take_over(network, first)
    except CheckpointError as error:
        raise ValuesError(f"start: {error}; train that run first") from error
    if not n:
        raise ValuesError(f"start: no weight of {first.folder} matches one of this network in name and shape")
