"""Conversations that advance together, of self-play and of simulated participants."""

from __future__ import annotations

from collections.abc import Sequence

from chatbots import Conversation
from chatbots.bots.base import Bot
from chatbots.conversation import Speaker
from chatbots.endpoints.metering import PaidBot, ReplyCost


class RunningChats:
    """Conversations with the costs of their turns and the errors that ended them.

    Args:
        conversations: as they begin.
    """

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self.conversations = list(conversations)
        self.costs: list[dict[int, ReplyCost]] = [{} for _ in conversations]
        self.errors: list[str | None] = [None] * len(conversations)

    @property
    def unbroken(self) -> list[int]:
        """The numbers of the conversations without an error."""
        return [i for i, error in enumerate(self.errors) if error is None]

    def add_replies(
        self,
        bot: Bot,
        numbers: Sequence[int],
        contexts: Sequence[Conversation],
        speaker: Speaker,
        timeout_s: float | None,
    ) -> int:
        """Append a bot's reply to conversations; one that fails ends its conversation alone.

        Args:
            bot: loaded.
            numbers: of the conversations.
            contexts: what the bot sees of each.
            speaker: side of the bot.

        Returns:
            The number of replies.
        """
        from chatbots.serving import reply

        n_made = 0
        for i, context, answer in zip(numbers, contexts, reply(bot, contexts, timeout_s=timeout_s), strict=True):
            conversation = self.conversations[i]
            if isinstance(bot, PaidBot) and (cost := bot.cost_take(context)) is not None:
                self.costs[i][len(conversation.turns)] = cost
            if answer.text is None:
                self.errors[i] = answer.error or "the bot gave neither a reply nor an error"
                continue
            self.conversations[i] = conversation.with_turn(speaker, answer.text, trace=answer.trace)
            n_made += 1
        return n_made


def validate_run(seeds: Sequence[int], window: int | None) -> None:
    """Raise an error for a window below 1 or a seed given twice.

    Raises:
        ValueError: with the reason.
    """
    if window is not None and window < 1:
        raise ValueError(f"window is {window}; it must be at least 1, or None for all turns")
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise ValueError(f"seed {twice} is given twice: two conversations would be the same")
