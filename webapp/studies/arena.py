"""Settings of a study that compares two chatbots side by side."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Values


class Arena(Values):
    """Settings for comparing two chatbots that both answer the participant."""

    n_comparisons: int = Field(
        default=4,
        ge=1,
        le=50,
        title="Comparisons each",
        description="How many pairs of chatbots each person compares, one after another. Where there are fewer "
        "different pairs, people get them all.",
    )
    reveals_bots: bool = Field(
        default=False,
        title="Say afterwards which chatbots they were",
        description="Shown after the person's last comparison, beside the code. Who has read it can tell others "
        "what to look for.",
    )
