"""Training loop of every model: Adam, validation, best checkpoint, exact resuming.

`TrainingLoop` is independent of models and data; subclasses provide these (`loop.py` for dialogue models,
`evaluation/training/loop.py` for learned metrics). All random numbers of a batch come from the config's seed and the
batch's number, so a resumed run ends with exactly the weights of an uninterrupted one.
"""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn
from tqdm import tqdm

from chatbots.checkpoints import TRAINING_LOCK
from chatbots.identity import derive_seed
from chatbots.threads import ContextPool
from chatbots.training.config import KeepingConfig, OptimiserConfig
from chatbots.training.run_folder import STATE_FILE as STATE
from chatbots.training.run_folder import MetricsLog, TrainingProgress, state_read, state_write

B = TypeVar("B")

AHEAD = 4
"""Number of batches prepared in advance."""


def kl_weight(step: int, kl_batches: int) -> float:
    """Return the KL weight β, which rises from 0 to 1 over `kl_batches`."""
    return min(1.0, step / kl_batches) if kl_batches else 1.0


def learning_rate(config: OptimiserConfig, step: int, n_planned: int) -> float:
    """Return the learning rate of a batch counted from 0."""
    rate = config.lr
    if config.schedule == "linear":
        rate *= 1 - step / n_planned
    if step < config.warmup:
        rate *= (step + 1) / config.warmup
    return rate


def mixed_precision(precision: str, device: torch.device) -> torch.autocast:
    """Return the autocast context of the loss; bfloat16 needs no loss scaling."""
    on = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=on)


def prepared_ahead(batches: Iterator[B]) -> Iterator[B]:
    """Yield the batches while another thread prepares the next few."""
    with ContextPool(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(AHEAD))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, batches, None))
            yield batch


def timed(batches: Iterator[B]) -> Iterator[tuple[B, float]]:
    """Yield each batch with the seconds spent waiting for it."""
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        yield batch, time.perf_counter() - started


log = logging.getLogger(__name__)

BEST_FOLDER = "best"
"""Folder of the checkpoint with the lowest validation loss."""


class TrainingError(Exception):
    """Failure of a training run.

    The message gives the reason and a remedy.
    """


class BatchLoss(Protocol):
    """Protocol of a batch's loss; `total` is minimised."""

    @property
    def total(self) -> Tensor: ...


L = TypeVar("L", bound=BatchLoss)


class LossTotals(Protocol):
    """Protocol of the totals since the last log line."""

    n_batches: int
    n_skipped: int

    def add(self, parts: Any, norm: Tensor, waited: float, seconds: float) -> None: ...

    def skip(self, waited: float, seconds: float) -> None: ...

    def values(self) -> dict[str, float]: ...


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        checkpoint: folder of the best checkpoint.
        epochs: number of epochs begun.
        best: its metrics: `validation_loss`, `step`, and those of the test data (`chatbots.training.held_out`, or
            `test_…` of a learned metric), as far as there are these parts; NaN if undefined.
        tokens_per_s: target tokens, or examples of a metric, per second of training without validation.
        waiting_share: share of that time spent waiting for batches.
        skipped: number of batches skipped for a non-finite gradient.
    """

    checkpoint: Path
    epochs: int
    best: dict[str, float]
    tokens_per_s: float
    waiting_share: float
    skipped: int

    def to_json(self) -> dict[str, Any]:
        """Return `checkpoint`, `epochs` and `best`, with None for undefined values."""
        return {
            "checkpoint": str(self.checkpoint),
            "epochs": self.epochs,
            "best": {k: None if math.isnan(v) else v for k, v in self.best.items()},
        }


@contextmanager
def training_folder(output: Path, device: str, *, restart: bool) -> Iterator[None]:
    """Lock a run's folder, and restore torch's global generators afterwards.

    Args:
        restart: remove the state of an earlier run.

    Raises:
        TrainingError: another process trains in this folder.
    """
    output.mkdir(parents=True, exist_ok=True)
    devices = [torch.device(device)] if device.startswith("cuda") else []
    try:
        with FileLock(output / TRAINING_LOCK, timeout=0), torch.random.fork_rng(devices=devices):
            if restart:
                training_forget(output)
            yield
    except Timeout:
        raise TrainingError(f"another process is training in {output}") from None


def training_forget(output: Path) -> None:
    """Remove a run's files, so that it starts again; the log remains."""
    (output / STATE).unlink(missing_ok=True)
    shutil.rmtree(output / BEST_FOLDER, ignore_errors=True)


