"""What a study says in which people mark single replies of conversations: values of its own."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Values


class Marking(Values):
    """Which replies are marked."""

    conversations_of: str = Field(
        default="",
        max_length=60,
        title="Conversations of the study",
        description="Key of the study whose completed conversations are marked; empty: those of this one, as an "
        "import brought them.",
    )
    n_conversations: int = Field(
        default=1, ge=1, le=20, title="Conversations a task", description="Each with all its turns."
    )
    n_replies_marked: int = Field(
        default=0,
        ge=0,
        le=200,
        title="Replies of each",
        description="So many of the chatbot's replies are drawn to be marked. 0: all of them.",
    )
