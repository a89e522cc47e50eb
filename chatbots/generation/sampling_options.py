"""What entries of `bots.yaml` say of sampling, in the same words for every kind of language model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chatbots.outside import NumberAsWritten

SystemPrompt = Annotated[str, Field(description="what the model is told first.")]
Temperature = Annotated[
    NumberAsWritten,
    Field(ge=0, le=10, description="0: always the likeliest token. Below 1 safer, above 1 wilder."),
]
TopK = Annotated[int, Field(ge=0, description="only the k likeliest tokens; 0: all.")]
TopP = Annotated[
    NumberAsWritten,
    Field(
        gt=0,
        le=1,
        description="only the fewest tokens holding this share of the probability; 1: all.",
    ),
]
