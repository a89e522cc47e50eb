"""The training loop: Adam on batches of windows, validated, kept, resumable to the bit.

    result = train(config_load("hred.yaml", data="corpora"), "runs/hred")

The folder then holds `best/` (a checkpoint, `chatbots.checkpoints`), `state.safetensors` (to go on after a
kill: call `train` again), `log.jsonl` and `tensorboard/`. Whatever is drawn at a batch comes from the config's
seed and the batch's number, so a training that was killed ends with the very weights of one that was not.
"""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor
from tqdm import tqdm

from chatbots.checkpoints import (
    CheckpointError,
    Manifest,
    checkpoint_load,
    checkpoint_manifest,
    checkpoint_write,
    code_version,
)
from chatbots.identity import canonical_json, derive_seed
from chatbots.models.batch import DialogueBatch, LossParts
from chatbots.models.dialogue_model import DialogueModel
from chatbots.training.config import WITH_LATENTS, TrainingConfig
from chatbots.training.data import TrainingData, data_prepare
from chatbots.training.ei import weight_check
from chatbots.training.held_out import held_out_measure, validation_loss
from chatbots.training.logs import LossWindow, MetricsLog
from chatbots.training.start import model_start
from chatbots.training.state import FILE as STATE
from chatbots.training.state import Progress, state_read, state_write
from chatbots.training.steps import kl_weight, learning_rate, mixed_precision, prepared_ahead, timed

log = logging.getLogger(__name__)

BEST = "best"
"""The folder of the checkpoint with the lowest validation loss."""


class TrainingError(Exception):
    """A training that cannot go on; the message says why and what would help."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What a training came to.

    Attributes:
        checkpoint: folder of the best checkpoint.
        epochs: how many were begun.
        best: its figures: `validation_loss` (nats per token), `step`, and what was measured on held-out text
            (`chatbots.training.held_out`); NaN where undefined.
        tokens_per_s: target tokens learnt from per second, validation not counted.
        waiting_share: share of that time spent waiting for batches.
        skipped: batches left out because their gradient was not finite.
    """

    checkpoint: Path
    epochs: int
    best: dict[str, float]
    tokens_per_s: float
    waiting_share: float
    skipped: int

    def to_json(self) -> dict[str, Any]:
        """Return `checkpoint`, `epochs` and `best`, with None for what is undefined."""
        return {
            "checkpoint": str(self.checkpoint),
            "epochs": self.epochs,
            "best": {k: None if math.isnan(v) else v for k, v in self.best.items()},
        }


