"""Does the bot contradict itself, does its reply fit: by classifiers of pairs that a researcher chooses.

Contradiction as commonly measured by natural language inference (Welleck et al. 2019, "Dialogue Natural
Language Inference", ACL): the probability that a turn contradicts one that the same speaker said before.
Coherence: the probability that a reply fits what it answers. Both take any classifier of text pairs, a
transformers folder or an object; without one they say so.
"""

from __future__ import annotations

import numpy as np

from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured
from evaluation.metrics.classifier_metric import ClassifierMetric
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared, blank


@register_metric
class Contradiction(ClassifierMetric):
    """Self-contradiction -B; the label looked for means contradiction."""

    kind = "contradiction"
    usual_title = "Self-contradiction"
    usual_label = "contradiction"

    def _columns(self) -> tuple[Column, ...]:
        return per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="probability",
            range=(0, 1),
            direction="lower",
            description="Largest probability, by the chosen classifier, that the bot's turn contradicts one "
            "of its earlier turns. Undefined for its first turn.",
        )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        told = np.array([i for i in layout.said if not blank(layout.texts[i])], dtype=int)
        at: list[int] = []
        pairs: list[tuple[str, str]] = []
        for own in layout.by_conversation(told):
            for k, later in enumerate(own.tolist()):
                at.extend([later] * k)
                pairs.extend((layout.texts[i], layout.texts[later]) for i in own[:k])
        values = np.full(len(layout.texts), -np.inf)
        np.maximum.at(values, np.array(at, dtype=int), self.probabilities(pairs, shared))
        values[values == -np.inf] = np.nan
        missed = np.isnan(values[layout.bot]).any()
        return Measured(
            {f"{self.name}_bot": values},
            reasons={
                f"{self.name}_bot": ("the bot has said nothing before", BLANK) if missed else ()
            },
        )


@register_metric
class Coherence(ClassifierMetric):
    """Coherence -U/B by a learned model; the label looked for means that the second text fits the first."""

    kind = "coherence"
    usual_title = "Coherence"
    usual_label = "coherent"

    def _columns(self) -> tuple[Column, ...]:
        return per_turn(
            f"{self.name}_user_bot",
            f"{self.title}, participant and bot",
            unit="probability",
            range=(0, 1),
            direction="higher",
            description="Probability, by the chosen classifier, that the bot's reply fits the message. Of a "
            "run of several turns the last is taken. In self-play: of consecutive utterances.",
        )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        pairs = [
            (message, reply)
            for message, reply in layout.exchanges.tolist()
            if not blank(layout.texts[message]) and not blank(layout.texts[reply])
        ]
        found = self.probabilities([(layout.texts[m], layout.texts[r]) for m, r in pairs], shared)
        return Measured(
            {
                f"{self.name}_user_bot": layout.spread(
                    np.array([r for _, r in pairs], dtype=int), found
                )
            },
            reasons={
                f"{self.name}_user_bot": (BLANK,) if len(pairs) < len(layout.exchanges) else ()
            },
        )
