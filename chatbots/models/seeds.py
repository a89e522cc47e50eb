"""Random numbers of a reply's latent variables.

What belongs to a conversation (VHCR's z_conv) is drawn from the conversation's seed, so it is the same at each
of its replies though a bot remembers nothing; what belongs to a reply (z_t) from the reply's. Every row has
numbers of its own, drawn on the CPU in single precision: the same whoever shares the batch, on any device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from chatbots.conversation import Conversation
from chatbots.identity import derive_seed


@dataclass(frozen=True, slots=True)
class ReplySeeds:
    """The seeds of one reply's latents, each 0 … 2^63 − 1."""

    conversation: int
    """of z_conv"""
    sentence: int
    """of z_t; not the reply's own seed, which its choices of words are drawn from"""

    @classmethod
    def of(cls, conversation: Conversation) -> ReplySeeds:
        """Return the seeds of the next reply."""
        return cls(
            derive_seed(conversation.seed, "conversation"),
            derive_seed(conversation.reply_seed, "latent"),
        )


def standard_normal(seeds: Sequence[int], n: int, device: torch.device) -> Tensor:
    """Draw (R, n) standard normal numbers, each row from its own seed."""
    rows = [torch.randn(n, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(rows).to(device)
