"""Batch sizes by device, for encoders, classifiers and language models.

The result for a text must not depend on the other texts in its batch (`batches_made_exact`).

A CPU gains nothing from large batches and pays for their padding. On an accelerator a batch uses up to an eighth of the
memory in addition to the weights. The total memory counts, not the free memory, so that a machine always makes the
same batches and other processes do not affect the last bits of a result.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

CPU_ROWS = 16
MOST_ROWS = 256
MEMORY_SHARE = 8
"""A batch may use one part in this many of the memory."""
_FLOAT_BYTES = 4
_WIDTHS = 16
"""Peak number of values that a transformer layer holds per token, in multiples of the model's width."""


def batches_made_exact() -> None:
    """Make a text's results independent of its batch, to the last bit.

    On Intel processors PyTorch's matrix library (MKL) chooses its order of summation by the number of rows, unless the
    environment requests its strict reproducibility mode. MKL reads the setting once, at the process's first product, so
    call this before. Products of a single row then take about twice as long, so only measurements call this, not live
    chats. An existing setting is kept.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def rows_that_fit(device: str, row_bytes: int, *, limit: int = MOST_ROWS) -> int:
    """Return the batch size, a power of two up to `limit`.

    At most 16 on a CPU.

    Args:
        device: "cpu", "cuda", "cuda:1".
        row_bytes: memory needed to compute the longest row.
    """
    if row_bytes < 1:
        raise ValueError(f"row_bytes is {row_bytes}; it must be at least 1")
    memory = _memory_bytes(device)
    if memory is None:
        return min(CPU_ROWS, limit)
    fitting = max(1, memory // MEMORY_SHARE // row_bytes)
    return min(1 << (fitting.bit_length() - 1), limit)


def transformer_row_bytes(config: Any, n_tokens: int, *, has_logits: bool = False) -> int:
    """Estimate the memory in bytes that a transformer needs for one text.

    Args:
        config: config of a transformers model; missing sizes default to those of a large model.
        n_tokens: length of the longest text.
        has_logits: the model computes logits over its vocabulary at every token.
    """
    width = getattr(config, "hidden_size", None) or 1024
    heads = getattr(config, "num_attention_heads", None) or 16
    numbers = n_tokens * _WIDTHS * width + 2 * heads * n_tokens**2
    if has_logits:
        numbers += 3 * n_tokens * config.vocab_size
    return _FLOAT_BYTES * numbers


@lru_cache(maxsize=16)
def _memory_bytes(device: str) -> int | None:
    """Return a GPU's memory in bytes; None for a CPU or if unknown."""
    import torch

    if torch.device(device).type != "cuda":
        return None
    return int(torch.cuda.get_device_properties(device).total_memory)
