"""PONE and BERT-RUBER: how well a reply fits what was said before it, by a scorer trained here.

Lan et al. 2020, "PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue Systems", ACM TOIS. The
network is `evaluation/models/pone.py`, its training `evaluation/training/metrics/pone.py`. On another encoder than the
papers' it is named `-lite`.

`pone_pmi` adds the pointwise mutual information of the reply under a language model. Both estimate how much likelier the
reply is here than anywhere: the scorer learns it from true and random pairs, the language model from all it has read
(`with_pmi.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chatbots.encoders.sentence import encoder_get
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared
from evaluation.metrics.trained import TrainedMetric
from evaluation.metrics.with_pmi import WithPmi


class _Pone(TrainedMetric):
    """What both metrics share: scores of the checkpoint's network."""

    needs_context = True
    languages = ("en",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        if self.options is None or super().unavailable_reason():
            return
        found = self.checkpoint
        self.window = int(found.config.own.window)
        licences = found.manifest.facts.get("licences") or ["not stated"]
        self.licence = f"of the training text: {', '.join(licences)}"

    def logits(self, replies: Sequence[ReplyInContext], shared: Shared) -> np.ndarray:
        """Return (N,) scores before the sigmoid."""
        import torch

        found = self.checkpoint
        window, device = int(found.config.own.window), self.where(shared.device)
        network = self.restored(shared.device)
        encoder = encoder_get(found.config.backbone.model, device)
        asked = [reply.context[-window:] for reply in replies]
        texts = list(
            dict.fromkeys(t for r, q in zip(replies, asked, strict=True) for t in (*q, r.response))
        )
        vectors = shared.encode(texts, encoder)
        place = {text: k for k, text in enumerate(texts)}
        query = np.stack([vectors[[place[text] for text in said]].mean(axis=0) for said in asked])
        response = vectors[[place[reply.response] for reply in replies]]
        with torch.inference_mode():
            scores = network(torch.from_numpy(query), torch.from_numpy(response))
        return scores.double().cpu().numpy()


@register_metric
class Pone(_Pone):
    """PONE's score of a reply, by a checkpoint of `train_metric`; on request."""

    kind = "pone"
    usual_title = "PONE"
    needs = ("a checkpoint of `train_metric`",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="probability",
            range=(0, 1),
            direction="higher",
            description="How well the bot's turn fits what was said before it: the output of a scorer trained to tell "
            "true replies from others. Undefined for a turn that opens the conversation.",
        )

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        return {f"{self.name}_bot": 1 / (1 + np.exp(-self.logits(replies, shared)))}


@register_metric
class PonePmi(WithPmi, _Pone):
    """PONE and mutual information, each in its own standard deviations, averaged; on request."""

    kind = "pone_pmi"
    trained = "pone"
    usual_title = "PONE and mutual information"
    network = "PONE"

    def network_scores(self, replies: Sequence[ReplyInContext], shared: Shared) -> np.ndarray:
        network = self.restored(shared.device)
        level, spread = float(network.level.detach()), float(network.spread.detach())
        return (self.logits(replies, shared) - level) / spread
