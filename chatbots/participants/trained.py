"""A trained participant: a network that learned what people write next, with the roles reversed.

A checkpoint of the engine that trains bots. In dialogues of two people both sides are people's, so that a model of
them writes a person's side as well (`chatbots/training/configs/participant.yaml`).
"""

from __future__ import annotations

from chatbots.bots.base import Bot
from chatbots.participants.base import Move, ParticipantTurn, register_participant
from chatbots.participants.prompted import BotDrivenParticipant
from chatbots.participants.scripted import everyday_messages


@register_participant
class TrainedParticipant(BotDrivenParticipant):
    """A checkpoint bot that writes the person's side."""

    name = "trained"
    title = "Trained"
    description = "A network trained on what people write in conversations."

    def refusal(self, bot: Bot) -> str | None:
        return None if bot.kind == "checkpoint" else f"{bot.name} is no checkpoint that was trained with `train_bot`"

    def opening(self, turn: ParticipantTurn) -> Move | None:
        """Open with the everyday corpus where no person's message was drawn: the model has learned answers alone."""
        if turn.conversation.turns or turn.sampled_chat is not None:
            return super().opening(turn)
        return Move(everyday_messages()[turn.seed % len(everyday_messages())][0])
