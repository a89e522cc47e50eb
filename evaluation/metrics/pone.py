"""PONE: fit of a reply to its context, by a trained scorer.

Lan et al. 2020, "PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue Systems", ACM TOIS.
The network is `evaluation/models/pone.py`, its training `evaluation/training/metrics/pone.py`. On another encoder
than the papers' it is named `-lite`.

`pone_pmi` adds the pointwise mutual information of the reply under a language model. Both estimate how much
likelier the reply is here than anywhere: the scorer learns it from true and random pairs, the language model from
all it has read (`trained.py`).

PONE-lite: PONE's scorer with all of its parts on MiniLM, trained on text that may be passed on, as it comes with
Confab (`evaluation/shipped/pone-lite-open-full`). Never shown as PONE: another encoder, another text.
`docs/research/pone_rade.md` has its figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chatbots.encoders.sentence import encoder_get
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import metrics, register_metric
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric, WithPmi
from evaluation.tables import per_turn

ROWS = 256


class PoneScores(TrainedMetric):
    """Base of all metrics of PONE's network: the scores of a checkpoint."""

    needs_context = True
    languages = ("en",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        if self.options is None or super().unavailable_reason():
            return
        found = self.checkpoint
        # Of the manifest as it is: reading the config would load the network's code, and torch.
        self.window = int(found.manifest.config["options"].get("window", 1))
        licences = found.manifest.facts.get("licences") or ["not stated"]
        self.licence = f"of the training text: {', '.join(licences)}"

    def logits(self, replies: Sequence[ReplyInContext], shared: TextCache) -> np.ndarray:
        """Return (N,) scores before the sigmoid."""
        import torch

        own = self.checkpoint.config.own
        network = self.restored(shared.device)
        asked = [reply.context[-int(own.window) :] for reply in replies]
        recurrent = own.sentences == "recurrent"
        if recurrent:
            asked = [(" ".join(said),) for said in asked]
        texts = list(dict.fromkeys(t for r, q in zip(replies, asked, strict=True) for t in (*q, r.response)))
        if recurrent:
            vectors = _read(network, texts)
        else:
            encoder = encoder_get(self.checkpoint.config.backbone.model, self.where(shared.device))
            vectors = shared.encode(texts, encoder)
        place = {text: k for k, text in enumerate(texts)}
        query = np.stack([vectors[[place[text] for text in said]].mean(axis=0) for said in asked])
        response = vectors[[place[reply.response] for reply in replies]]
        with torch.inference_mode():
            scores = network(torch.from_numpy(query), torch.from_numpy(response))
        return scores.double().cpu().numpy()


def _read(network: Any, texts: Sequence[str]) -> np.ndarray:
    """Return (T, d) vectors of texts by the network's recurrent encoder, those of like length together."""
    import torch

    from evaluation.models.pone import WordTexts

    words = WordTexts(texts)
    order = np.argsort(words.lengths(), kind="stable")
    rows = []
    with torch.inference_mode():
        for start in range(0, len(order), ROWS):
            rows.append(network.vectors(words[order[start : start + ROWS]]).cpu().numpy())
    found = np.concatenate(rows)
    vectors = np.empty_like(found)
    vectors[order] = found
    return vectors


@register_metric
class Pone(PoneScores):
    """PONE's score of a reply, by a checkpoint of `train_metric`; on request."""

    kind = "pone"
    usual_title = "PONE"
    needs = (CHECKPOINT_NEEDED,)

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

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        return {f"{self.name}_bot": 1 / (1 + np.exp(-self.logits(replies, shared)))}


@register_metric
class PonePmi(WithPmi, PoneScores):
    """PONE and mutual information, each in its own standard deviations, averaged; on request."""

    kind = "pone_pmi"
    trained = "pone"
    usual_title = "PONE and mutual information"
    network = "PONE"

    def network_scores(
        self, replies: Sequence[ReplyInContext], shared: TextCache
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        network = self.restored(shared.device)
        level, spread = float(network.level.detach()), float(network.spread.detach())
        return (self.logits(replies, shared) - level) / spread, {}


metrics.add(Pone(name="pone_lite", title="PONE-lite", checkpoint="pone-lite-open-full"))
