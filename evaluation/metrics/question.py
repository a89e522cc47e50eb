"""Question score: does an utterance ask (Ghandeharioun et al. 2019, fact sheet section 1.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.content_words import QUESTION_WORDS
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared
from evaluation.metrics.tokens import TOKENIZER, lower_tokens


def question_score(text: str, tokens: Iterable[str]) -> float:
    """Give half a point for a question mark and half a point for a question word.

    Args:
        text: the utterance.
        tokens: the word tokens of the lower-cased utterance.

    Returns:
        0, 0.5 or 1.
    """
    return 0.5 * ("?" in text) + 0.5 * (not QUESTION_WORDS.isdisjoint(tokens))


@register_metric
class Question(MetricDefaults):
    """Question Score -B and -U."""

    name = "question"
    languages = ("en",)
    title = "Question score"
    version = "2"
    columns = (
        *per_turn(
            "question_bot",
            "Question score, bot",
            unit="1",
            range=(0, 1),
            direction="neither",
            description="0.5 if the bot's turn has a question mark, plus 0.5 if one of its words is who, "
            "what, why, where, how or when (Question Score -B). A blank turn asks nothing: 0.",
        ),
        *per_turn(
            "question_user",
            "Question score, participant",
            unit="1",
            range=(0, 1),
            direction="neither",
            description="The same of a participant's answer to the bot (Question Score -U).",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        return {"tokenizer": TOKENIZER}

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        def score(turns: np.ndarray) -> np.ndarray:
            texts = layout.texts_at(turns)
            return layout.spread(
                turns, list(map(question_score, texts, lower_tokens(texts, shared)))
            )

        return Measured(
            turns={"question_bot": score(layout.bot), "question_user": score(layout.user)}
        )
