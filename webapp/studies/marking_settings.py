"""Settings of labelling: replies, their steps, own chats, weighted errors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from chatbots import derive_seed
from chatbots.validation import InputModel, Many
from evaluation.analysis.error_spans import SEVERITIES
from webapp.studies.questions import Option, first_duplicate

MOST_CHOSEN = 500
"""Maximum number of conversations that a study can name."""
ChatId = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]


class Marking(InputModel):
    """Settings for labelling replies of stored conversations."""

    conversations_of: str = Field(
        default="",
        max_length=60,
        title="Source study",
        description="Key of the study whose completed conversations are annotated. Leave empty for this study's own "
        "imported conversations.",
    )
    conversations_run: int | None = Field(
        default=None,
        ge=1,
        title="Source self-play run",
        description="Number of the self-play run to annotate instead of a study. Optional.",
    )
    conversations_chosen: Annotated[Many[ChatId], Field(max_length=MOST_CHOSEN)] = Field(
        default=(),
        title="Chosen conversations",
        description=f"Ids of conversations of the source, one per line, at most {MOST_CHOSEN}. Leave empty for all.",
    )
    n_conversations: int = Field(
        default=1, ge=1, le=20, title="Conversations per task", description="Each is shown with all its turns."
    )
    n_replies_marked: int = Field(
        default=0,
        ge=0,
        le=200,
        title="Replies per conversation",
        description="Number of the chatbot's replies drawn at random for labelling. 0 for all of them.",
    )


class StepMarking(InputModel):
    """Settings for labelling the steps of a reply's trace."""

    label_steps: bool = Field(
        default=False,
        title="Label the steps of a reply",
        description="Participants also label the reasoning and tool calls of a reply, if its study shows them.",
    )
    step_labels: Annotated[Many[Option], Field(min_length=1, max_length=20)] = Field(
        default=("Wrong call", "Wrong arguments", "Ignores the result", "Invented result", "Faulty reasoning"),
        title="Step labels",
        description="Up to 20, without duplicates. Answers are stored with these words.",
    )

    @field_validator("step_labels")
    @classmethod
    def _each_once(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if twice := first_duplicate(labels):
            raise ValueError(f"“{twice}” is listed twice; list each label once")
        return labels


class OwnMarking(InputModel):
    """Settings for labelling the replies of the participant's own chat."""

    marked_when: Literal["after", "during"] = Field(
        default="after",
        title="When replies are labelled",
        description="During the chat, participants can go on without labelling; the remaining replies are labelled "
        "after the chat.",
        json_schema_extra={"choices": {"after": "After the chat", "during": "During the chat"}},
    )
    n_own_marked: int = Field(
        default=0,
        ge=0,
        le=200,
        title="Replies per chat",
        description=(
            "Number of replies drawn at random for labelling. During the chat, they are drawn from the first "
            "replies, as many as the shortest possible chat has. 0 for all replies."
        ),
    )

    def asked_while_chatting(self, n_least: int, seed: int, chat: str, is_opened: bool) -> list[int] | None:
        """Return the numbers of the turns that are labelled during the chat.

        None means the turns of all replies.

        Args:
            n_least: number of replies that every chat has. Their turns have odd numbers, or even numbers if the bot
                opens the chat with turn 0.
            seed: the study's seed; chat: id of the chat. Equal arguments give equal turns.
        """
        if self.marked_when == "after":
            return []
        if not self.n_own_marked:
            return None
        return self._draw_turns(range(1 + is_opened, 2 * n_least + is_opened, 2), seed, chat)

    def chosen(self, replies: Sequence[int], n_least: int, seed: int, chat: str, is_opened: bool) -> list[int]:
        """Return the turns of the labelled replies, once a chat has ended.

        Args:
            replies: turn numbers of all replies; n_least, seed, chat, is_opened: as in `asked_while_chatting`.
        """
        if self.marked_when == "during":
            requested_turns = self.asked_while_chatting(n_least, seed, chat, is_opened)
            return [turn for turn in replies if requested_turns is None or turn in requested_turns]
        return self._draw_turns(replies, seed, chat) if self.n_own_marked else list(replies)

    def _draw_turns(self, replies: Sequence[int], seed: int, chat: str) -> list[int]:
        rng = random.Random(derive_seed(seed, "own replies", chat))
        return sorted(rng.sample(list(replies), min(self.n_own_marked, len(replies))))


ErrorWeight = Annotated[int, Field(ge=0, le=50)]


class ErrorMarking(InputModel):
    """Settings for marking errors: their number, and weights by severity."""

    n_errors_most: int = Field(
        default=5, ge=1, le=20, title="Errors per reply", description="Maximum number of errors in one reply."
    )
    weight_neutral: ErrorWeight = Field(default=0, title="Weight of a neutral error")
    weight_minor: ErrorWeight = Field(default=1, title="Weight of a minor error")
    weight_major: ErrorWeight = Field(default=5, title="Weight of a major error")
    weight_critical: ErrorWeight = Field(
        default=25,
        title="Weight of a critical error",
        description="The score of a reply is minus the sum of the weights of its errors.",
    )

    @model_validator(mode="after")
    def _weights_rise(self) -> ErrorMarking:
        names = list(self.weights)
        for milder, graver in itertools.pairwise(names):
            low, high = self.weights[milder], self.weights[graver]
            if low > high:
                raise ValueError(f"weight_{milder} is {low}; it must not be above weight_{graver}, which is {high}")
        if not self.weight_critical:
            raise ValueError("weight_critical is 0; it must be 1 or more, or no error counts")
        return self

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each severity, the mildest first."""
        return {name: getattr(self, f"weight_{name}") for name in SEVERITIES}

    @property
    def lowest(self) -> int:
        """The lowest score that a reply can get."""
        return -self.n_errors_most * self.weight_critical
