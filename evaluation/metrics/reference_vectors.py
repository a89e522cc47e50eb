"""How like a reply is to what a person replied, by the vectors of their words: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system", against a reference. Published tables have word2vec or GloVe,
which `metrics.yaml` names by their file; without one the vectors are those of `word_coherence`, distilled from the sentence
encoder. Words without a vector are skipped; with none left on a side the score is 0 by definition, and that is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.encoders.vectors import FileVectors
from chatbots.encoders.word_similarity import KINDS, pair_similarities
from chatbots.encoders.words import word_vectors
from chatbots.outside import Values
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.registry import register_metric
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.shared import Shared
from evaluation.metrics.tokens import TOKENIZER, tokens_of
from evaluation.metrics.word_coherence import ROWS

NO_WORD = "scored 0, as no word of the reply or none of the reference has a vector"
_FORMULAS = {
    "average": "Cosine of the mean word vectors",
    "extrema": "Cosine of the vectors that have, in each dimension, the value of greatest size",
    "greedy": "Each word's best cosine on the other side, averaged over words, then over both directions",
}


class EmbeddingMatchOptions(Values):
    """What an entry of `metrics.yaml` may say of it."""

    path: str = Field(
        min_length=1,
        description="a file of word2vec (.bin), GloVe (.txt) or fastText (.vec), unpacked",
    )
    rows: int = Field(ROWS, ge=1, description="how many of its most frequent words are used")


@register_metric
class EmbeddingMatch(ReplyMetric, ConfiguredMetric):
    """Embedding average, extrema and greedy matching of a reply and one reference; on request."""

    kind = "embedding_match"
    version = "2"  # 0 where a side has no word with a vector
    usual_title = "Embedding match"
    options_type = EmbeddingMatchOptions
    options: EmbeddingMatchOptions | None
    default = False
    needs_reference = True
    window = 0
    needs = ("a reference",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self._file = FileVectors(self.options.path) if self.options else None
        if self._file is None:
            self.languages = ("en",)
            self.licence = "Apache-2.0 (MiniLM, of which the vectors are made)"
        else:
            self.licence = CHOSEN_LICENCE
        own = self.name != self.kind
        self._prefix = self.name if own else "embedding"
        self.columns = tuple(
            column
            for kind, formula in _FORMULAS.items()
            for column in per_turn(
                f"{self._prefix}_{kind}",
                f"{self.title}, {kind}" if own else f"Embedding {kind}",
                unit="cosine",
                range=(-1, 1),
                direction="higher",
                description=f"{formula}, of the reply and the reference; 0 where a side has no known word. Needs a "
                "reference.",
            )
        )

    @property
    def params(self) -> dict[str, Any]:
        if self._file is None:
            return {"vectors": word_vectors().identity.as_dict(), "tokenizer": TOKENIZER}
        here = self._file.identity.as_dict() if self.unavailable_reason() is None else None
        rows = self.options.rows if self.options else ROWS
        return {"vectors": here, "rows": rows, "tokenizer": TOKENIZER}

    def unavailable_reason(self) -> str | None:
        return (self._file or word_vectors()).unavailable_reason()

    def remarks(self, scores: Mapping[str, np.ndarray]) -> dict[str, int]:
        n = int((next(iter(scores.values())) == 0).sum())
        return {NO_WORD: n} if n else {}

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        pairs = [(reply.response, reply.reference or "") for reply in replies]
        rows = self.options.rows if self.options else ROWS
        vectors = self._file.table(first=rows) if self._file else word_vectors()
        found = np.nan_to_num(pair_similarities(pairs, vectors, tokens_of(shared)), nan=0.0)
        return {f"{self._prefix}_{kind}": found[:, KINDS.index(kind)] for kind in _FORMULAS}
