"""Single replies that people rated, in the form in which chats are compared.

A reply takes the place of a chat, and the length of the chat is that of the reply and its context. With at least five
bots, each bot is predicted without its own ratings, as from chats. With fewer, there is no order of bots to test;
values and savings are then predicted without all replies to the same contexts, in ten folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from chatbots import Conversation
from chatbots.corpora.vocabulary import tokenise
from evaluation.agreement.judges.gold import GoldSet
from evaluation.findings import Reason
from evaluation.stats.gls import label_codes

if TYPE_CHECKING:
    import pandas as pd

N_FOLDS, FEWEST_FOLDS = 10, 3
FEW_CONTEXTS = Reason("few_contexts", "its replies answer fewer than three contexts, so none can be left out")
UNNAMED = "(no model named)"


def reply_table(gold: GoldSet, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return a row per reply of a gold set, with the columns that rivals need.

    Args:
        names: names of the replies by their key in the gold set, if they have others in the ratings.
    """
    import pandas as pd

    replies = [text for text in gold.texts if not isinstance(text, Conversation)]
    words = [float(len(tokenise(reply.response))) for reply in replies]
    return pd.DataFrame(
        {
            "conversation": [key if names is None else names[key] for key in gold.keys],
            "bot": [model or UNNAMED for model in gold.models],
            "context": list(gold.contexts),
            "n_turns": [len(reply.context) + 1.0 for reply in replies],
            "words_user": words,
            "words_bot": words,
            "question_bot": [float("?" in reply.response) for reply in replies],
        }
    )


def fold_by_context(replies: pd.DataFrame) -> pd.DataFrame:
    """Return the replies with ten groups of contexts in place of the bots."""
    return replies.assign(bot=[f"fold {code % N_FOLDS}" for code in label_codes(replies["context"].to_numpy())])


def contexts_of(replies: pd.DataFrame, names: np.ndarray) -> np.ndarray:
    """Return the (k,) contexts of replies by name; an unknown reply is its own context."""
    contexts = dict(zip(replies["conversation"].astype(str), replies["context"], strict=True))
    return np.array([contexts.get(name, name) for name in names.tolist()], dtype=object)
