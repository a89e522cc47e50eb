"""State of a training in one file, written whole or not at all, from which it goes on as if never stopped.

It holds the weights, Adam's moments and the place in the corpus. No state of a random number generator is
needed: every batch draws from seeds derived from the config's seed and the batch's number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

FILE = "state.safetensors"
FORMAT = "1"


class StateError(Exception):
    """A training state that cannot be gone on from; the message says why."""


@dataclass
class Progress:
    """Progress of a training.

    Attributes:
        step: batches learnt from, over all epochs.
        epoch: the one under way, from 0.
        batch: batches of it that are done.
        best_loss: lowest validation loss so far, nats per token; of a learned metric, its own. Infinite where nothing
            is held out.
        best_step: when that was; 0: not yet.
        worse: validations since.
        plateaus: validations that were no better than the best before them.
        n_tokens: target tokens learnt from; of a learned metric, examples.
        seconds: spent learning; validation and measuring not counted.
        waited: seconds of these spent waiting for batches.
        skipped: batches left out because their gradient was not finite; they count as steps.
        finished: whether it ended by itself.
        planned: batches it takes at most, over all epochs.
        loss: of the newest batch, nats per token; of a learned metric, its own; NaN before the first.
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
    progress: Progress,
    fingerprint: str,
    more: Mapping[str, Tensor] | None = None,
) -> None:
    """Write the state in place of the last one. Parameters that do not learn are not part of it.

    Args:
        fingerprint: of config, data and code; a state is only good for its own.
        more: what else the training needs to go on.
    """
    from safetensors.torch import save_file

    tensors = {f"more.{name}": value.cpu().contiguous() for name, value in (more or {}).items()}
    for name, parameter in _learning(model):
        tensors[f"model.{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"adam.{key}.{name}"] = value.detach().cpu().contiguous()
    about = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "progress": json.dumps(asdict(progress)),
    }
    beside = folder / f"{FILE}.part"
    save_file(tensors, beside, metadata=about)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(folder / FILE)


def state_read(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Adam,
    fingerprint: str,
    recall: Callable[[dict[str, Tensor]], None] | None = None,
) -> Progress | None:
    """Put model and optimiser where the training stood; None if there is no state.

    Args:
        recall: called with what was written as `more`.

    Raises:
        StateError: a damaged file, or one of another config, corpus or version.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
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
                        step = moments.pop("step")  # Adam keeps its count on the CPU
                        on_device = {k: v.to(parameter.device) for k, v in moments.items()}
                        optimiser.state[parameter] = {"step": step, **on_device}
            if recall is not None:
                more = [name for name in names if name.startswith("more.")]
                recall({name.removeprefix("more."): file.get_tensor(name) for name in more})
    except (SafetensorError, OSError) as error:
        raise StateError(f"{path} is damaged: {error}; train again with --restart") from error
    return Progress(**json.loads(about["progress"]))


def _learning(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that learn: a frozen encoder's are read from its own files again."""
    return [(name, one) for name, one in model.named_parameters() if one.requires_grad]


def _check(path: Path, about: dict[str, str], fingerprint: str) -> None:
    if about.get("format") != FORMAT:
        raise StateError(
            f"{path} has format {about.get('format')!r}; this version of Confab reads {FORMAT!r}. "
            "Train again with --restart"
        )
    if about["fingerprint"] != fingerprint:
        raise StateError(
            f"{path} belongs to another config, corpus or version of the models "
            f"({about['fingerprint']}, now {fingerprint}); give another output folder, or train again "
            "with --restart"
        )
