"""The metrics log of a training: JSON Lines for programs, TensorBoard for eyes.

{"step": 50, "kind": "train", "tokens_nll": 6.91, "tokens_per_s": 1720.0, …}
{"step": 900, "kind": "validation", "loss": 5.02, …}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from chatbots.models.batch import LossParts

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


class MetricsLog:
    """Writes both; a training that goes on from step n forgets what an interrupted one wrote after it.

    Args:
        folder: of the training.
        step: where it stands.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        from tensorboardX import SummaryWriter

        self.path = folder / LOG
        kept = [line for line in log_read(folder) if line["step"] <= step] if step else []
        self.path.write_text("".join(f"{_json(line)}\n" for line in kept), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / TENSORBOARD), purge_step=step + 1)

    def write(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Add a line; what is not finite is null there, and left out of TensorBoard."""
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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LossWindow:
    """Totals over the batches since the last line of the log; tensors are read when it is written."""

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
        """Count a batch that was left out because its losses would make every mean undefined."""
        self.n_skipped += 1
        self.seconds += seconds
        self.waited += waited

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value

    def values(self) -> dict[str, float]:
        """Return the losses per token, those of the heads per utterance, and the speed."""
        per = dict.fromkeys(("tokens_nll", "kl", "bow", "total"), self.n_tokens)
        per |= dict.fromkeys(("emotion", "sentence"), self.n_inputs)
        per["gradient_norm"] = self.n_batches
        values = {name: float(total) / per[name] for name, total in self.sums.items()}
        whole = self.seconds + self.waited
        values["tokens_per_s"] = self.n_tokens / max(whole, 1e-9)
        values["waiting_share"] = self.waited / max(whole, 1e-9)
        if self.n_skipped:
            values["skipped"] = self.n_skipped
        return values


def log_read(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of a training's log; one that was cut off by a kill is left out."""
    path = folder / LOG
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
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()},
        allow_nan=False,
    )
