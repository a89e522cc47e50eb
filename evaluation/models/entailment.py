"""Base of the classifiers of DialogEntailment, and the smallest of them.

Dziri, Kamalloo, Mathewson and Zaiane (2019), "Evaluating Coherence in Dialogue Systems using Entailment", NAACL: what
was said before is the premise, the reply the hypothesis; entailment means coherent, neutral off-topic or dull,
contradiction broken. Numbers in brackets are sections of the fact sheet.

The released classifiers order their classes differently, so classes are found by name: whatever the order of a
network's own outputs (`labels`), what it returns is in the order of `LABELS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.training.contract import ExampleLoss
from evaluation.training.inference_pairs import LABELS


@dataclass(frozen=True)
class NliBatch:
    """Pairs: texts, or (B, d) vectors of them, and (B,) the place of each label in `LABELS`."""

    premise: Sequence[str] | Tensor
    hypothesis: Sequence[str] | Tensor
    label: Tensor


class Classifier(nn.Module):
    """Base of the classifiers; derive from it, set `labels` and write `own_logits`.

    Attributes:
        labels: of the network's own outputs, in their order.
        chosen_by: what decides its best weights, "accuracy" or "cross_entropy".
    """

    labels: tuple[str, ...] = LABELS
    chosen_by: str = "accuracy"

    def own_logits(
        self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor
    ) -> Tensor:
        """Return (B, 3) logits in the network's own order."""
        raise NotImplementedError

    def forward(
        self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor
    ) -> Tensor:
        """Return (B, 3) logits in the order of `LABELS`."""
        by_name = [self.labels.index(name) for name in LABELS]
        return self.own_logits(premise, hypothesis)[:, by_name]

    def probabilities(
        self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor
    ) -> Tensor:
        """Return (B, 3) probabilities in the order of `LABELS`."""
        return self(premise, hypothesis).float().softmax(dim=1)

    def loss(self, batch: NliBatch) -> ExampleLoss:
        """Return the mean cross-entropy, and the share of pairs whose likeliest label is theirs."""
        logits = self(batch.premise, batch.hypothesis)
        label = batch.label.to(logits.device)
        right = (logits.argmax(dim=1) == label).float().mean()
        return ExampleLoss(F.cross_entropy(logits, label), len(label), {"accuracy": right})


class EntailmentLite(Classifier):
    """Softmax regression on [u; v; |u − v|; u ∗ v] of the frozen vectors of premise and hypothesis (10).

    Args:
        width: of a vector, d.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(4 * width, len(LABELS))

    def own_logits(
        self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor
    ) -> Tensor:
        assert isinstance(premise, Tensor)
        assert isinstance(hypothesis, Tensor)
        u, v = (one.to(self.out.weight.device) for one in (premise, hypothesis))
        return self.out(torch.cat([u, v, (u - v).abs(), u * v], dim=1))
