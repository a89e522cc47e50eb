"""Word coherence of a message and the bot's reply: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system", and Ghandeharioun et al. (2019), fact
sheet section 1.4; static word vectors distilled from the sentence encoder stand where the paper has
word2vec. Tokens without a vector are left out; with none left on a side the value is undefined (the
released code says 0).
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from chatbots.encoders.word_similarity import KINDS, pair_similarities
from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared


def _columns(kind: str, title: str, formula: str) -> tuple[Column, Column]:
    return per_turn(
        f"word_coherence_{kind}_user_bot",
        f"Word coherence ({title}), participant and bot",
        unit="cosine",
        range=(-1, 1),
        direction="neither",
        description=f"{formula} Words of a message and of the bot's reply by static word vectors; of a run "
        "of several turns the last is taken. Stored at the reply; undefined where a side has no known "
        "word. In self-play: of consecutive utterances.",
    )


@register_metric
class WordCoherence(MetricDefaults):
    """Average, Extrema and Greedy Word Coherence -U/B."""

    name = "word_coherence"
    title = "Word coherence"
    columns = (
        *_columns("average", "average", "Cosine of the mean word vectors."),
        *_columns(
            "extrema",
            "extrema",
            "Cosine of the vectors that have, in each dimension, the value of greatest size.",
        ),
        *_columns(
            "greedy",
            "greedy",
            "Each word's best cosine on the other side, averaged over words, then over both directions.",
        ),
        *_columns(
            "greedy_ref",
            "greedy, 2019 code",
            "Each word of the message: its best cosine in the reply, averaged (one direction only).",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.words import word_vectors

        return {
            "vectors": word_vectors().identity.as_dict(),
            "tokenizer": f"NLTKWordTokenizer {metadata.version('nltk')}",
        }

    def unavailable_reason(self) -> str | None:
        from chatbots.encoders.words import word_vectors

        return word_vectors().unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        from chatbots.encoders.words import word_vectors

        texts = layout.texts
        pairs = [(texts[message], texts[reply]) for message, reply in layout.exchanges.tolist()]
        values = pair_similarities(pairs, word_vectors(), shared.tokens)
        columns = [f"word_coherence_{kind}_user_bot" for kind in KINDS]
        reason = missing(values, "no word of a text has a vector")
        reply = layout.exchanges[:, 1]
        return Measured(
            turns={column: layout.spread(reply, values[:, k]) for k, column in enumerate(columns)},
            reasons=dict.fromkeys(columns, reason),
        )
