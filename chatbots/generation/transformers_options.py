"""Options of a transformers model: reading a conversation and decoding its reply."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from chatbots.generation.sampling_options import (
    SystemPrompt,
    Temperature,
    ThoughtOptions,
    TopK,
    TopP,
)
from chatbots.outside import Many, NumberAsWritten


class TransformersOptions(ThoughtOptions):
    """Options of a transformers bot in `bots.yaml`."""

    model: str = Field(
        min_length=1, description='folder of a model, or hub id ("microsoft/DialoGPT-small").'
    )
    system_prompt: SystemPrompt = ""
    temperature: Temperature = 0.7
    top_k: TopK = 50
    top_p: TopP = 0.9
    repetition_penalty: NumberAsWritten = Field(
        1.0, gt=0, description="above 1 discourages tokens of the context and reply; 1: off."
    )
    no_repeat_ngram_size: int = Field(
        0, ge=0, description="no sequence of so many tokens twice in a reply; 0: off."
    )
    window: int = Field(
        10, ge=0, description="most turns of the conversation given to the model; 0: all."
    )
    max_new_tokens: int = Field(60, ge=1, description="a reply's longest.")
    min_new_tokens: int = Field(
        1,
        ge=0,
        description="the end token is forbidden before; 1 keeps replies from being empty.",
    )
    max_context_tokens: int | None = Field(
        None,
        ge=1,
        description="most tokens given to the model; None: what it can hold, at most 1,024.",
    )
    separator: str | None = Field(
        None,
        description="between turns where there is no chat template; None: the end token.",
    )
    stop: Many[str] = Field((), description="texts before which a reply ends.")
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description='"float32", "bfloat16", "float16", or "auto" (as the weights are stored); bfloat16 is refused on '
        "a processor that does not compute it itself.",
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub id.")
    allow_download: bool = Field(
        False, description="fetch a hub id that is not on this machine when the bot is loaded."
    )
    capacity: int = Field(64, ge=1, description="most replies under way at once.")

    @model_validator(mode="after")
    def _fits_together(self) -> TransformersOptions:
        if self.min_new_tokens > self.max_new_tokens:
            right = f"0 to max_new_tokens ({self.max_new_tokens})"
            raise ValueError(f"min_new_tokens is {self.min_new_tokens}; it must be {right}")
        return self
