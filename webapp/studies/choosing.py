"""What a study says in which people choose some of several things: values of its own."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Values


class Choosing(Values):
    """What people choose, and how many."""

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
