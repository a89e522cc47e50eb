"""Encoder of a learned metric: its name, availability and identity; neither it nor torch is loaded."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field

from chatbots.encoders.sentence import MINILM, encoder_get
from chatbots.huggingface import missing_reason, model_known_by
from chatbots.outside import Share, Size, Values


class BackboneConfig(Values):
    """The encoder of text.

    Attributes:
        model: "minilm", which comes with Confab, or a transformers encoder by folder or hub id.
        learns: "frozen": nothing of it; "adapters": low-rank updates of its linear layers (LoRA, Hu et al. 2022);
            "all": every weight.
        rank, alpha, dropout: of the adapters.
        max_tokens: longer pairs are cut, the longer text first.
        pooling: what stands for a text: "cls": the first token's state, through the model's pooler where it has
            one; "mean": the mean over tokens.
    """

    model: str = Field(default=MINILM, min_length=1)
    learns: Literal["frozen", "adapters", "all"] = "frozen"
    rank: Size = 8
    alpha: Size = 16
    dropout: Share = 0.0
    max_tokens: int = Field(default=128, ge=8)
    pooling: Literal["cls", "mean"] = "mean"


def backbone_missing(config: BackboneConfig) -> str | None:
    """Return the reason why an encoder cannot be used here, or None. Loads nothing."""
    if config.learns == "adapters" and find_spec("peft") is None:
        return "the package peft, which makes adapters, is not installed"
    if config.model == MINILM:
        return encoder_get(MINILM).unavailable_reason()
    return missing_reason(config.model, None, allow_download=False)


def backbone_identity(config: BackboneConfig) -> dict[str, Any]:
    """Return the parameters that identify its weights, known without loading them."""
    if config.model == MINILM:
        return encoder_get(MINILM).identity.as_dict()
    return model_known_by(config.model)
