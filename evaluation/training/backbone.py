"""Text encoders of learned metrics: frozen, with adapters, or fully trained.

Adapters are `peft`'s LoRA (Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", ICLR): two low-rank
matrices per linear layer. A checkpoint then takes hundreds of kilobytes instead of a full copy of the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chatbots.encoders.sentence import MINILM, encoder_folder
from chatbots.huggingface import find_model, load_pretrained, n_positions
from evaluation.training.config import BackboneConfig, backbone_missing

_PART = 512
"""Maximum number of tokens per batch on a CPU, including padding."""


class States(NamedTuple):
    """Encoder output for texts or pairs.

    Attributes:
        pooled: (B, H), one vector per text or pair.
        tokens: (B, T, H), states of the last layer.
        mask: (B, T), 1 for tokens and 0 for padding.
    """

    pooled: Tensor
    tokens: Tensor
    mask: Tensor


class Backbone(nn.Module):
    """Transformers encoder with its tokenizer, as a submodule of a metric's network.

    Attributes:
        width: H, dimensions of a state.
    """

    def __init__(self, model: nn.Module, tokenizer: Any, config: BackboneConfig, width: int) -> None:
        super().__init__()
        self.model, self.config, self.width = model, config, width
        self.tokenizer = tokenizer
        limit = n_positions(getattr(model, "config", None)) if hasattr(model, "config") else None
        self.max_tokens = min(config.max_tokens, limit or config.max_tokens)

    def forward(self, first: Sequence[str], second: Sequence[str] | None = None) -> States:
        """Encode texts, or pairs of texts as two segments.

        In long pairs, the longer text is truncated first.
        """
        device = next(self.model.parameters()).device
        read = self.tokenizer(
            list(first),
            None if second is None else list(second),
            padding=True,
            truncation="longest_first",
            max_length=self.max_tokens,
            return_tensors="pt",
        ).to(device)
        n, longest = read["attention_mask"].shape
        size = max(1, _PART // longest)
        if device.type != "cpu" or n <= size or self.tokenizer.padding_side != "right":
            return self._encoded(read)
        # Small batches of similar length fit in the CPU's cache and take half the time.
        lengths = read["attention_mask"].sum(dim=1)
        order = lengths.argsort(stable=True)
        parts = []
        for rows in order.split(size):
            some = {name: tensor[rows, : int(lengths[rows].max())] for name, tensor in read.items()}
            parts.append(self._encoded(some))
        back = order.argsort()
        tokens = [F.pad(states.tokens, (0, 0, 0, longest - states.tokens.shape[1])) for states in parts]
        return States(
            torch.cat([states.pooled for states in parts])[back], torch.cat(tokens)[back], read["attention_mask"]
        )

    def _encoded(self, read: Mapping[str, Tensor]) -> States:
        frozen = self.config.learns == "frozen"
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            outputs = self.model(**read)
        tokens, mask = outputs.last_hidden_state, read["attention_mask"]
        if self.config.pooling == "mean":
            weights = mask[..., None].to(tokens.dtype)
            pooled = (tokens * weights).sum(dim=1) / weights.sum(dim=1)
        else:
            pooler = getattr(outputs, "pooler_output", None)
            pooled = tokens[:, 0] if pooler is None else pooler
        return States(pooled, tokens, mask)

    def train(self, mode: bool = True) -> Backbone:
        """Set training mode; a frozen encoder stays in evaluation mode.

        Dropout in a frozen encoder would only add noise.
        """
        super().train(mode)
        if self.config.learns == "frozen":
            self.model.eval()
        return self


def backbone_load(config: BackboneConfig) -> Backbone:
    """Load an encoder on the CPU in single precision.

    The config determines which weights are trainable.

    Raises:
        EncoderError, OSError: if the encoder is not on this machine.
    """
    folder = encoder_folder() if config.model == MINILM else find_model(config.model)
    if folder is None:
        raise OSError(f"{config.model}: {backbone_missing(config)}")
    loaded = load_pretrained(folder, "AutoModel", device="cpu", dtype="float32")
    model: Any = loaded.model
    width = int(model.config.hidden_size)
    model.requires_grad_(config.learns == "all")
    if config.learns == "adapters":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model,
            LoraConfig(
                r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules="all-linear"
            ),
        )
    return Backbone(model, loaded.tokenizer, config, width)
