"""BERT-MLP, RoBERTa-MLP and others: an encoder with an MLP that predicts people's rating of a reply.

Baselines of Shi et al. (2023), RADE. The network and its training are in `evaluation/training/metrics/encoder_mlp.py`,
where choices that the paper leaves open are listed. Scores are on the scale of the ratings, not clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chatbots.checkpoints import CheckpointError
from evaluation.data.items import ReplyInContext
from evaluation.data.tables import per_turn
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric

_ROWS = 64


@register_metric
class EncoderMlp(TrainedMetric):
    """Rating predicted by a trained encoder with an MLP; on request."""

    kind = "encoder_mlp"
    seen_sets = ("rade",)
    usual_title = "Encoder and MLP"
    needs: tuple[str, ...] = (CHECKPOINT_NEEDED,)
    languages = ("en",)
    needs_context = True
    window = 5
    over_references = "mean"

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        try:
            manifest = self.checkpoint.manifest if self.options else None
        except CheckpointError:
            manifest = None
        if manifest is not None:
            self.needs_reference = bool(manifest.config["options"].get("reads_reference"))
            self.licence = f"of the training data: {', '.join(manifest.facts.get('licences') or ['not stated'])}"
        if self.needs_reference:
            self.needs = (*self.needs, "a reference")
        self.columns = per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="points",
            range=(None, None),
            direction="higher",
            description="People's rating of the bot's turn, predicted by an encoder with an MLP, not clipped. "
            f"{'Needs a reference; undefined' if self.needs_reference else 'Undefined'} for a turn that opens the "
            "conversation.",
        )

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        import torch

        from evaluation.training.rade_data import RatedPair

        network = self.restored(shared.device)
        pairs = [RatedPair(reply.context, reply.response, reply.reference or "", 0.0, None) for reply in replies]
        parts = []
        with torch.inference_mode():
            for start in range(0, len(pairs), _ROWS):
                parts.append(network.scored(pairs[start : start + _ROWS])[:, 0].double().cpu().numpy())
        return {f"{self.name}_bot": np.concatenate(parts)}
