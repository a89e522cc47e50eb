"""Settings of a study that compares pairs of stored conversations."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Values


class Dialogues(Values):
    """Settings for comparing conversations: their source, and the number of pairs for each participant."""

    dialogues_of: str = Field(
        default="",
        max_length=60,
        title="Conversations of the study",
        description="Key of the study whose completed conversations are compared; empty: those of this one, as an "
        "import brought them.",
    )
    dialogues_run: int | None = Field(
        default=None,
        ge=1,
        title="Conversations of the self-play run",
        description="Number of the run whose conversations are compared, in place of a study's; empty: none.",
    )
    n_dialogues: int = Field(
        default=4,
        ge=1,
        le=50,
        title="Pairs each",
        description="How many pairs each person reads, one after another, and no conversation twice. Where fewer "
        "are left, people get these.",
    )
    raters_each_pair: int = Field(
        default=1,
        ge=1,
        le=1000,
        title="People for a pair",
        description="Before a new pair is made, those that are begun are given to so many people.",
    )
