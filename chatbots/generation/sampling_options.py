"""Options of sampling and of replies in `bots.yaml`, the same for every kind of language model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chatbots.generation.template_marks import ReplyFilter
from chatbots.outside import NumberAsWritten, Values

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

_Mark = Annotated[str, Field(min_length=1)]


class ThoughtOptions(Values):
    """Options of the reasoning tokens, the same for every kind of language model."""

    starts_thinking: bool = Field(
        False,
        description="its replies begin within a thought that has no opening mark (the chat template has written it); "
        "nothing is shown before the closing mark, such as `</think>`.",
    )
    thought_marks: dict[_Mark, _Mark] = Field(
        default_factory=dict,
        description='opening and closing marks of thoughts besides the known ones: `{"<plan>": "</plan>"}`. What '
        "stands between them is shown to nobody.",
    )

    def reply_filter(self) -> ReplyFilter:
        """Make the filter of one reply."""
        return ReplyFilter(self.thought_marks, starts_thinking=self.starts_thinking)
