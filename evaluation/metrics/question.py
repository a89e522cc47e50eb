"""Question score of the bot: does it ask (Ghandeharioun et al. 2019, fact sheet section 1.5)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from typing import Any

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared

QUESTION_WORDS = frozenset({"who", "what", "why", "where", "how", "when"})


def question_score(text: str, tokens: Iterable[str]) -> float:
    """Half a point for a question mark, half for a question word.

    Args:
        text: the utterance.
        tokens: the word tokens of the lower-cased utterance.

    Returns:
        0, 0.5 or 1.
    """
    return 0.5 * ("?" in text) + 0.5 * (not QUESTION_WORDS.isdisjoint(tokens))


@register_metric
class Question(MetricDefaults):
    """Question Score -B."""

    name = "question"
    title = "Question score"
    columns = per_turn(
        "question_bot",
        "Question score, bot",
        unit="1",
        range=(0, 1),
        direction="neither",
        description="0.5 if the bot's turn has a question mark, plus 0.5 if one of its words is who, what, "
        "why, where, how or when (Question Score -B). A blank turn asks nothing: 0.",
    )

    @property
    def params(self) -> dict[str, Any]:
        return {"tokenizer": f"NLTKWordTokenizer {metadata.version('nltk')}"}

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        scores = [question_score(t, shared.tokens(t.lower())) for t in layout.texts_at(layout.bot)]
        return Measured(turns={"question_bot": layout.spread(layout.bot, scores)})
