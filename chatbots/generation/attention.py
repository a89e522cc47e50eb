"""Attention of a few new tokens over many known ones, where several heads share keys and values, on processors.

transformers copies keys and values for each of the heads that share them as soon as there is a mask, and the kernel
that then computes is made for many new tokens. When a conversation goes on, few tokens are new and all of its past is
known: there PyTorch's grouped attention takes two thirds of the time, without copies. Whatever else comes goes to the
usual one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "confab_grouped"
MOST_NEW = 64
"""With more new tokens the usual attention is as fast, and this one would hold a score for each pair of tokens."""


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Return the attention output of the new tokens, (B, T, H, D), as transformers' own attention does.

    Args:
        query: (B, H, T, D), of the new tokens.
        key, value: (B, K, L, D), of all tokens; H is a multiple of K.
        attention_mask: (B, 1, T, L) or None.
    """
    few = 1 < query.shape[2] <= MOST_NEW and query.shape[2] < key.shape[2]
    if attention_mask is None or not few or options.get("dropout"):
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    seen = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
    )
    return seen.transpose(1, 2).contiguous(), None


def attention_use(model: Any) -> bool:
    """Let a model use it, where that gains anything. Returns whether it does."""
    config = model.config
    n_heads = getattr(config, "num_attention_heads", 0)
    n_shared = getattr(config, "num_key_value_heads", None) or n_heads
    device: torch.device = next(model.parameters()).device
    if device.type != "cpu" or not 0 < n_shared < n_heads or config._attn_implementation != "sdpa":
        return False
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return True
