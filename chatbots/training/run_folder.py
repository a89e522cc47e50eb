"""Files of a training run: its resumable state and its metrics log.

The state is one atomically written file with the weights, Adam's moments and the position in the corpus. Resuming from
it is exact. It needs no state of a random generator, because every batch uses seeds derived from the config's seed and
the batch's number.

The log is written as JSON Lines and for TensorBoard:

    {"step": 50, "kind": "train", "tokens_nll": 6.91, "tokens_per_s": 1720.0, …}
    {"step": 900, "kind": "validation", "loss": 5.02, …}
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from chatbots.models.batch import LossParts

STATE_FILE = "state.safetensors"
STATE_FORMAT = "1"


class StateError(Exception):
    """Error in a training state that cannot be resumed.

    The message gives the reason.
    """


@dataclass
class TrainingProgress:
    """Progress of a training run.

    Attributes:
        step: number of batches processed, over all epochs.
        epoch: current epoch, from 0.
        batch: number of processed batches of the epoch.
        best_loss: lowest validation loss so far, in nats per token or in a learned metric's unit. Infinite if nothing
            is held out.
        best_step: step of the best loss; 0 for none yet.
        worse: number of validations since then.
        plateaus: number of validations without improvement on the best before them.
        n_tokens: number of target tokens processed, or of examples for a learned metric.
        seconds: training time, without validation and evaluation.
        waited: part of this time spent waiting for batches.
        skipped: number of batches skipped for a non-finite gradient; they count as steps.
        finished: True if the run ended by itself.
        planned: maximum number of batches, over all epochs.
        loss: loss of the latest batch, in nats per token or in a learned metric's unit; NaN before the first.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_loss: float = float("inf")
    best_step: int = 0
    worse: int = 0
    plateaus: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    skipped: int = 0
    finished: bool = False
    planned: int = 0
    loss: float = float("nan")


def state_write(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Adam,
    progress: TrainingProgress,
    fingerprint: str,
    extra_tensors: Mapping[str, Tensor] | None = None,
) -> None:
    """Replace the saved state; frozen parameters are not included.

    Args:
        fingerprint: digest of config, data and code; a state is valid only for an equal one.
        extra_tensors: other tensors needed for resuming.
    """
    from safetensors.torch import save_file

    tensors = {f"more.{name}": value.cpu().contiguous() for name, value in (extra_tensors or {}).items()}
    for name, parameter in _learning(model):
        tensors[f"model.{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"adam.{key}.{name}"] = value.detach().cpu().contiguous()
    about = {"format": STATE_FORMAT, "fingerprint": fingerprint, "progress": json.dumps(asdict(progress))}
    partial_file = folder / f"{STATE_FILE}.part"
    save_file(tensors, partial_file, metadata=about)
    with partial_file.open("rb") as file:
        os.fsync(file.fileno())
    partial_file.replace(folder / STATE_FILE)


def state_read(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Adam,
    fingerprint: str,
    recall: Callable[[dict[str, Tensor]], None] | None = None,
) -> TrainingProgress | None:
    """Restore model and optimiser from the saved state, or return None.

    Args:
        recall: called with the tensors written as `extra_tensors`.

    Raises:
        StateError: the file is damaged or belongs to another config, corpus or version.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / STATE_FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            _check(path, about, fingerprint)
            names = set(file.keys())
            with torch.no_grad():
                for name, parameter in _learning(model):
                    parameter.copy_(file.get_tensor(f"model.{name}"))
                    moments = {
                        key: file.get_tensor(f"adam.{key}.{name}")
                        for key in ("step", "exp_avg", "exp_avg_sq")
                        if f"adam.{key}.{name}" in names
                    }
                    if moments:
                        step = moments.pop("step")  # Adam keeps its step count on the CPU
                        on_device = {k: v.to(parameter.device) for k, v in moments.items()}
                        optimiser.state[parameter] = {"step": step, **on_device}
            if recall is not None:
                extra_names = [name for name in names if name.startswith("more.")]
                recall({name.removeprefix("more."): file.get_tensor(name) for name in extra_names})
    except (SafetensorError, OSError) as error:
        raise StateError(f"{path} is damaged: {error}; restart the training with --restart") from error
    return TrainingProgress(**json.loads(about["progress"]))


def _learning(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the trainable parameters; frozen encoders have their own files."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def _check(path: Path, about: dict[str, str], fingerprint: str) -> None:
    if about.get("format") != STATE_FORMAT:
        raise StateError(
            f"{path} has format {about.get('format')!r}; this version of Confab reads {STATE_FORMAT!r}. Restart the "
            "training with --restart"
        )
    if about["fingerprint"] != fingerprint:
        raise StateError(
            f"{path} belongs to another config, corpus or version of the models "
            f"({about['fingerprint']}, now {fingerprint}); give another output folder, or restart the training with "
            "--restart"
        )


LOG_FILE = "log.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class MetricsLog:
    """Metrics log in both formats; resuming at a step removes later lines.

    Args:
        folder: folder of the run.
        step: current step.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        from tensorboardX import SummaryWriter

        self.path = folder / LOG_FILE
        lines = [line for line in log_read(folder) if line["step"] <= step] if step else []
        self.path.write_text("".join(f"{_json(line)}\n" for line in lines), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / TENSORBOARD_FOLDER), purge_step=step + 1)

    def write(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Add a line.

        Non-finite values become null and are omitted in TensorBoard.
        """
        self._file.write(_json({"step": step, "kind": kind, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            if math.isfinite(value):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._file.close()
        self._board.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LossWindow:
    """Totals since the last log line.

    Tensors are read only when it is written.
    """

    def __init__(self) -> None:
        self.sums: dict[str, Tensor | float] = {}
        self.n_tokens = self.n_inputs = self.n_batches = self.n_skipped = 0
        self.seconds = self.waited = 0.0

    def add(self, parts: LossParts, norm: Tensor, waited: float, seconds: float) -> None:
        self.n_batches += 1
        self.n_tokens += parts.n_tokens
        self.n_inputs += parts.n_inputs
        self.seconds += seconds
        self.waited += waited
        for name in ("tokens_nll", "kl", "bow", "total"):
            self._sum(name, getattr(parts, name).detach())
        for name in ("emotion", "sentence"):  # means over the inputs
            self._sum(name, getattr(parts, name).detach() * parts.n_inputs)
        self._sum("gradient_norm", norm.detach())

    def skip(self, waited: float, seconds: float) -> None:
        """Count a skipped batch, whose losses would make every mean undefined."""
        self.n_skipped += 1
        self.seconds += seconds
        self.waited += waited

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value

    def values(self) -> dict[str, float]:
        """Return losses per token, heads' losses per utterance, and speed."""
        per = dict.fromkeys(("tokens_nll", "kl", "bow", "total"), self.n_tokens)
        per |= dict.fromkeys(("emotion", "sentence"), self.n_inputs)
        per["gradient_norm"] = self.n_batches
        values = {name: float(total) / per[name] for name, total in self.sums.items()}
        total_s = self.seconds + self.waited
        values["tokens_per_s"] = self.n_tokens / max(total_s, 1e-9)
        values["waiting_share"] = self.waited / max(total_s, 1e-9)
        if self.n_skipped:
            values["skipped"] = self.n_skipped
        return values


def log_read(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of a run's log, without an incomplete last line."""
    path = folder / LOG_FILE
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def _json(line: Mapping[str, Any]) -> str:
    return json.dumps(
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}, allow_nan=False
    )
