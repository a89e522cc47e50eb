"""Diversity of a speaker's words: distinct-1 and distinct-2.

Li et al. (2016), "A Diversity-Promoting Objective Function for Neural Conversation Models", NAACL: the
share of different words, or pairs of neighbouring words, among all of them, here over one conversation.
It falls as texts grow longer, so bots should be compared at like lengths (`length`, `words`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.columns import Column
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared
from evaluation.metrics.tokens import TOKENIZER, lower_tokens


def distinct(utterances: Iterable[Sequence[str]]) -> tuple[float, float]:
    """Compute distinct-1 and distinct-2 of several utterances together; pairs do not cross their borders.

    distinct-n is the number of different n-grams divided by the number of all n-grams (Li et al. 2016).

    Args:
        utterances: the tokens of each.

    Returns:
        Two shares in (0, 1], NaN without a word or a pair.
    """
    utterances = list(utterances)
    words = [token for tokens in utterances for token in tokens]
    pairs = [pair for tokens in utterances for pair in pairwise(tokens)]
    return (
        len(set(words)) / len(words) if words else float("nan"),
        len(set(pairs)) / len(pairs) if pairs else float("nan"),
    )


def _columns(speaker: str, whose: str) -> tuple[Column, ...]:
    return tuple(
        Column(
            f"distinct_{n}_{speaker}",
            "conversation",
            f"Distinct-{n}, {whose}",
            "share",
            (0, 1),
            "neither",
            f"Different {what} among all {what} of the {whose}'s turns, whatever their case. It falls as "
            "texts grow longer.",
        )
        for n, what in ((1, "words"), (2, "pairs of neighbouring words"))
    )


@register_metric
class Distinct(MetricDefaults):
    """distinct-1 and distinct-2 of both sides, over a conversation."""

    name = "distinct"
    languages = ()
    title = "Distinct words"
    columns = (*_columns("bot", "bot"), *_columns("user", "participant"))

    @property
    def params(self) -> dict[str, Any]:
        return {"tokenizer": TOKENIZER}

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        values: dict[str, np.ndarray] = {}
        reasons: dict[str, tuple[str, ...]] = {}
        for speaker, turns in (("bot", layout.bot), ("user", layout.user)):
            found = np.array(
                [
                    distinct(lower_tokens(layout.texts_at(own), shared))
                    for own in layout.by_conversation(turns)
                ]
            ).reshape(-1, 2)
            for n, what in ((1, "word"), (2, "pair of neighbouring words")):
                column = f"distinct_{n}_{speaker}"
                values[column] = found[:, n - 1]
                reasons[column] = missing(found[:, n - 1], f"no {what}")
        return Measured(turns={}, conversations=values, reasons=reasons)