class TrainingLoop(ABC, Generic[B, L]):
    """Loop of one call of a training run.

    Args:
        name: name for messages.
        model: the model, on its device, in training mode.
        adam: the model's optimiser.
        per_epoch: number of batches per epoch.
        fingerprint: digest of config, data and code; a state is resumed only with an equal one.
        watch: called after every batch; an exception stops the run, which can be resumed.
    """

    def __init__(
        self,
        *,
        name: str,
        seed: int,
        optimiser: OptimiserConfig,
        keeping: KeepingConfig,
        model: nn.Module,
        adam: torch.optim.Adam,
        per_epoch: int,
        fingerprint: str,
        output: Path,
        device: torch.device,
        watch: Callable[[TrainingProgress], None] | None,
    ) -> None:
        self.name, self.seed, self.optimiser, self.keeping = name, seed, optimiser, keeping
        self.model, self.adam, self.per_epoch = model, adam, per_epoch
        self.output, self.device, self.watch = output, device, watch
        self.fingerprint = fingerprint
        saved_progress = state_read(output, model, adam, fingerprint, self.recall)
        self.progress = saved_progress or TrainingProgress()
        if saved_progress:
            log.info("%s resumes after batch %d", name, saved_progress.step)
        planned = optimiser.epochs * per_epoch
        self.n_planned = min(planned, optimiser.max_batches or planned)
        self.progress.planned = self.n_planned

    # Hooks for subclasses.

    @abstractmethod
    def batches(self, epoch: int, start: int) -> Iterator[B]:
        """Yield the batches of an epoch from batch `start` on."""

    @abstractmethod
    def loss(self, batch: B, generator: torch.Generator) -> L:
        """Compute the loss of a batch."""

    @abstractmethod
    def learnt(self, parts: L) -> tuple[float, int]:
        """Return a batch's loss for display and its number of tokens or examples."""

    @abstractmethod
    def window(self) -> LossTotals:
        """Return empty totals for the next log line."""

    @abstractmethod
    def validate(self) -> dict[str, float] | None:
        """Return the validation metrics; `loss` selects the best weights.

        None if nothing is held out; the newest weights are then the best.
        """

    @abstractmethod
    def keep_best(self) -> None:
        """Save the weights as the best ones."""

    @abstractmethod
    def measure_best(self) -> Mapping[str, float | None]:
        """Return the metrics of the best checkpoint, measured unless its manifest already has them."""

    def more_logged(self) -> dict[str, float]:
        """Return additional values for a log line."""
        return {}

    def rate(self) -> float:
        """Return the learning rate of the next batch."""
        return learning_rate(self.optimiser, self.progress.step, self.n_planned)

    def begin_epoch(self, epoch: int) -> None:
        """Prepare an epoch, before its first batch."""

    @property
    def is_settled(self) -> bool:
        """True if `begin_epoch` found nothing to learn; skips the epoch."""
        return False

    def remember(self) -> dict[str, Tensor]:
        """Return the tensors needed for resuming, besides weights and moments."""
        return {}

    def recall(self, state: dict[str, Tensor]) -> None:
        """Restore the tensors of `remember`."""

    # Training loop.

    def run(self) -> TrainingResult:
        """Train to the end, and evaluate the best checkpoint."""
        progress = self.progress
        bar = tqdm(
            total=self.n_planned,
            initial=progress.step,
            desc=self.name,
            unit="batch",
            file=sys.stderr,
            disable=not sys.stderr.isatty(),
        )
        with bar, MetricsLog(self.output, progress.step) as metrics:
            while not progress.finished:
                self._epoch(metrics, bar)
        return TrainingResult(
            checkpoint=self.output / BEST_FOLDER,
            epochs=progress.epoch + 1,
            best={name: math.nan if value is None else value for name, value in self.measure_best().items()},
            tokens_per_s=progress.n_tokens / max(progress.seconds, 1e-9),
            waiting_share=progress.waited / max(progress.seconds, 1e-9),
            skipped=progress.skipped,
        )

    def _epoch(self, metrics: MetricsLog, bar: Any) -> None:
        """Train on the rest of the epoch."""
        progress = self.progress
        if progress.batch == 0:
            self.begin_epoch(progress.epoch)
            if self.is_settled:
                self._settle(metrics)
                return
        window = self.window()
        batches = self.batches(progress.epoch, progress.batch)
        for batch, waited in timed(prepared_ahead(batches)):
            started = time.perf_counter()
            parts, norm = self._learn(batch)
            progress.step += 1
            progress.batch += 1
            progress.loss, n = self.learnt(parts)
            seconds = time.perf_counter() - started
            if bool(torch.isfinite(norm)):
                window.add(parts, norm, waited, seconds)
                progress.n_tokens += n
            else:
                window.skip(waited, seconds)
            progress.seconds += seconds + waited
            progress.waited += waited
            bar.update()
            # No log line spans a saved state, so that a resumed run writes the same lines.
            if self._ends_epoch or self._due("log_every") or self._due("save_every"):
                self._log(metrics, window, bar)
                window = self.window()
            self._keep(metrics)
            if self.watch:
                self.watch(progress)
            if progress.finished:
                break
        if window.n_batches or window.n_skipped:
            self._log(metrics, window, bar)

    def _settle(self, metrics: MetricsLog) -> None:
        """End the run before the next epoch."""
        progress = self.progress
        log.info("%s, batch %d: nothing left to learn; stopping before the next epoch", self.name, progress.step)
        if not progress.best_step:
            self._validate(metrics)
        progress.epoch, progress.finished = progress.epoch - 1, True
        state_write(self.output, self.model, self.adam, progress, self.fingerprint, self.remember())

    def _learn(self, batch: B) -> tuple[L, Tensor]:
        """Take an optimiser step; return loss and unclipped gradient norm.

        If the norm is not finite, no step is taken, and weights and Adam's moments stay unchanged.

        Raises:
            TrainingError: this happened too often.
        """
        optimiser, step = self.optimiser, self.progress.step
        torch.manual_seed(derive_seed(self.seed, "dropout", step))
        generator = torch.Generator(self.device)
        generator.manual_seed(derive_seed(self.seed, "draws", step))
        for group in self.adam.param_groups:
            group["lr"] = self.rate()
        self.adam.zero_grad(set_to_none=True)
        with mixed_precision(optimiser.precision, self.device):
            parts = self.loss(batch, generator)
        parts.total.backward()  # type: ignore[no-untyped-call]
        learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        norm = nn.utils.clip_grad_norm_(learning, optimiser.clip)
        if bool(torch.isfinite(norm)):
            self.adam.step()
        else:
            self._skip(float(parts.total.detach()))
        return parts, norm

    def _skip(self, loss: float) -> None:
        """Count a skipped batch."""
        progress, optimiser = self.progress, self.optimiser
        progress.skipped += 1
        log.warning(
            "%s: the gradient of batch %d is not finite (loss %.3g); the batch is skipped (%d of at most %d)",
            self.name,
            progress.step,
            loss,
            progress.skipped,
            optimiser.max_skipped,
        )
        if progress.skipped > optimiser.max_skipped:
            raise TrainingError(
                f"the gradient is not finite at batch {progress.step} (loss {loss:.3g}), and "
                f"{optimiser.max_skipped} such batches were skipped before (optimiser.max_skipped); lower "
                f"optimiser.lr, {optimiser.lr}, or use precision float32"
            )

    def _keep(self, metrics: MetricsLog) -> None:
        """Validate, stop or save if due."""
        progress = self.progress
        ends_epoch, last = self._ends_epoch, progress.step >= self.n_planned
        by_epoch = not self.keeping.validate_every
        if last or (ends_epoch if by_epoch else self._due("validate_every")):
            self._validate(metrics)
            patience = self.optimiser.patience
            last = last or bool(patience and progress.worse >= patience)
        progress.finished = last
        if ends_epoch and not last:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        if last or ends_epoch or self._due("save_every"):
            state_write(self.output, self.model, self.adam, progress, self.fingerprint, self.remember())

    @property
    def _ends_epoch(self) -> bool:
        return self.progress.batch == self.per_epoch

    def _due(self, interval: str) -> bool:
        return self.progress.step % getattr(self.keeping, interval) == 0

    def _validate(self, metrics: MetricsLog) -> None:
        progress = self.progress
        losses = self.validate()
        if losses is None:
            progress.best_step = progress.step
            self.keep_best()
            return
        metrics.write(progress.step, "validation", losses)
        log.info("%s, batch %d: validation %s", self.name, progress.step, losses)
        if losses["loss"] < progress.best_loss:
            progress.best_loss, progress.best_step, progress.worse = (losses["loss"], progress.step, 0)
            self.keep_best()
        else:
            progress.worse += 1
            progress.plateaus += 1
        self.model.train()

    def _log(self, metrics: MetricsLog, window: LossTotals, bar: Any) -> None:
        values = window.values()
        values["lr"] = self.adam.param_groups[0]["lr"]
        values["epoch"] = self.progress.epoch
        values.update(self.more_logged())
        metrics.write(self.progress.step, "train", values)
        bar.set_postfix(loss=f"{self.progress.loss:.3f}")
