"""Semantic similarity of a message and the bot's reply (Ghandeharioun et al. 2019, section 1.3).

Cosine of sentence embeddings; the offline encoder is MiniLM where the paper has InferSent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared, blank


@register_metric
class SemanticSimilarity(MetricDefaults):
    """Semantic Similarity -U/B by the default sentence encoder."""

    name = "semantic_similarity"
    title = "Semantic similarity"
    columns = per_turn(
        "semantic_similarity_user_bot",
        "Semantic similarity, participant and bot",
        unit="cosine",
        range=(-1, 1),
        direction="neither",
        description="Cosine of the sentence embeddings of a message and the bot's reply (Semantic "
        "Similarity -U/B). Of a run of several turns the last is taken. Stored at the reply; undefined "
        "where a text is blank. In self-play: of consecutive utterances.",
    )

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.sentence import sentence_encoder

        return {"encoder": sentence_encoder().identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        from chatbots.encoders.sentence import sentence_encoder

        return sentence_encoder().unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        pairs = [
            (message, reply)
            for message, reply in layout.exchanges.tolist()
            if not blank(layout.texts[message]) and not blank(layout.texts[reply])
        ]
        values = np.full(len(layout.texts), np.nan)
        if pairs:
            used = sorted({i for pair in pairs for i in pair})
            vectors = shared.encode([layout.texts[i] for i in used])
            row = {turn: k for k, turn in enumerate(used)}
            messages = vectors[[row[message] for message, _ in pairs]]
            replies = vectors[[row[reply] for _, reply in pairs]]
            # The rows have length 1, so the dot product is the cosine.
            cosines = np.einsum("kd,kd->k", messages, replies, dtype=float)
            values[[reply for _, reply in pairs]] = np.clip(cosines, -1.0, 1.0)
        missing = len(pairs) < len(layout.exchanges)
        return Measured(
            turns={"semantic_similarity_user_bot": values},
            reasons={"semantic_similarity_user_bot": (BLANK,) if missing else ()},
        )
