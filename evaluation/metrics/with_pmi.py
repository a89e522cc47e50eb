"""Mean of a trained metric and mutual information: shared base of `pone_pmi` and `grade_pmi`.

Each is centred and scaled by its mean and standard deviation over held-out true and false pairs (of the network kept
with its checkpoint; of mutual information named in the metric's entry, for they are the language model's), then both
are averaged; nothing is fitted to people's scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from chatbots.gguf.files import SMOLLM2
from chatbots.outside import Number
from evaluation.columns import per_turn
from evaluation.items import ReplyInContext
from evaluation.metrics.reply_pmi import ReplyPmi
from evaluation.metrics.shared import Shared
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric, TrainedOptions

PMI_LEVEL, PMI_SPREAD = 0.52, 0.55
"""Of SmolLM2-135M, over 40 true and 40 random pairs of Topical-Chat's held-out dialogues, for this model alone."""


class PmiOptions(TrainedOptions):
    """Options of an entry of `metrics.yaml`."""

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


class WithPmi(TrainedMetric):
    """Base of the metrics that average a network's score with mutual information.

    Attributes:
        network: what the description calls the network.
    """

    options_type = PmiOptions
    options: PmiOptions | None
    needs = (CHECKPOINT_NEEDED, "a causal language model")
    network: str

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="standard deviations",
            range=(None, None),
            direction="higher",
            description=f"Mean of {self.network}'s score before its sigmoid and the reply's pointwise mutual "
            "information, each in standard deviations over held-out true and false pairs. Undefined for a turn that "
            "opens the conversation.",
        )
        model = self.options.model if self.options else SMOLLM2
        self._pmi = ReplyPmi(model=model, device=self.where("cpu"))
        self.licence = f"{self.licence}; {self._pmi.licence}"
        self.window = max(self.window or 0, self._pmi.window or 0)

    @abstractmethod
    def network_scores(
        self, replies: Sequence[ReplyInContext], shared: Shared
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return (N,) scores before the sigmoid, in standard deviations over held-out pairs; and other columns."""

    @property
    def params(self) -> dict[str, Any]:
        chosen = self.options
        scale = [chosen.pmi_level, chosen.pmi_spread] if chosen else []
        return {**super().params, "pmi": self._pmi.identity.as_dict(), "scale": scale}

    def unavailable_reason(self) -> str | None:
        return super().unavailable_reason() or self._pmi.unavailable_reason()

    def score(self, replies: Sequence[ReplyInContext], shared: Shared) -> dict[str, np.ndarray]:
        assert self.options is not None, "asked although it is unavailable"
        pmi = self._pmi.scored(replies, shared)["reply_pmi_bot"]
        pmi = (pmi - self.options.pmi_level) / self.options.pmi_spread
        scores, more = self.network_scores(replies, shared)
        return {f"{self.name}_bot": (scores + pmi) / 2, **more}
