"""A trained participant: a network that predicts human messages, with reversed roles.

It is a checkpoint trained like a bot. In human dialogues both sides are human, so such a model can also write the human
side of a chat (`chatbots/training/configs/participant.yaml`).
"""

from __future__ import annotations

from chatbots.bots.base import Bot
from chatbots.participants.base import Move, ParticipantTurn, register_participant
from chatbots.participants.prompted import BotDrivenParticipant
from chatbots.participants.scripted import everyday_messages


@register_participant
class TrainedParticipant(BotDrivenParticipant):
    """Participant whose messages a checkpoint bot writes."""

    name = "trained"
    title = "Trained"
    description = "A network trained to predict human messages in conversations."

    def refusal(self, bot: Bot) -> str | None:
        return None if bot.kind == "checkpoint" else f"{bot.name} is not a checkpoint trained with `train_bot`"

    def opening(self, turn: ParticipantTurn) -> Move | None:
        """Return the first message of the sampled chat or the everyday corpus.

        The model has only learned to reply.
        """
        if turn.conversation.turns or turn.sampled_chat is not None:
            return super().opening(turn)
        return Move(everyday_messages()[turn.seed % len(everyday_messages())][0])
