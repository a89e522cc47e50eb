"""Settings of reply filters: which filters check the chatbots' replies, and what happens to matches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from chatbots.outside import Many, Number, Values
from chatbots.outside_types import Wanted

Action = Literal["mark", "withhold"]


def _by_filter(given: object) -> object:
    """Read lines “filter: mark” of a form; return a value that is no text unchanged."""
    if not isinstance(given, str):
        return given
    found: dict[str, str] = {}
    for line in given.splitlines():
        if line.strip():
            name, _colon, action = line.partition(":")
            found[name.strip()] = action.strip()
    return found


FilterActions = Annotated[
    dict[str, Action],
    BeforeValidator(_by_filter),
    Wanted("mark or withhold for each filter's name"),
]


class Filtering(Values):
    """Settings of the filters that check replies before participants read them."""

    reply_filters: FilterActions = Field(
        default={"names_model": "mark"},
        title="Filters of replies",
        description="Mark: people read the reply, and you see what was found. Withhold: people read that a reply was "
        "withheld, and you see the reply. Replies then appear only once they are complete and checked.",
    )
    filter_phrases: Many[str] = Field(
        default=(),
        max_length=1000,
        title="Phrases to look for",
        description="For the filter “Your phrases”. One a line; capitals make no difference, and a phrase is found as "
        "whole words.",
    )
    filter_model: str = Field(
        default="",
        max_length=300,
        title="Classifier",
        description="For the filter “Classifier”: a folder on the server with a text classifier of transformers, or "
        "the hub id of one that was downloaded before.",
    )
    filter_label: str = Field(
        default="toxic",
        max_length=100,
        title="Its label",
        description="Which of the classifier's labels is looked for.",
    )
    filter_from: Number = Field(
        default=0.5,
        ge=0,
        le=1,
        title="From which probability",
        description="A reply is found where the classifier gives the label at least this probability.",
    )
