"""Parts of a training step: its batch, its learning rate, its β, its precision."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from chatbots.training.config import OptimiserConfig

B = TypeVar("B")

AHEAD = 4
"""Batches made ready while one is learnt from."""


def kl_weight(step: int, kl_batches: int) -> float:
    """Return β of the KL term at a batch counted from 0: 0 → 1 linearly over `kl_batches`."""
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
    """Return the context in which a loss is computed; bfloat16 needs no scaling of the loss."""
    on = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=on)


def prepared_ahead(batches: Iterator[B]) -> Iterator[B]:
    """Yield the same batches while another thread makes the next few."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(AHEAD))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, batches, None))
            yield batch


def timed(batches: Iterator[B]) -> Iterator[tuple[B, float]]:
    """Yield each batch with the seconds it was waited for."""
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        yield batch, time.perf_counter() - started
