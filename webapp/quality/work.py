"""Input of flags: the tasks of a study that ended with data, and the messages written in them.

All of it is read at once, in a few queries however much there is: nearly every flag compares one participant with
the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from webapp.conversations.models import Turn, Typing
from webapp.studies.models import Outcome, Study, Task

LOOKED_AT = (Outcome.RATED, Outcome.BOT_FAILED, Outcome.FAILED_CHECK)
"""Outcomes of tasks that leave data, or pay to decide about. Of the others nothing is asked."""
_CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Done:
    """A task that ended with data.

    Attributes:
        seconds: from its begin to its end.
    """

    pk: int
    participant: UUID
    submission: str
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Typed:
    """Typing counts of a message, as `conversations.models.Typing` has them."""

    keystrokes: int
    pastes: int
    deletions: int
    ms: int


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a participant to a bot.

    Attributes:
        answered: the bot's last reply before it; empty before its first reply.
        beside: the other bot's last reply, where one message goes to two.
        typed: its typing counts; None where they were not counted.
    """

    text: str
    answered: str = ""
    beside: str = ""
    typed: Typed | None = None


@dataclass(frozen=True)
class Work:
    """Work of a study's participants, without scripted ones.

    Participants from a data package are left out: their begin and their typing are not known.
    """

    study: Study

    @cached_property
    def done(self) -> list[Done]:
        """Return the tasks that ended with data, the oldest first."""
        rows = (
            Task.objects.filter(
                participant__study=self.study,
                participant__is_synthetic=False,
                outcome__in=LOOKED_AT,
                ended_at__isnull=False,
            )
            .exclude(participant__platform="import")
            .order_by("pk")
            .values_list("pk", "participant_id", "submission", "outcome", "created_at", "ended_at")
        )
        return [
            Done(pk, participant, submission, outcome, (ended - began).total_seconds())
            for pk, participant, submission, outcome, began, ended in rows.iterator(
                chunk_size=_CHUNK
            )
            if ended is not None
        ]

    @cached_property
    def messages(self) -> dict[int, list[Message]]:
        """Return by task what was written in it, in its order.

        Where one message goes to two bots, as in the arena, it is counted once.
        """
        found: dict[int, list[Message]] = {task.pk: [] for task in self.done}
        turns = (
            Turn.objects.filter(
                conversation__study=self.study,
                conversation__slot__task__outcome__in=LOOKED_AT,
                conversation__slot__task__participant__is_synthetic=False,
            )
            .order_by("conversation__slot__task", "conversation__slot__order", "index")
            .values_list(
                *("pk", "conversation__slot__task", "conversation__slot__order"),
                *("conversation__slot__side", "index", "speaker", "text"),
            )
        )
        said = ""
        places: dict[int, int] = {}  # of a chat's messages among those of its task, by their index
        pair: tuple[int, int] | None = None  # the task and the place of the chat that these are of
        for pk, task, order, side, index, speaker, text in turns.iterator(chunk_size=_CHUNK):
            is_bot = speaker == Turn.Speaker.BOT
            if task not in found:
                continue
            if side == "B":  # it comes after its A; what was written to both is counted there
                if is_bot and pair == (task, order - 1) and index + 1 in places:
                    at = places[index + 1]
                    found[task][at] = replace(found[task][at], beside=text)
                continue
            if pair != (task, order):
                pair, places, said = (task, order), {}, ""
            if is_bot:
                said = text
            else:
                places[index] = len(found[task])
                found[task].append(Message(text, said, typed=self._typed.get(pk)))
        return found

    @property
    def counts_typing(self) -> bool:
        """True if typing was counted for any message."""
        return bool(self._typed)

    @cached_property
    def _typed(self) -> dict[int, Typed]:
        rows = Typing.objects.filter(turn__conversation__study=self.study).values_list(
            "turn", "keystrokes", "pastes", "deletions", "ms"
        )
        return {turn: Typed(*counts) for turn, *counts in rows.iterator(chunk_size=_CHUNK)}
