"""Similarity of a reply to a person's reply by word vectors: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system", against a reference. Published tables have word2vec or
GloVe, which `metrics.yaml` names by their file; without one the vectors are those of `word_coherence`, distilled from
the sentence encoder. With `encoder` they are those of its tokens, each in its text, as Dziri et al. (2019) have
ELMo's and BERT's. Words without a vector are skipped; with none left on a side the score is 0 by definition, and that
is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from chatbots.encoders.vectors import FileVectors
from chatbots.encoders.word_similarity import (
    KINDS,
    TextWords,
    pair_similarities,
    word_similarity,
)
from chatbots.encoders.words import word_vectors
from chatbots.outside import Values
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.bert_score import TokenVectors
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
    """Options of an entry of `metrics.yaml`."""

    path: str = Field(
        "", description="a file of word2vec (.bin), GloVe (.txt) or fastText (.vec), unpacked"
    )
    rows: int = Field(ROWS, ge=1, description="how many of its most frequent words are used")
    encoder: str = Field(
        "",
        description="or an encoder, whose tokens stand for the words: a transformers folder, or a hub id that was "
        "downloaded before",
    )
    layer: int = Field(0, ge=0, description="whose output is taken, from 1; 0: the last one's")

    @model_validator(mode="after")
    def _one_is_named(self) -> EmbeddingMatchOptions:
        if bool(self.path) == bool(self.encoder):
            raise ValueError("path or encoder must be named, and not both")
        return self


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
        chosen = self.options
        self._file = FileVectors(chosen.path) if chosen and chosen.path else None
        self._tokens = (
            TokenVectors(chosen.encoder, chosen.layer) if chosen and chosen.encoder else None
        )
        if chosen is None:
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
        if self._tokens is not None:
            return {"vectors": self._tokens.identity_params}
        if self._file is None:
            return {"vectors": word_vectors().identity.as_dict(), "tokenizer": TOKENIZER}
        here = self._file.identity.as_dict() if self.unavailable_reason() is None else None
        rows = self.options.rows if self.options else ROWS
        return {"vectors": here, "rows": rows, "tokenizer": TOKENIZER}

    def unavailable_reason(self) -> str | None:
        return (self._tokens or self._file or word_vectors()).unavailable_reason()

    def remarks(self, scores: Mapping[str, np.ndarray]) -> dict[str, int]:
        n = int((next(iter(scores.values())) == 0).sum())
        return {NO_WORD: n} if n else {}

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        pairs = [(reply.response, reply.reference or "") for reply in replies]
        if self._tokens is not None:
            return self._named(_of_tokens(pairs, self._tokens.on(shared.device)))
        rows = self.options.rows if self.options else ROWS
        vectors = self._file.table(first=rows) if self._file else word_vectors()
        return self._named(pair_similarities(pairs, vectors, tokens_of(shared)))

    def _named(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of (N, 4) values in the order of `KINDS`, 0 where undefined."""
        found = np.nan_to_num(values, nan=0.0)
        return {f"{self._prefix}_{kind}": found[:, KINDS.index(kind)] for kind in _FORMULAS}


def _of_tokens(pairs: Sequence[tuple[str, str]], tokens: TokenVectors) -> np.ndarray:
    """Return the (N, 4) measures of pairs by the vectors of an encoder's tokens, marks at the ends left out."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    words = {
        text: TextWords.of(vectors[own])
        for text, (vectors, own) in zip(texts, tokens.vectors(texts, unit=False), strict=True)
    }
    return np.array([astuple(word_similarity(words[one], words[other])) for one, other in pairs])
