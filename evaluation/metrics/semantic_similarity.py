"""Semantic similarity of a turn and the one it answers (Ghandeharioun et al. 2019, section 1.3).

Cosine of sentence embeddings. The offline encoder is MiniLM, where the paper has InferSent and the released
code, for rewards, the Universal Sentence Encoder (section 1.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared, blank


@register_metric
class SemanticSimilarity(MetricDefaults):
    """Semantic Similarity -U/B and -B/U by the default sentence encoder."""

    name = "semantic_similarity"
    title = "Semantic similarity"
    version = "2"
    columns = (
        *per_turn(
            "semantic_similarity_user_bot",
            "Semantic similarity, participant and bot",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description="Cosine of the sentence embeddings of a message and the bot's reply (Semantic "
            "Similarity -U/B). Of a run of several turns the last is taken. Stored at the reply; undefined "
            "where a text is blank. In self-play: of consecutive utterances.",
        ),
        *per_turn(
            "semantic_similarity_bot_user",
            "Semantic similarity, bot and answer",
            unit="cosine",
            range=(-1, 1),
            direction="neither",
            description="Cosine of the sentence embeddings of the bot's turn and the participant's answer "
            "to it: does the participant stay with the bot's topic. Of a run of several turns the last is "
            "taken. Stored at the answer. In self-play: of consecutive utterances.",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.sentence import sentence_encoder

        return {"encoder": sentence_encoder().identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        from chatbots.encoders.sentence import sentence_encoder

        return sentence_encoder().unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        turns, reasons = {}, {}
        for name, pairs in (("user_bot", layout.exchanges), ("bot_user", layout.answers)):
            values = cosines(layout, pairs, shared)
            column = f"semantic_similarity_{name}"
            turns[column] = layout.spread(pairs[:, 1], values)
            reasons[column] = missing(values, BLANK)
        return Measured(turns, reasons=reasons)


def cosines(layout: Layout, pairs: np.ndarray, shared: Shared) -> np.ndarray:
    """Cosine of both texts of each pair of turns (K, 2): (K,), NaN where one is blank."""
    told = ~np.array([blank(text) for text in layout.texts], dtype=bool)
    defined = told[pairs].all(axis=1)
    values = np.full(len(pairs), np.nan)
    if defined.any():
        used, place = np.unique(pairs[defined], return_inverse=True)
        vectors = shared.encode(layout.texts_at(used))
        one, other = vectors[place.reshape(-1, 2)].transpose(1, 0, 2)  # (K', D) each
        # The rows have length 1, so the dot product is the cosine.
        values[defined] = np.clip(np.einsum("kd,kd->k", one, other, dtype=float), -1.0, 1.0)
    return values
