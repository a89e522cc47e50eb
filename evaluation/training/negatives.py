"""False replies to learn from: like the true one in its words, in its vector, or in nothing (GRADE, fact sheet
section 2).

All draw from the replies of one part of the data, so that nothing of the test part is learnt. A draw depends on the
seed, the kind and the reply's place alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from chatbots.identity import derive_seed
from evaluation.training.bm25 import Bm25

MiddleRule = Literal["half", "lucene_buckets"]
_BUCKETS = (
    (500_000, 299_995), (100_000, 69_995), (50_000, 29_995), (10_000, 6_995), (1_000, 695), (500, 195), (200, 95),
    (100, 45), (50, 15), (20, 10),
)  # fmt: skip
"""More hits than the first number: the rank, from 0, that the released code takes."""
N_CANDIDATES, N_NEAREST = 1000, 5
LEAST_HITS = 3


def lexical_negatives(
    replies: Sequence[str],
    seed: int,
    *,
    middle_rule: MiddleRule = "half",
    k1: float = 1.2,
    b: float = 0.75,
) -> list[str]:
    """Return for each reply one from the middle of what BM25 finds for it among all.

    Args:
        middle_rule: "half": the reply's own text is taken out, and index half the number of hits is taken, a random
            reply where fewer than 3 are left; "lucene_buckets": the released code's table, which gives the reply
            itself below 21 hits, and an empty text without any.
    """
    unique = list(dict.fromkeys(replies))
    index = Bm25(unique, k1=k1, b=b)
    found: dict[str, str | None] = {}
    for place, text in enumerate(unique):
        scores = index.scores(text)
        if middle_rule == "half":
            scores[place] = 0.0
        order = np.argsort(-scores, kind="stable")
        hits = order[: int((scores > 0).sum())]
        if middle_rule == "lucene_buckets":
            found[text] = unique[hits[_bucket(len(hits))]] if len(hits) else ""
        else:
            found[text] = unique[hits[len(hits) // 2]] if len(hits) >= LEAST_HITS else None
    drawn = random_negatives(replies, derive_seed(seed, "lexical"))
    chosen = [found[text] for text in replies]
    return [drawn[k] if one is None else one for k, one in enumerate(chosen)]


def embedding_negatives(replies: Sequence[str], vectors: np.ndarray, seed: int) -> list[str]:
    """Return for each reply one of the 5 whose vectors are most like its own among 1,000 drawn ones.

    Args:
        vectors: (N, D) of the replies, rows of length 1.
    """
    unique = list(dict.fromkeys(replies))
    place = {text: k for k, text in enumerate(unique)}
    first = {text: k for k, text in reversed(list(enumerate(replies)))}
    rows = vectors[[first[text] for text in unique]]
    n = min(N_CANDIDATES, len(unique) - 1)
    found = []
    for k, text in enumerate(replies):
        draw = np.random.default_rng(derive_seed(seed, "embedding", k))
        own = place[text]
        drawn = draw.choice(len(unique) - 1, size=n, replace=False)
        drawn = drawn + (drawn >= own)  # all but the reply itself
        near = drawn[np.argsort(-(rows[drawn] @ rows[own]), kind="stable")[:N_NEAREST]]
        found.append(unique[int(draw.choice(near))])
    return found


def random_negatives(replies: Sequence[str], seed: int) -> list[str]:
    """Return for each reply another one, drawn evenly among the different ones."""
    unique = list(dict.fromkeys(replies))
    if len(unique) < 2:
        raise ValueError(f"{len(unique)} different replies; two are needed for a false one")
    place = {text: k for k, text in enumerate(unique)}
    draw = np.random.default_rng(derive_seed(seed, "random"))
    drawn = draw.integers(len(unique) - 1, size=len(replies))
    return [unique[int(j + (j >= place[text]))] for j, text in zip(drawn, replies, strict=True)]


def _bucket(n_hits: int) -> int:
    return next((rank for least, rank in _BUCKETS if n_hits > least), 0)
