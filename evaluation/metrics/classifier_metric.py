"""What metrics share that put turns, or pairs of turns, before a classifier that a researcher chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from evaluation.columns import Column
from evaluation.metrics.base import MetricDefaults
from evaluation.metrics.local_models import Classifier, LocalClassifier
from evaluation.metrics.shared import Shared


class ClassifierMetric(MetricDefaults):
    """On request; unavailable until a classifier is chosen.

    Args:
        name: of the metric, and what its columns begin with.
        title: for people.
        model: a folder with a transformers classifier, or a hub id downloaded before.
        label: which of its labels is looked for.
        device: where it computes.
        classifier: instead of `model`: anything that gives texts, or pairs of them, a probability.
    """

    default = False
    kind: ClassVar[str]
    """What it is called in metrics.yaml, and its own name where nothing else is said."""
    usual_title: ClassVar[str]
    usual_label: ClassVar[str]
    reads: ClassVar[str] = "text pairs"

    def __init__(
        self,
        name: str = "",
        title: str = "",
        model: str | None = None,
        label: str = "",
        device: str = "cpu",
        classifier: Classifier | None = None,
    ) -> None:
        self.name = name or self.kind
        self.title = title or self.usual_title
        self._classifier = classifier
        if classifier is None and model is not None:
            self._classifier = LocalClassifier(model, label or self.usual_label, device)
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
                f"no classifier of {self.reads} is chosen; name a local one in metrics.yaml (kind: {self.kind}, "
                f"params: {{model: path or hub id, label: {self.usual_label}}})"
            )
        return self._classifier.unavailable_reason()

    def probabilities(self, texts: Sequence[str | tuple[str, str]], shared: Shared) -> np.ndarray:
        """Return what the classifier says of texts or pairs, (N,); each goes through it once."""
        if not texts:
            return np.zeros(0)
        assert self._classifier is not None, "asked although it is unavailable"
        key = self._classifier.identity.key
        return np.array(shared.once(key, texts, self._classifier.probabilities), dtype=float)