def train(
    config: TrainingConfig,
    output: Path | str,
    *,
    device: str = "cpu",
    restart: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> TrainingResult:
    """Train a model, or go on with a training that was stopped; one that is finished is only reported.

    Args:
        output: folder of this training; made if need be.
        device: "cpu", "cuda", …
        restart: begin anew whatever lies in the folder.
        watch: called after every batch; what it raises ends the training, which can be gone on with.

    Raises:
        ValuesError, CorpusError, EncoderError: the config, a corpus or an encoder cannot be used.
        StateError: the folder holds the training of another config or corpus.
        TrainingError: too many gradients are not finite, or another process trains in this folder.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(output / ".lock", timeout=0), _own_random_numbers(device):
            if restart:
                training_forget(output)
            return _Training(config, output, torch.device(device), watch).run()
    except Timeout:
        raise TrainingError(f"another process is training in {output}") from None


def training_forget(output: Path) -> None:
    """Remove what a training left in its folder, so that it begins anew; its log stays."""
    (output / STATE).unlink(missing_ok=True)
    shutil.rmtree(output / BEST, ignore_errors=True)


def finished(output: Path) -> bool:
    """Tell whether the training in a folder came to its end and was measured."""
    try:
        return bool(checkpoint_manifest(output / BEST).metrics)
    except CheckpointError:
        return False


class _Training:
    """One call of `train`."""

    def __init__(
        self,
        config: TrainingConfig,
        output: Path,
        device: torch.device,
        watch: Callable[[Progress], None] | None,
    ) -> None:
        self.config, self.output, self.device, self.watch = config, output, device, watch
        self.data: TrainingData = data_prepare(config, str(device))
        self.sentence_nats = self._weight_check()
        self.model: DialogueModel = model_start(config, self.data, output).to(device).train()
        self.adam = torch.optim.Adam(self.model.parameters(), lr=config.optimiser.lr)
        self.fingerprint = _fingerprint(config, self.data)
        found = state_read(output, self.model, self.adam, self.fingerprint)
        self.progress = found or Progress()
        if found:
            log.info("%s goes on after batch %d", config.name, found.step)
        targets = self.data.targets
        self.ei_pca = targets.pca if targets and self.data.reads_targets else None
        self.per_epoch = self.data.train.n_batches(config.optimiser.batch_size)
        planned = config.optimiser.epochs * self.per_epoch
        self.n_planned = min(planned, config.optimiser.max_batches or planned)
        self.progress.planned = self.n_planned

    def _weight_check(self) -> float:
        """Return what the sentence loss weighs at first, in nats a batch.

        Raises:
            ValuesError: it would outweigh the words.
        """
        config, data = self.config, self.data
        if config.ei is None or data.targets is None:
            return 0.0
        per_batch = min(config.optimiser.batch_size / len(data.train), 1.0)
        words = data.train.n_target_tokens * per_batch * math.log(len(data.vocabulary))
        return weight_check(config.ei, data.targets.sentence_variance, words)

    def run(self) -> TrainingResult:
        progress, config = self.progress, self.config
        bar = tqdm(
            total=self.n_planned,
            initial=progress.step,
            desc=config.name,
            unit="batch",
            file=sys.stderr,
            disable=not sys.stderr.isatty(),
        )
        with bar, MetricsLog(self.output, progress.step) as metrics:
            while not progress.finished:
                self._epoch(metrics, bar)
        return self._result()

    def _epoch(self, metrics: MetricsLog, bar: Any) -> None:
        """Learn from what is left of the epoch."""
        config, progress = self.config, self.progress
        window = LossWindow()
        batches = self.data.train.batches(
            config.optimiser.batch_size,
            derive_seed(config.seed, "order"),
            progress.epoch,
            start=progress.batch,
            targets=self.data.targets,
        )
        for batch, waited in timed(prepared_ahead(batches)):
            started = time.perf_counter()
            parts, norm = self._learn(batch.to(self.device))
            progress.step += 1
            progress.batch += 1
            progress.loss = float(parts.tokens_nll.detach()) / max(parts.n_tokens, 1)
            seconds = time.perf_counter() - started
            if bool(torch.isfinite(norm)):
                window.add(parts, norm, waited, seconds)
                progress.n_tokens += parts.n_tokens
            else:
                window.skip(waited, seconds)
            progress.seconds += seconds + waited
            progress.waited += waited
            bar.update()
            # A line never spans a saved state, so that a training that goes on writes the same ones.
            if self._ends_epoch or self._due("log_every") or self._due("save_every"):
                self._log(metrics, window, bar)
                window = LossWindow()
            self._keep(metrics)
            if self.watch:
                self.watch(progress)
            if progress.finished:
                break
        if window.n_batches or window.n_skipped:
            self._log(metrics, window, bar)

    def _learn(self, batch: DialogueBatch) -> tuple[LossParts, Tensor]:
        """Make one step of the optimiser; return the loss before it and the gradient's norm before clipping.

        Where the norm is not finite no step is made: the weights and Adam's moments stay what they were.

        Raises:
            TrainingError: that happened too often.
        """
        optimiser, regularisation = self.config.optimiser, self.config.regularisation
        step = self.progress.step
        torch.manual_seed(derive_seed(self.config.seed, "dropout", step))
        generator = torch.Generator(self.device)
        generator.manual_seed(derive_seed(self.config.seed, "draws", step))
        for group in self.adam.param_groups:
            group["lr"] = learning_rate(optimiser, step, self.n_planned)
        self.adam.zero_grad(set_to_none=True)
        with mixed_precision(optimiser.precision, self.device):
            parts = self.model.loss(
                batch,
                kl_weight=kl_weight(step, regularisation.kl_batches),
                word_drop=regularisation.word_drop,
                sentence_drop=regularisation.sentence_drop,
                generator=generator,
            )
        parts.total.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), optimiser.clip)
        if bool(torch.isfinite(norm)):
            self.adam.step()
        else:
            self._skip(float(parts.total.detach()))
        return parts, norm

    def _skip(self, loss: float) -> None:
        """Count a batch that taught nothing."""
        progress, optimiser = self.progress, self.config.optimiser
        progress.skipped += 1
        log.warning(
            "%s: the gradient of batch %d is not finite (loss %.3g); the batch is left out (%d of at most %d)",
            self.config.name,
            progress.step,
            loss,
            progress.skipped,
            optimiser.max_skipped,
        )
        if progress.skipped > optimiser.max_skipped:
            raise TrainingError(
                f"the gradient is not finite at batch {progress.step} (loss {loss:.3g}), and "
                f"{optimiser.max_skipped} such batches were left out before (optimiser.max_skipped); lower "
                f"optimiser.lr, {optimiser.lr}, or use precision float32"
            )

    def _keep(self, metrics: MetricsLog) -> None:
        """Validate, stop and save where it is time to."""
        progress, config = self.progress, self.config
        ends_epoch, last = self._ends_epoch, progress.step >= self.n_planned
        by_epoch = not config.keeping.validate_every
        if last or (ends_epoch if by_epoch else self._due("validate_every")):
            self._validate(metrics)
            patience = config.optimiser.patience
            last = last or bool(patience and progress.worse >= patience)
        progress.finished = last
        if ends_epoch and not last:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        if last or ends_epoch or self._due("save_every"):
            state_write(self.output, self.model, self.adam, progress, self.fingerprint)

    @property
    def _ends_epoch(self) -> bool:
        return self.progress.batch == self.per_epoch

    def _due(self, what: str) -> bool:
        return self.progress.step % getattr(self.config.keeping, what) == 0

    def _validate(self, metrics: MetricsLog) -> None:
        progress, config = self.progress, self.config
        found = validation_loss(self.model, self.data, config, self.device)
        metrics.write(progress.step, "validation", found)
        log.info("%s, batch %d: validation %s", config.name, progress.step, found)
        if found["loss"] < progress.best_loss:
            progress.best_loss, progress.best_step, progress.worse = (
                found["loss"],
                progress.step,
                0,
            )
            checkpoint_write(
                self.output / BEST,
                self.model,
                self.data.vocabulary,
                self._manifest({}),
                ei_pca=self.ei_pca,
            )
        else:
            progress.worse += 1
        self.model.train()

    def _log(self, metrics: MetricsLog, window: LossWindow, bar: Any) -> None:
        progress, regularisation = self.progress, self.config.regularisation
        values = window.values()
        values["lr"] = self.adam.param_groups[0]["lr"]
        values["epoch"] = progress.epoch
        if self.config.model in WITH_LATENTS:
            values["kl_weight"] = kl_weight(progress.step - 1, regularisation.kl_batches)
        metrics.write(progress.step, "train", values)
        nll = values.get("tokens_nll", math.nan)
        bar.set_postfix(nll=f"{nll:.3f}", tok_s=f"{values['tokens_per_s']:.0f}")

    def _manifest(self, best: dict[str, float]) -> Manifest:
        config, data, progress = self.config, self.data, self.progress
        return Manifest(
            tokeniser=config.data.tokeniser,
            corpus=data.digest,
            title=config.title or config.name,
            metrics={k: None if v != v else v for k, v in best.items()},
            training={
                "config": config.decisive,
                "config_digest": config.digest,
                "corpora": [c.model_dump() for c in config.data.corpora],
                "n_dialogues": data.n_dialogues,
                "encoders": data.targets.encoders if data.targets else {},
                "best_step": progress.best_step,
                "epochs": progress.epoch + 1,
                "n_tokens": progress.n_tokens,
                "seconds": round(progress.seconds, 1),
                "waiting_share": round(progress.waited / max(progress.seconds, 1e-9), 4),
                "skipped": progress.skipped,
                "sentence_variance": data.targets.sentence_variance if data.targets else None,
                "sentence_nats": self.sentence_nats,
                "device": self.device.type,
                "torch": torch.__version__,
            },
        )

    def _result(self) -> TrainingResult:
        """Measure the best checkpoint on held-out text, unless its manifest has the figures already."""
        progress, config = self.progress, self.config
        folder = self.output / BEST
        stored = checkpoint_manifest(folder)
        if not stored.metrics:
            model, vocabulary, _ = checkpoint_load(folder, str(self.device))
            best = {
                "validation_loss": progress.best_loss,
                "step": progress.best_step,
                **held_out_measure(model, self.data, config, self.device),
            }
            stored = checkpoint_write(
                folder, model, vocabulary, self._manifest(best), ei_pca=self.ei_pca
            )
        return TrainingResult(
            checkpoint=folder,
            epochs=progress.epoch + 1,
            best={k: float("nan") if v is None else v for k, v in stored.metrics.items()},
            tokens_per_s=progress.n_tokens / max(progress.seconds, 1e-9),
            waiting_share=progress.waited / max(progress.seconds, 1e-9),
            skipped=progress.skipped,
        )


def _fingerprint(config: TrainingConfig, data: TrainingData) -> str:
    """Return 16 hexadecimal digits of all that decides the weights."""
    parts: list[Any] = [config.digest, data.digest, data.vocabulary.digest, code_version()]
    if data.targets:
        parts.append(data.targets.encoders)
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


@contextmanager
def _own_random_numbers(device: str) -> Iterator[None]:
    """Leave torch's global generators as they were."""
    devices = [torch.device(device)] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=devices):
        yield
