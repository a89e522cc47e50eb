"""Sentence embeddings of a conversation, pooled: input of the preset `strong` in addition to the metrics.

The mean vector of the participant's answers to the bot and that of the bot's turns. Which turns those are,
in self-play too, is what the suffixes -U and -B mean (fact sheet section 0, `evaluation.metrics.layout`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from chatbots import Conversation
    from evaluation.metrics.layout import Layout
    from evaluation.metrics.shared import Shared

USER_BLOCK, BOT_BLOCK = "embedding_user", "embedding_bot"
BLOCKS = (USER_BLOCK, BOT_BLOCK)
BATCH = 128
_COLUMN = re.compile(r"(embedding_(?:user|bot))_\d{3,}")


def block_of(column: str) -> str | None:
    """Return the block that a column belongs to, or None for a feature of its own."""
    found = _COLUMN.fullmatch(column)
    return found[1] if found else None


def shown_names(columns: Sequence[str]) -> list[str]:
    """Return the columns with each block named once in place of its many columns."""
    return list(dict.fromkeys(block_of(column) or column for column in columns))


def block_columns(columns: Sequence[str], blocks: Sequence[str]) -> list[str]:
    """Return those of the columns that belong to these blocks."""
    return [column for column in columns if block_of(column) in blocks]


def pooled_embeddings(
    conversations: Sequence[Conversation],
    *,
    self_play: bool = False,
    shared: Shared | None = None,
    blocks: Sequence[str] = BLOCKS,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Compute the mean sentence vector of each speaker's turns.

    Args:
        conversations: with unique ids.
        self_play: both speakers are the bot; every block then describes its next utterances.
        shared: has the vectors of texts encoded before; no text is encoded twice.
        blocks: which speakers.
        progress: told after each batch how many conversations are done.

    Returns:
        `conversation` and a column per block and dimension, `embedding_user_000` …; NaN where the
        speaker has no turn.
    """
    import pandas as pd

    from evaluation.metrics.layout import Layout
    from evaluation.metrics.shared import Shared

    shared = shared or Shared()
    parts: list[np.ndarray] = []
    for start in range(0, len(conversations), BATCH):
        layout = Layout.of(conversations[start : start + BATCH], self_play=self_play)
        turns = {USER_BLOCK: layout.user, BOT_BLOCK: layout.bot}
        parts.append(np.concatenate([_means(layout, turns[b], shared) for b in blocks], axis=1))
        if progress is not None:
            progress(min(start + BATCH, len(conversations)))
    size = shared.encode([]).shape[1] if not parts else parts[0].shape[1] // max(len(blocks), 1)
    names = [f"{block}_{d:03}" for block in blocks for d in range(size)]
    values = np.concatenate(parts) if parts else np.zeros((0, len(names)))
    table = pd.DataFrame(values, columns=names)
    table.insert(0, "conversation", [conversation.id for conversation in conversations])
    return table


def _means(layout: Layout, turns: np.ndarray, shared: Shared) -> np.ndarray:
    """Return the (C, D) mean vector of these turns of each conversation, NaN where there is none."""
    vectors = shared.encode(layout.texts_at(turns))
    owner = layout.conversation_of[turns]
    n = len(layout.conversations)
    found = np.full((n, vectors.shape[1]), np.nan)
    count = np.bincount(owner, minlength=n)
    there = np.flatnonzero(count)
    if len(there):
        # Turns stand in the order of their conversations: one sum per stretch.
        starts = np.searchsorted(owner, there)
        found[there] = np.add.reduceat(vectors.astype(float), starts, axis=0) / count[there, None]
    return found
