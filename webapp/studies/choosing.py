"""Settings of a study in which participants choose several items of a list."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Values


class Choosing(Values):
    """Settings for choosing: the question, and the number of choices."""

    choose_question: str = Field(
        default="Which of these matter most for a good reply?",
        min_length=1,
        max_length=300,
        title="Question",
        description="The things to choose from are the study's questions, by their short names and words.",
    )
    n_choose: int = Field(
        default=4,
        ge=1,
        le=50,
        title="Choose exactly",
        description="So many of them, no more and no fewer.",
    )
