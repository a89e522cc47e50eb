"""Batch sizes by device: one rule for encoders, classifiers and language models.

What is computed for a text must not depend on which texts share its batch (`batches_made_exact`).

A processor (CPU) gains nothing from many rows and pays for their padding. An accelerator wants as many as an
eighth of its memory holds beside the weights. Its whole memory counts, not what is free at the moment, so that
the same machine always makes the same batches and the last bits of a result do not depend on who else is there.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

CPU_ROWS = 16
MOST_ROWS = 256
MEMORY_SHARE = 8
"""One part in so many is for what a batch computes."""
_FLOAT_BYTES = 4
_WIDTHS = 16
"""Numbers a layer of a transformer holds for a token at its fullest, in widths of the model."""


def batches_made_exact() -> None:
    """Have a text's numbers come out the same, to the last bit, however many texts share its batch.

    On Intel processors the matrix library of PyTorch (MKL) chooses how it adds up by the number of rows,
    unless the environment asks for its strict mode of reproducibility. It reads that once, at the first product
    of the process, so this is called before. Products of a single row take about twice as long then:
    whatever measures calls this, whatever answers people one by one does not. A value that is set already stays.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def rows_that_fit(device: str, row_bytes: int, *, limit: int = MOST_ROWS) -> int:
    """Return the number of rows to compute at once: a power of two up to `limit`, on a CPU at most 16.

    Args:
        device: "cpu", "cuda", "cuda:1".
        row_bytes: what the longest row takes while it is computed.
    """
    if row_bytes < 1:
        raise ValueError(f"row_bytes is {row_bytes}; a row takes 1 or more")
    memory = _memory_bytes(device)
    if memory is None:
        return min(CPU_ROWS, limit)
    fitting = max(1, memory // MEMORY_SHARE // row_bytes)
    return min(1 << (fitting.bit_length() - 1), limit)


def transformer_row_bytes(config: Any, n_tokens: int, *, has_logits: bool = False) -> int:
    """Return about how much memory a transformer takes to read one text.

    Args:
        config: of a transformers model; sizes it does not name are taken for a large one's.
        n_tokens: of the longest text.
        has_logits: it gives a number for every word of its vocabulary at every token.
    """
    width = getattr(config, "hidden_size", None) or 1024
    heads = getattr(config, "num_attention_heads", None) or 16
    numbers = n_tokens * _WIDTHS * width + 2 * heads * n_tokens**2
    if has_logits:
        numbers += 3 * n_tokens * config.vocab_size
    return _FLOAT_BYTES * numbers


@lru_cache(maxsize=16)
def _memory_bytes(device: str) -> int | None:
    """Return the bytes of memory of a GPU; None for a CPU or a device that does not tell."""
    import torch

    if torch.device(device).type != "cuda":
        return None
    return int(torch.cuda.get_device_properties(device).total_memory)
