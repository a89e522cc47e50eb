"""Semantic similarity and word coherence of a turn and its reply.

Similarity: Ghandeharioun et al. (2019), section 1.3. It is the cosine of sentence embeddings. The offline encoder is
MiniLM; the paper uses InferSent, and the released code uses the Universal Sentence Encoder for rewards (section 1.6).

Word coherence: average, extrema and greedy matching. Liu et al. (2016), "How NOT to evaluate your dialogue system", and
Ghandeharioun et al. (2019), fact sheet section 1.4. Static word vectors distilled from the sentence encoder replace the
paper's word2vec. Tokens without a vector are skipped; if none is left on a side, the value is undefined (the released
code returns 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from chatbots.encoders.word_vectors import SIMILARITY_KINDS, StaticWordVectors, pair_similarities
from chatbots.validation import InputModel
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric, Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import BLANK, TOKENIZER, TextCache, blank, tokens_of

if TYPE_CHECKING:
    from chatbots.encoders.published_files import VectorTable
    from chatbots.encoders.sentence import SentenceEncoder
    from chatbots.encoders.word_vectors import WordVectors


def similarity_columns(prefix: str, encoder_title: str = "") -> tuple[Column, ...]:
    """Return a sentence encoder's columns, with `encoder_title` appended to the titles.

    `encoder_title` is "" for the default encoder.
    """
    suffix = f" ({encoder_title})" if encoder_title else ""
    return (
        *per_turn(
            f"{prefix}_user_bot",
            f"Semantic similarity{suffix}, participant and bot",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description="Cosine of the sentence embeddings of a message and the bot's reply (Semantic Similarity "
            "-U/B). If a speaker writes several turns in a row, the last one is used. Stored at the "
            "reply; undefined if a text is blank. In self-play: for consecutive utterances.",
        ),
        *per_turn(
            f"{prefix}_bot_user",
            f"Semantic similarity{suffix}, bot and answer",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description="Cosine of the sentence embeddings of the bot's turn and the participant's answer to it, "
            "which shows whether the participant stays with the bot's topic. If a speaker writes "
            "several turns in a row, the last one is used. Stored at the answer. In self-play: for "
            "consecutive utterances.",
        ),
    )


class SimilarityFamily(MetricDefaults):
    """Semantic Similarity -U/B and -B/U by some sentence encoder."""

    prefix: str

    def encode(self, texts: Sequence[str], shared: TextCache) -> np.ndarray:
        """Return the texts' (N, D) vectors of length 1."""
        raise NotImplementedError

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        is_text = ~np.array([blank(text) for text in layout.texts], dtype=bool)
        turns, reasons = {}, {}
        for name, pairs in (("user_bot", layout.exchanges), ("bot_user", layout.answers)):
            defined = is_text[pairs].all(axis=1)
            values = np.full(len(pairs), np.nan)
            if defined.any():
                used, place = np.unique(pairs[defined], return_inverse=True)
                vectors = self.encode(layout.texts_at(used), shared)
                first, second = vectors[place.reshape(-1, 2)].transpose(1, 0, 2)  # (K, D) each
                # Rows have length 1, so the dot product is the cosine.
                dots = np.einsum("kd,kd->k", first, second, dtype=float)
                values[defined] = np.clip(dots, -1.0, 1.0)
            turns[f"{self.prefix}_{name}"] = layout.spread(pairs[:, 1], values)
            reasons[f"{self.prefix}_{name}"] = missing(values, BLANK)
        return Measured(turns, reasons=reasons)


