"""GRADE: coherence of a reply with the last two utterances, from text and a graph of keywords, by a checkpoint trained here.

Huang et al. (2020), "GRADE: Automatic Graph-Enhanced Coherence Metric for Evaluating Open-Domain Dialogue Systems", EMNLP;
the network is `evaluation/models/grade.py`. Scores crowd together: ranks and correlations count, not values. A reply
without any keyword is scored by its text, with the context's keywords alone in the graph; `…_keywords_bot` tells which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared
from evaluation.metrics.trained import TrainedMetric

ROWS = 256


@register_metric
class Grade(TrainedMetric):
    """GRADE by a checkpoint; on request."""

    kind = "grade"
    usual_title = "GRADE"
    needs_context = True
    window = 2
    languages = ("en",)
    needs = ("a checkpoint trained here",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self._reader: Any = None
        self.columns = (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="1",
                range=(0, 1),
                direction="higher",
                description="How coherent the bot's turn is with the two turns before it, by text and a graph of "
                "keywords; only ranks count. Undefined for a turn that opens the conversation.",
            ),
            *per_turn(
                f"{self.name}_keywords_bot",
                f"Keywords of the reply ({self.title})",
                unit="keywords",
                range=(0, None),
                direction="neither",
                description="How many keywords of the bot's turn stand in the graph; with 0 the graph knows the context alone.",
            ),
        )

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is not None:
            return reason
        from evaluation.models.grade_keywords import analyser_missing

        return analyser_missing(self.checkpoint.manifest.facts["analyser"])

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        import torch

        from evaluation.models.grade_keywords import tokens_of
        from evaluation.training.metrics.grade import reader_restored, text_of

        with self._lock:
            network = self.restored(shared.device)
            reader = self._reader = self._reader or reader_restored(self.checkpoint)
            own = self.checkpoint.config.own
            pairs = [(reply.context, reply.response) for reply in replies]
            texts = list(dict.fromkeys(t for context, one in pairs for t in (*context, one)))
            name = reader.keywords.analyser
            tokens = shared.once(
                f"grade tokens {name}", texts, lambda few: [tokens_of(text, name) for text in few]
            )
            reader.tell(dict(zip(texts, map(reader.keywords.among, tokens), strict=True)))
            vectors = None
            if own.text == "two":
                from chatbots.encoders.sentence import encoder_get

                encoder = encoder_get(
                    self.checkpoint.config.backbone.model, self.where(shared.device)
                )
                vectors = dict(zip(texts, shared.encode(texts, encoder), strict=True))
            order = sorted(range(len(pairs)), key=lambda k: sum(map(len, pairs[k][0])))
            scores, counts = np.zeros(len(pairs)), np.zeros(len(pairs))
            for start in range(0, len(pairs), ROWS):
                part = order[start : start + ROWS]
                few = [pairs[k] for k in part]
                with torch.inference_mode():
                    scores[part] = network(reader.batch(few, text_of(few, vectors))).double().cpu()
                counts[part] = [reader.n_reply_keywords(pair) for pair in few]
        return {f"{self.name}_bot": scores, f"{self.name}_keywords_bot": counts}
