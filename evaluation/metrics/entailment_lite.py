"""Entailment-lite: a regression on frozen MiniLM, trained on Topical-Chat, as it comes with Confab
(`evaluation/shipped/entailment-lite`).

Never shown as DialogEntailment's classifiers, which are BERT and ESIM with ELMo. `docs/research/entailment.md` has
its figures.
"""

from __future__ import annotations

from evaluation.metrics.entailment import Entailment
from evaluation.metrics.registry import metrics

metrics.add(
    Entailment(name="entailment_lite", title="Entailment-lite", checkpoint="entailment-lite")
)
