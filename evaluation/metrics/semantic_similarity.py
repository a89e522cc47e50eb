"""Semantic similarity of a turn and the one it answers (Ghandeharioun et al. 2019, section 1.3).

Cosine of sentence embeddings. The offline encoder is MiniLM, where the paper has InferSent and the released
code, for rewards, the Universal Sentence Encoder (section 1.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from chatbots.outside import Values
from evaluation.columns import Column, per_turn
from evaluation.metrics.base import (
    CHOSEN_LICENCE,
    ConfiguredMetric,
    Measured,
    MetricDefaults,
    missing,
)
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared, blank

if TYPE_CHECKING:
    from chatbots.encoders.sentence import SentenceEncoder


def similarity_columns(prefix: str, by: str = "") -> tuple[Column, ...]:
    """Return the columns of one sentence encoder; `by` is appended to titles, "" for the default one."""
    more = f" ({by})" if by else ""
    return (
        *per_turn(
            f"{prefix}_user_bot",
            f"Semantic similarity{more}, participant and bot",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description="Cosine of the sentence embeddings of a message and the bot's reply (Semantic "
            "Similarity -U/B). Of a run of several turns the last is taken. Stored at the reply; undefined "
            "where a text is blank. In self-play: of consecutive utterances.",
        ),
        *per_turn(
            f"{prefix}_bot_user",
            f"Semantic similarity{more}, bot and answer",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description="Cosine of the sentence embeddings of the bot's turn and the participant's answer "
            "to it: does the participant stay with the bot's topic. Of a run of several turns the last is "
            "taken. Stored at the answer. In self-play: of consecutive utterances.",
        ),
    )


class SimilarityFamily(MetricDefaults):
    """Semantic Similarity -U/B and -B/U by some sentence encoder."""

    prefix: str

    def encode(self, texts: Sequence[str], shared: Shared) -> np.ndarray:
        """Return the texts' (N, D) vectors of length 1."""
        raise NotImplementedError

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        told = ~np.array([blank(text) for text in layout.texts], dtype=bool)
        turns, reasons = {}, {}
        for name, pairs in (("user_bot", layout.exchanges), ("bot_user", layout.answers)):
            defined = told[pairs].all(axis=1)
            values = np.full(len(pairs), np.nan)
            if defined.any():
                used, place = np.unique(pairs[defined], return_inverse=True)
                vectors = self.encode(layout.texts_at(used), shared)
                one, other = vectors[place.reshape(-1, 2)].transpose(1, 0, 2)  # (K, D) each
                # The rows have length 1, so the dot product is the cosine.
                dots = np.einsum("kd,kd->k", one, other, dtype=float)
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

    def encode(self, texts: Sequence[str], shared: Shared) -> np.ndarray:
        return shared.encode(texts)


class InferSentOptions(Values):
    """Options of an entry of `metrics.yaml`."""

    weights: str = Field(min_length=1, description="`infersent1.pkl` or `infersent2.pkl`")
    vectors: str = Field(
        min_length=1, description="GloVe's file for version 1, fastText's for version 2"
    )
    version: Literal[1, 2] = Field(1, description="1 or 2")
    device: str = Field("cpu", description="where it computes")


@register_metric
class InferSentSimilarity(SimilarityFamily, ConfiguredMetric):
    """Semantic similarity by InferSent, as the paper has it; on request.

    Args:
        encoder: instead of options: any sentence encoder.
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
        self,
        name: str = "",
        title: str = "",
        *,
        encoder: SentenceEncoder | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, title, **options)
        self.prefix = self.name
        self.columns = similarity_columns(self.name, self.title)
        self.title = f"Semantic similarity by {self.title}"
        self._encoder = encoder
        if chosen := self.options:
            from chatbots.encoders.infersent import InferSentEncoder

            self._encoder = InferSentEncoder(
                chosen.weights, chosen.vectors, chosen.version, device=chosen.device
            )

    @property
    def params(self) -> dict[str, Any]:
        here = self._encoder if self.unavailable_reason() is None else None
        return {"encoder": here.identity.as_dict() if here else None}

    def unavailable_reason(self) -> str | None:
        if self._encoder is None:
            return (
                "its files are not named; name them in metrics.yaml (kind: infersent, params: {weights: "
                "path, vectors: path})"
            )
        return self._encoder.unavailable_reason()

    def encode(self, texts: Sequence[str], shared: Shared) -> np.ndarray:
        assert self._encoder is not None, "asked although it is unavailable"
        return shared.encode(texts, self._encoder)
