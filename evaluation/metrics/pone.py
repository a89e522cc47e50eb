"""PONE and BERT-RUBER: how well a reply fits what was said before it, by a scorer trained here.

Lan et al. 2020, "PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue Systems", ACM TOIS. The
network is `evaluation/models/pone.py`, its training `evaluation/training/metrics/pone.py`. On another encoder than the
papers' it is named `-lite`.

`pone_pmi` adds the pointwise mutual information of the reply under a language model. Both estimate how much likelier the
reply is here than anywhere: the scorer learns it from true and random pairs, the language model from all it has read.
Each is centred and scaled by its mean and standard deviation over held-out true and random pairs (of PONE kept in the
checkpoint; of mutual information named in the metric's entry, for they are the language model's), then both are averaged;
nothing is fitted to people's scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.encoders.sentence import encoder_get
from chatbots.gguf.files import SMOLLM2
from chatbots.outside import Number
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.registry import register_metric
from evaluation.metrics.reply_pmi import ReplyPmi
from evaluation.metrics.shared import Shared
from evaluation.metrics.trained import TrainedMetric, TrainedOptions

PMI_LEVEL, PMI_SPREAD = 0.52, 0.55
"""Of SmolLM2-135M, over 40 true and 40 random pairs of Topical-Chat's held-out dialogues; another model needs its own."""


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


class PonePmiOptions(TrainedOptions):
    """What an entry of `metrics.yaml` may say of it."""

    model: str = Field(
        SMOLLM2,
        min_length=1,
        description="the language model: a transformers folder, a hub id, a GGUF file, or a bot's id",
    )
    pmi_level: Number = Field(
        PMI_LEVEL,
        description="mean of the mutual information over held-out true and random pairs, nats per token",
    )
    pmi_spread: Number = Field(PMI_SPREAD, gt=0, description="its standard deviation there")


@register_metric
class PonePmi(_Pone):
    """PONE and mutual information, each in its own standard deviations, averaged; on request."""

    kind = "pone_pmi"
    trained = "pone"
    usual_title = "PONE and mutual information"
    options_type = PonePmiOptions
    options: PonePmiOptions | None
    needs = ("a checkpoint of `train_metric`", "a causal language model")

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="standard deviations",
            range=(None, None),
            direction="higher",
            description="Mean of PONE's score before its sigmoid and the reply's pointwise mutual information, each in "
            "standard deviations over held-out true and random pairs. Undefined for a turn that opens the conversation.",
        )
        chosen = self.options
        self._pmi = ReplyPmi(
            model=chosen.model if chosen else SMOLLM2,
            device=self.where("cpu"),
        )
        self.window = max(self.window or 0, self._pmi.window or 0)

    @property
    def params(self) -> dict[str, Any]:
        chosen = self.options
        scale = [chosen.pmi_level, chosen.pmi_spread] if chosen else []
        return {**super().params, "pmi": self._pmi.identity.as_dict(), "scale": scale}

    def unavailable_reason(self) -> str | None:
        return super().unavailable_reason() or self._pmi.unavailable_reason()

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        assert self.options is not None, "asked although it is unavailable"
        network = self.restored(shared.device)
        level, spread = float(network.level.detach()), float(network.spread.detach())
        logits = (self.logits(replies, shared) - level) / spread
        pmi = self._pmi.scored(replies, shared)["reply_pmi_bot"]
        pmi = (pmi - self.options.pmi_level) / self.options.pmi_spread
        return {f"{self.name}_bot": (logits + pmi) / 2}
