"""Settings of a study in which participants label single replies of conversations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from django.utils.translation import gettext as _
from pydantic import Field

from chatbots import derive_seed
from chatbots.outside import Values
from webapp.studies.questions import Question


class Marking(Values):
    """Settings for labelling replies of stored conversations."""

    conversations_of: str = Field(
        default="",
        max_length=60,
        title="Conversations of the study",
        description="Key of the study whose completed conversations are marked; empty: those of this one, as an "
        "import brought them.",
    )
    conversations_run: int | None = Field(
        default=None,
        ge=1,
        title="Conversations of the self-play run",
        description="Number of the run whose conversations are marked, in place of a study's; empty: none.",
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


class OwnMarking(Values):
    """Settings for labelling the replies of the participant's own chat."""

    marked_when: Literal["after", "during"] = Field(
        default="after",
        title="Replies are marked",
        description="While they chat people may go on without marking; what is left is asked after the chat.",
        json_schema_extra={"choices": {"after": "After the chat", "during": "While they chat"}},
    )
    n_own_marked: int = Field(
        default=0,
        ge=0,
        le=200,
        title="Replies of a chat",
        description="So many are drawn to be marked: of the whole chat, or, while they chat, of as many replies as "
        "the shortest chat has. 0: all of them.",
    )

    def asked_while_chatting(self, n_least: int, seed: int, chat: str) -> list[int] | None:
        """Return the numbers of the turns that are labelled during the chat; None: those of all replies.

        Args:
            n_least: replies that every chat has. The participant writes first, so replies have odd numbers.
            seed: the study's seed; chat: id of the chat. Equal arguments give equal turns.
        """
        if self.marked_when == "after":
            return []
        if not self.n_own_marked:
            return None
        return self._drawn(range(1, 2 * n_least, 2), seed, chat)

    def chosen(self, replies: Sequence[int], n_least: int, seed: int, chat: str) -> list[int]:
        """Return the turns of the replies that are labelled, for a chat that has ended.

        Args:
            n_least, seed, chat: as `asked_while_chatting`.
        """
        if self.marked_when == "during":
            wanted = self.asked_while_chatting(n_least, seed, chat)
            return [turn for turn in replies if wanted is None or turn in wanted]
        return self._drawn(replies, seed, chat) if self.n_own_marked else list(replies)

    def _drawn(self, replies: Sequence[int], seed: int, chat: str) -> list[int]:
        rng = random.Random(derive_seed(seed, "own replies", chat))
        return sorted(rng.sample(list(replies), min(self.n_own_marked, len(replies))))

    def errors(self, after: Sequence[Question]) -> dict[str, str]:
        """Return an error message for a question that cannot be asked during the chat, by the value's name."""
        others = [question for question in after if not question.is_rated]
        if self.marked_when == "after" or not others:
            return {}
        words = _(
            "While people chat they mark replies and answer nothing else; take out “%(title)s”."
        )
        return {"after": words % {"title": others[0].title}}
