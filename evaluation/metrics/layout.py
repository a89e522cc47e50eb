"""Turns and turn pairs behind -U, -B and -U/B, over a flat batch.

Human-bot conversations (Ghandeharioun et al. 2019; fact sheet section 0):

- -B: every bot turn.
- -U: every human turn after a bot turn, because it answers the bot. Messages before the bot's first turn do not answer
  anything and are excluded from -U means.
- -U/B: (message, reply). If a speaker writes several turns in a row, the **last** one is used; the value is stored at
  the reply.
- transitions: (message before, message after) a run of bot turns, using the last message of each run; the value is
  stored at the later one.
- answers, -B/U: (the bot's turn, the participant's answer), using the last turn of each run; the value is stored at the
  answer.

Self-play: m_1 … m_T of one bot. Each column is computed on the bot's next utterance, so -B and -U cover m_2 … m_T, and
all pairs are (m_t, m_{t+1}), stored at t+1; no column describes m_1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chatbots import Conversation
from chatbots.text import quote, sanitise

LAYOUT_VERSION = 1
"""Version of these rules, part of every metric's identity; increase it when they change."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Turns of C conversations in one flat sequence, N in total.

    All indices are flat, 0 … N−1.

    Attributes:
        texts: the N utterances.
        conversation_of: (N,) conversation of each turn, 0 … C−1.
        turn_of: (N,) index of each turn within its conversation.
        bot: (K,) turns of -B.
        user: (K,) turns of -U.
        exchanges: (K, 2) message and reply of -U/B.
        transitions: (K, 2) the user's message before and after the bot's.
        answers: (K, 2) the bot's turn and the user's answer to it.
        said: (K,) all utterances of the bot: `bot`, and in self-play also the first utterance.
        self_play: True if both speakers are the same bot.
    """

    conversations: tuple[Conversation, ...]
    texts: list[str]
    conversation_of: np.ndarray
    turn_of: np.ndarray
    bot: np.ndarray
    user: np.ndarray
    exchanges: np.ndarray
    transitions: np.ndarray
    answers: np.ndarray
    said: np.ndarray
    self_play: bool

    @classmethod
    def of(cls, conversations: Sequence[Conversation], *, self_play: bool = False) -> Layout:
        """Lay out a batch.

        Raises:
            ValueError: if two conversations have the same id, which a table could not distinguish.
        """
        seen: set[str] = set()
        texts: list[str] = []
        owner: list[int] = []
        position: list[int] = []
        bot: list[int] = []
        user: list[int] = []
        exchanges: list[tuple[int, int]] = []
        transitions: list[tuple[int, int]] = []
        answers: list[tuple[int, int]] = []
        for number, conversation in enumerate(conversations):
            if conversation.id in seen:
                raise ValueError(f"two conversations have the id {quote(conversation.id)}; ids must be unique")
            seen.add(conversation.id)
            start = len(texts)
            n_turns = len(conversation.turns)
            # Tokenizers reject half a surrogate pair (a truncated emoji, valid in JSON).
            texts.extend(sanitise(text) for text in conversation.texts)
            owner.extend([number] * n_turns)
            position.extend(range(n_turns))
            if self_play:
                following = range(start + 1, start + n_turns)
                bot.extend(following)
                user.extend(following)
                steps = [(i - 1, i) for i in following]
                exchanges.extend(steps)
                transitions.extend(steps)
                answers.extend(steps)
                continue
            answered = False  # True once the bot has spoken
            for i, turn in enumerate(conversation.turns):
                if turn.speaker == "bot":
                    bot.append(start + i)
                    answered = True
                elif answered:
                    user.append(start + i)
            ends = run_ends(conversation)
            for before, after in pairwise(ends):
                if conversation.turns[after].speaker == "bot":
                    exchanges.append((start + before, start + after))
                else:
                    answers.append((start + before, start + after))
            for before, after in zip(ends, ends[2:], strict=False):
                if conversation.turns[after].speaker == "human":
                    transitions.append((start + before, start + after))
        return cls(
            conversations=tuple(conversations),
            texts=texts,
            conversation_of=np.array(owner, dtype=int),
            turn_of=np.array(position, dtype=int),
            bot=np.array(bot, dtype=int),
            user=np.array(user, dtype=int),
            exchanges=np.array(exchanges, dtype=int).reshape(-1, 2),
            transitions=np.array(transitions, dtype=int).reshape(-1, 2),
            answers=np.array(answers, dtype=int).reshape(-1, 2),
            said=np.arange(len(texts)) if self_play else np.array(bot, dtype=int),
            self_play=self_play,
        )

    def texts_at(self, turns: np.ndarray) -> list[str]:
        """Return the utterances at these flat indices."""
        return [self.texts[i] for i in turns]

    def by_conversation(self, turns: np.ndarray) -> list[np.ndarray]:
        """Split the ordered turns (K,) into C parts, one per conversation."""
        first = np.arange(1, len(self.conversations))
        parts = np.split(turns, np.searchsorted(self.conversation_of[turns], first))
        return parts[: len(self.conversations)]  # np.split returns one empty part even for zero conversations

    def spread(self, turns: np.ndarray, values: np.ndarray | Sequence[float]) -> np.ndarray:
        """Return values at these turns and NaN elsewhere, (N,)."""
        spread = np.full(len(self.texts), np.nan)
        spread[turns] = values
        return spread

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Average (N,) values over each conversation's defined turns: (C,).

        NaN if none is defined.
        """
        n = len(self.conversations)
        defined = ~np.isnan(values)
        owner = self.conversation_of[defined]
        count = np.bincount(owner, minlength=n)
        total = np.bincount(owner, weights=values[defined], minlength=n)
        return np.divide(total, count, out=np.full(n, np.nan), where=count > 0)


def run_ends(conversation: Conversation) -> list[int]:
    """Return the indices of the last turn of each speaker's run."""
    turns = conversation.turns
    return [i for i, turn in enumerate(turns) if i + 1 == len(turns) or turns[i + 1].speaker != turn.speaker]
