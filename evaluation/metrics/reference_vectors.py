"""How like a reply is to what a person replied, by the vectors of their words: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system", against a reference; the vectors are those of
`word_coherence`, distilled from the sentence encoder, where published tables have word2vec or GloVe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chatbots.encoders.word_similarity import KINDS, pair_similarities
from chatbots.encoders.words import WordVectors, word_vectors
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.shared import Shared
from evaluation.metrics.tokens import TOKENIZER, tokens_of

_FORMULAS = {
    "average": "Cosine of the mean word vectors",
    "extrema": "Cosine of the vectors that have, in each dimension, the value of greatest size",
    "greedy": "Each word's best cosine on the other side, averaged over words, then over both directions",
}


@register_metric
class EmbeddingMatch(ReplyMetric):
    """Embedding average, extrema and greedy matching of a reply and one reference; on request."""

    name = "embedding_match"
    title = "Embedding match"
    columns = tuple(
        column
        for kind, formula in _FORMULAS.items()
        for column in per_turn(
            f"embedding_{kind}",
            f"Embedding {kind}",
            unit="cosine",
            range=(-1, 1),
            direction="higher",
            description=f"{formula}, of the reply and the reference. Needs a reference; undefined where a side has no "
            "known word.",
        )
    )
    needs_reference = True
    window = 0
    languages = ("en",)
    needs = ("a reference",)
    licence = "Apache-2.0 (MiniLM, of which the vectors are made)"

    @property
    def params(self) -> dict[str, Any]:
        return {"vectors": self._vectors.identity.as_dict(), "tokenizer": TOKENIZER}

    @property
    def _vectors(self) -> WordVectors:
        return word_vectors()

    def unavailable_reason(self) -> str | None:
        return self._vectors.unavailable_reason()

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        pairs = [(reply.response, reply.reference or "") for reply in replies]
        found = pair_similarities(pairs, self._vectors, tokens_of(shared))
        return {f"embedding_{kind}": found[:, KINDS.index(kind)] for kind in _FORMULAS}
