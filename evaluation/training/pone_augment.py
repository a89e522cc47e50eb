"""More responses that fit, for PONE (section 4): the true one changed a little, or a bot's reply.

Easy data augmentation (Wei and Zou 2019, "EDA", EMNLP) replaces words by synonyms, inserts synonyms, swaps words or
deletes some; one of the four is chosen for each copy. Synonyms are WordNet's (`synonyms.py`). Where none are at hand,
replacement falls away and what is inserted is a word of the response itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chatbots import Conversation
from chatbots.base import Bot
from chatbots.identity import derive_seed
from chatbots.serving import reply

Synonyms = Callable[[str], Sequence[str]]
Operation = Callable[[list[str], int, np.random.Generator, Synonyms | None], list[str]]
ALPHA = 0.1


def replace_words(
    words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None
) -> list[str]:
    """Replace up to n different words that have synonyms by one of them, wherever they stand."""
    assert synonyms is not None, "words can only be replaced by synonyms"
    changed = list(words)
    left = n
    for word in rng.permutation(sorted(set(words))).tolist():
        known = synonyms(word) if left else ()
        if known:
            other = str(rng.choice(list(known)))
            changed = [other if one == word else one for one in changed]
            left -= 1
    return changed


def insert_words(
    words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None
) -> list[str]:
    """Insert n synonyms of random words at random places; of a word without any, the word itself."""
    changed = list(words)
    for _ in range(n):
        word = words[rng.integers(len(words))]
        known = (synonyms(word) if synonyms else ()) or (word,)
        changed.insert(int(rng.integers(len(changed) + 1)), str(rng.choice(list(known))))
    return changed


def swap_words(
    words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None
) -> list[str]:
    """Swap two random words, n times."""
    changed = list(words)
    if len(changed) > 1:
        for _ in range(n):
            i, j = rng.choice(len(changed), size=2, replace=False)
            changed[i], changed[j] = changed[j], changed[i]
    return changed


def delete_words(
    words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None
) -> list[str]:
    """Delete each word with the probability n / words; one is left at least."""
    kept = [
        word for word, u in zip(words, rng.random(len(words)), strict=True) if u >= n / len(words)
    ]
    return kept or [words[rng.integers(len(words))]]


def augmented(
    text: str,
    k: int,
    rng: np.random.Generator,
    *,
    synonyms: Synonyms | None = None,
    alpha: float = ALPHA,
) -> list[str]:
    """Return up to k changed copies of a text, all different from it and one another.

    Args:
        synonyms: gives the synonyms of a word; None: there are none.
        alpha: share of the words that an operation changes, at least one.
    """
    operations: list[Operation] = [insert_words, swap_words, delete_words]
    if synonyms is not None:
        operations.insert(0, replace_words)
    words = text.split()
    if not words:
        return []
    n = max(1, round(alpha * len(words)))
    found: dict[str, None] = {}
    for _ in range(4 * k):  # short texts have few copies that differ
        if len(found) == k:
            break
        changed = " ".join(operations[rng.integers(len(operations))](words, n, rng, synonyms))
        if changed != " ".join(words):
            found[changed] = None
    return list(found)


def generated(
    bot: Bot, contexts: Sequence[Sequence[str]], k: int, *, seed: int = 0
) -> list[list[str]]:
    """Return up to k different replies of a bot to each context, all contexts at once.

    Args:
        bot: any; one that takes the likeliest word each time gives one reply to each context.
        seed: of its draws; the n-th reply to a context is drawn by a seed of its own.
    """
    found: list[dict[str, None]] = [{} for _ in contexts]
    for n in range(k):
        asked = [
            Conversation.from_texts(
                list(context),
                id=f"{number}",
                first="human" if len(context) % 2 else "bot",
                seed=derive_seed(seed, number, n),
            )
            for number, context in enumerate(contexts)
        ]
        for replies, one in zip(found, reply(bot, asked), strict=True):
            if one.text and one.text.strip():
                replies[one.text] = None
    return [list(replies) for replies in found]
