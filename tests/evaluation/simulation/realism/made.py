"""Chats made by hand or by chance, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chatbots import Conversation, Turn
from evaluation.metrics.text_cache import TextCache
from evaluation.simulation.realism.chats import QUANTITIES, Chat, ChatTurns

WORDS = [f"{first}{second}" for first in ("ba", "de", "fi", "go", "lu") for second in ("m", "n", "r", "s", "t", "k")]


def chat(name: str, bot: str, *texts: str) -> Chat:
    """Return a chat in which human and bot take turns, the human first."""
    turns = tuple(Turn("bot" if place % 2 else "human", text) for place, text in enumerate(texts))
    return bot, Conversation(name, turns)


def turns_of(
    values: np.ndarray,
    chats: np.ndarray,
    bots: Sequence[str],
    *,
    vectors: np.ndarray | None = None,
    texts: Sequence[str] | None = None,
    side: str = "p",
    persons: Sequence[str] | None = None,
) -> ChatTurns:
    """Return turns whose quantities all have these values, without reading a text.

    Args:
        values: (T,); chats: (T,) number of the chat of each; bots: (C,) of the chats.
    """
    n = len(values)
    said = [f"{side} {row}" for row in range(n)] if texts is None else list(texts)
    vectors = np.zeros((n, 2)) if vectors is None else vectors
    conversations = [
        Conversation(f"{side}{number}", (Turn("bot", f"{side} says {number}"), Turn("human", "…")))
        for number in range(len(bots))
    ]
    return ChatTurns(
        chats=tuple(conversations),
        bots=np.array(bots, dtype=object),
        persons=np.array([""] * len(bots) if persons is None else persons, dtype=object),
        chat=chats,
        turn=np.arange(n),
        texts=said,
        before=[""] * n,
        vectors=vectors,
        before_vectors=np.ones_like(vectors),
        values=dict.fromkeys(QUANTITIES, values.astype(float)),
        log_turns=np.log(np.bincount(chats, minlength=len(bots)).clip(1)),
    )


def read(*chats: Chat) -> ChatTurns:
    """Read chats with a cache of their own."""
    return ChatTurns.from_chats(chats, TextCache())


def random_side(
    rng: np.random.Generator, *, n_bots: int = 4, n_chats: int = 20, n_turns: int = 6, shift: float = 0.0, side: str
) -> ChatTurns:
    """Return chats of each bot, whose turns have normal values and vectors; a shift moves all of them.

    Chats differ from one another as well as turns within them, so that chats are the unit.
    """
    bots = [f"b{number}" for number in range(n_bots) for _ in range(n_chats)]
    chats = np.repeat(np.arange(len(bots)), n_turns)
    own = rng.normal(size=(len(bots), 4))[chats] + rng.normal(size=(len(chats), 4)) + shift
    return turns_of(own[:, 0], chats, bots, vectors=own, side=side)


def person_side(
    rng: np.random.Generator, *, n_persons: int = 20, n_bots: int = 4, n_turns: int = 3, shift: float = 0.0, side: str
) -> ChatTurns:
    """Return chats of persons with every bot; persons differ more than their chats and turns do."""
    bots = [f"b{number}" for number in range(n_bots)] * n_persons
    persons = np.repeat(np.arange(n_persons), n_bots)
    chats = np.repeat(np.arange(len(bots)), n_turns)
    own = 1.5 * rng.normal(size=(n_persons, 8))[persons][chats] + rng.normal(size=(len(chats), 8)) + shift
    return turns_of(own[:, 0], chats, bots, vectors=own, side=side, persons=[f"{side}{k}" for k in persons])
