"""Replayed participant, the trivial baseline: replays another chat's messages without reacting."""

from __future__ import annotations

from collections.abc import Sequence

from chatbots.participants.base import Move, ParticipantTurn, SimulatedParticipant, register_participant


@register_participant
class ReplayedParticipant(SimulatedParticipant):
    """Participant that replays a person's messages and votes in order."""

    name = "replayed"
    title = "Replayed"
    description = "Repeats a person's messages from a chat with another bot, regardless of the replies."
    capacity = 4096
    needs_people = True
    votes = True

    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return the sampled chat's next message; the participant leaves after the last."""
        return [self._move(turn) for turn in turns]

    def _move(self, turn: ParticipantTurn) -> Move:
        chat, number = turn.sampled_chat, turn.number
        if chat is None:
            return Move(error=f"there is no human chat with a bot other than {turn.bot}")
        vote = chat.vote_before(number)
        if number >= len(chat.messages):
            return Move(vote=vote)
        return Move(chat.messages[number], vote=vote, source=chat.conversation.id)