@register_metric
class SemanticSimilarity(SimilarityFamily):
    """Semantic similarity by the default sentence encoder."""

    has_network = True
    licence = "Apache-2.0 (MiniLM)"
    name = "semantic_similarity"
    languages = ("en",)
    title = "Semantic similarity"
    version = "2"
    prefix = "semantic_similarity"
    columns = similarity_columns(prefix)

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.sentence import sentence_encoder

        return {"encoder": sentence_encoder().identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        from chatbots.encoders.sentence import sentence_encoder

        return sentence_encoder().unavailable_reason()

    def encode(self, texts: Sequence[str], shared: TextCache) -> np.ndarray:
        return shared.encode(texts)


class InferSentOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    weights: str = Field(min_length=1, description="`infersent1.pkl` or `infersent2.pkl`")
    vectors: str = Field(min_length=1, description="GloVe's file for version 1, fastText's for version 2")
    version: Literal[1, 2] = Field(1, description="1 or 2")
    device: str = Field("cpu", description="device to compute on")


@register_metric
class InferSentSimilarity(SimilarityFamily, ConfiguredMetric):
    """Semantic similarity by InferSent, as in the paper; on request.

    Args:
        encoder: any sentence encoder; replaces the options.
    """

    has_network = True
    needs = ("InferSent's weights", "GloVe or fastText vectors")
    licence = CHOSEN_LICENCE
    kind = "infersent"
    usual_title = "InferSent"
    languages = ("en",)
    options_type = InferSentOptions
    options: InferSentOptions | None

    def __init__(
        self, name: str = "", title: str = "", *, encoder: SentenceEncoder | None = None, **options: Any
    ) -> None:
        super().__init__(name, title, **options)
        self.prefix = self.name
        self.columns = similarity_columns(self.name, self.title)
        self.title = f"Semantic similarity by {self.title}"
        self._encoder = encoder
        if chosen := self.options:
            from chatbots.encoders.infersent import InferSentEncoder

            self._encoder = InferSentEncoder(chosen.weights, chosen.vectors, chosen.version, device=chosen.device)

    @property
    def params(self) -> dict[str, Any]:
        here = self._encoder if self.unavailable_reason() is None else None
        return {"encoder": here.identity.as_dict() if here else None}

    def unavailable_reason(self) -> str | None:
        if self._encoder is None:
            return (
                "its files are not specified; name them in metrics.yaml (kind: infersent, params: "
                "{weights: path, vectors: path})"
            )
        return self._encoder.unavailable_reason()

    def encode(self, texts: Sequence[str], shared: TextCache) -> np.ndarray:
        assert self._encoder is not None, "called although it is unavailable"
        return shared.encode(texts, self._encoder)


ROWS = 500_000
"""Default number of the most frequent words used from a file of word vectors."""

# Titles must differ in their first words, because plots truncate the end.
_FORMULAS = {
    "average": ("Average word coherence", "Cosine of the mean word vectors."),
    "extrema": (
        "Extrema word coherence",
        "Cosine of the vectors holding, in each dimension, the value of largest magnitude.",
    ),
    "greedy": (
        "Two-way greedy word coherence",
        "Each word's best cosine on the other side, averaged over words, then over both directions.",
    ),
    "greedy_ref": (
        "One-way greedy word coherence (2019 code)",
        "For each word of the message, its best cosine in the reply, averaged (one direction only).",
    ),
}


def coherence_columns(prefix: str, vectors_title: str = "") -> tuple[Column, ...]:
    """Return the columns of word vectors, with `vectors_title` appended to the titles.

    `vectors_title` is "" for the default vectors.
    """
    return tuple(
        column
        for kind, (title, formula) in _FORMULAS.items()
        for column in per_turn(
            f"{prefix}_{kind}_user_bot",
            f"{title}{' by ' + vectors_title if vectors_title else ''}, participant and bot",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description=f"{formula} Compares words of a message and of the bot's reply by static word vectors. If a "
            "speaker writes several turns in a row, the last one is used. Stored at the reply; "
            "undefined if a side has no known word. In self-play: for consecutive utterances.",
        )
    )


class WordCoherenceFamily(MetricDefaults):
    """Average, Extrema and Greedy Word Coherence -U/B by some word vectors."""

    prefix: str

    def vectors(self) -> StaticWordVectors:
        """Return the word vectors, loaded if necessary."""
        raise NotImplementedError

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        texts = layout.texts
        pairs = [(texts[message], texts[reply]) for message, reply in layout.exchanges.tolist()]
        values = pair_similarities(pairs, self.vectors(), tokens_of(shared))
        columns = [f"{self.prefix}_{kind}_user_bot" for kind in SIMILARITY_KINDS]
        reason = missing(values, "no word of a text has a vector")
        reply = layout.exchanges[:, 1]
        return Measured(
            turns={column: layout.spread(reply, values[:, k]) for k, column in enumerate(columns)},
            reasons=dict.fromkeys(columns, reason),
        )


@register_metric
class WordCoherence(WordCoherenceFamily):
    """Average, Extrema and Greedy Word Coherence -U/B by the distilled word vectors."""

    name = "word_coherence"
    languages = ("en",)
    title = "Word coherence"
    licence = "Apache-2.0 (MiniLM, of which the vectors are made)"
    prefix = "word_coherence"
    columns = coherence_columns(prefix)

    @property
    def params(self) -> dict[str, Any]:
        return {"vectors": self.vectors().identity.as_dict(), "tokenizer": TOKENIZER}

    def unavailable_reason(self) -> str | None:
        return self.vectors().unavailable_reason()

    def vectors(self) -> WordVectors:
        from chatbots.encoders.word_vectors import word_vectors

        return word_vectors()


class FileWordCoherenceOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    path: str = Field(min_length=1, description="a file of word2vec (.bin), GloVe (.txt) or fastText (.vec), unpacked")
    rows: int = Field(ROWS, ge=1, description="number of its most frequent words to use")


@register_metric
class FileWordCoherence(WordCoherenceFamily, ConfiguredMetric):
    """Word coherence by published vectors, as in the paper; on request."""

    kind = "word2vec"
    needs = ("a file of word vectors",)
    licence = CHOSEN_LICENCE
    usual_title = "word2vec"
    options_type = FileWordCoherenceOptions
    options: FileWordCoherenceOptions | None

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.prefix = self.name
        self.columns = coherence_columns(self.name, self.title)
        self.title = f"Word coherence by {self.title}"
        self.rows = self.options.rows if self.options else ROWS
        self._file = None
        if self.options:
            from chatbots.encoders.published_files import FileVectors

            self._file = FileVectors(self.options.path)

    @property
    def params(self) -> dict[str, Any]:
        here = self._file if self.unavailable_reason() is None else None
        return {"vectors": here.identity.as_dict() if here else None, "rows": self.rows, "tokenizer": TOKENIZER}

    def unavailable_reason(self) -> str | None:
        if self._file is None:
            return (
                "no file of word vectors is specified; name one in metrics.yaml (kind: word2vec, params: {path: file})"
            )
        return self._file.unavailable_reason()

    def vectors(self) -> VectorTable:
        assert self._file is not None, "called although it is unavailable"
        return self._file.table(first=self.rows)
