"""Does the bot contradict itself, does its reply fit: by classifiers of pairs that a researcher chooses.

Contradiction as commonly measured by natural language inference (Welleck et al. 2019, "Dialogue Natural
Language Inference", ACL): the probability that a turn contradicts one that the same speaker said before.
Coherence: the probability that a reply fits what it answers. Both take any classifier of text pairs, a
transformers folder or an object; without one they say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.local_models import Classifier, LocalClassifier
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared, blank


class PairMetric(MetricDefaults):
    """What both share: the classifier, by a model's folder or as an object."""

    default = False
    kind: str

    def __init__(
        self,
        name: str,
        title: str,
        model: str | None,
        label: str,
        device: str,
        classifier: Classifier | None,
    ) -> None:
        self.name = name
        self.title = title
        self._classifier = classifier
        if classifier is None and model is not None:
            self._classifier = LocalClassifier(model, label, device)
        self.columns = self._columns()

    def _columns(self) -> tuple[Column, ...]:
        raise NotImplementedError

    @property
    def params(self) -> dict[str, Any]:
        return {
            "classifier": None if self._classifier is None else self._classifier.identity.as_dict()
        }

    def unavailable_reason(self) -> str | None:
        if self._classifier is None:
            return (
                f"no classifier of text pairs is chosen; name a local one in metrics.yaml (kind: {self.kind}, "
                "params: {model: path or hub id, label: its label})"
            )
        return self._classifier.unavailable_reason()

    def _probabilities(self, pairs: list[tuple[str, str]]) -> np.ndarray:
        if not pairs:
            return np.zeros(0)
        assert self._classifier is not None, "asked although it is unavailable"
        return self._classifier.probabilities(pairs)


@register_metric
class Contradiction(PairMetric):
    """Self-contradiction -B; on request.

    Args:
        name: of the metric, and what its columns begin with.
        title: for people.
        model: a folder with a transformers classifier of text pairs, or a hub id downloaded before.
        label: which of its labels means contradiction.
        device: where it computes.
        classifier: instead of `model`: anything that gives pairs of texts a probability.
    """

    kind = "contradiction"

    def __init__(
        self,
        name: str = "contradiction",
        title: str = "Self-contradiction",
        model: str | None = None,
        label: str = "contradiction",
        device: str = "cpu",
        classifier: Classifier | None = None,
    ) -> None:
        super().__init__(name, title, model, label, device, classifier)

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
        np.maximum.at(values, np.array(at, dtype=int), self._probabilities(pairs))
        values[values == -np.inf] = np.nan
        missed = np.isnan(values[layout.bot]).any()
        return Measured(
            {f"{self.name}_bot": values},
            reasons={
                f"{self.name}_bot": ("the bot has said nothing before", BLANK) if missed else ()
            },
        )


@register_metric
class Coherence(PairMetric):
    """Coherence -U/B by a learned model; on request.

    Args:
        name: of the metric, and what its columns begin with.
        title: for people.
        model: a folder with a transformers classifier of text pairs, or a hub id downloaded before.
        label: which of its labels means that the second text fits the first.
        device: where it computes.
        classifier: instead of `model`: anything that gives pairs of texts a probability.
    """

    kind = "coherence"

    def __init__(
        self,
        name: str = "coherence",
        title: str = "Coherence",
        model: str | None = None,
        label: str = "coherent",
        device: str = "cpu",
        classifier: Classifier | None = None,
    ) -> None:
        super().__init__(name, title, model, label, device, classifier)

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
        found = self._probabilities([(layout.texts[m], layout.texts[r]) for m, r in pairs])
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
