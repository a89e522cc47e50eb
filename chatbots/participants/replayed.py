"""A replayed participant, the trivial baseline: messages from another chat, without reactions."""

from __future__ import annotations

from collections.abc import Sequence

from chatbots.participants.base import Move, ParticipantTurn, SimulatedParticipant, register_participant


@register_participant
class ReplayedParticipant(SimulatedParticipant):
    """One person's messages and votes in a chat with another bot, in their order."""

    name = "replayed"
    title = "Replayed"
    description = "Repeats one person's messages of a chat with another bot, whatever the bot replies."
    capacity = 4096
    needs_people = True
    votes = True

    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        """Return the sampled chat's next message; the participant leaves after the last."""
        return [self._move(turn) for turn in turns]

    def _move(self, turn: ParticipantTurn) -> Move:
        chat, number = turn.sampled_chat, turn.number
        if chat is None:
            return Move(error=f"no person has chatted with another bot than {turn.bot}")
        vote = chat.vote_before(number)
        if number >= len(chat.messages):
            return Move(vote=vote)
        return Move(chat.messages[number], vote=vote, source=chat.conversation.id)
