"""Base of metrics that classify turns, or pairs of turns, by a classifier that a researcher chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from chatbots.outside import Values
from evaluation.columns import Column
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric
from evaluation.metrics.local_models import Classifier, LocalClassifier
from evaluation.metrics.shared import Shared


class ClassifierOptions(Values):
    """Options of an entry of `metrics.yaml` for such a metric."""

    model: str = Field(
        min_length=1,
        description="a folder with a transformers classifier, or a hub id downloaded before",
    )
    label: str = Field(
        "", description="which of its labels is looked for; the usual one of the kind if empty"
    )
    device: str = Field("cpu", description="where it computes")


class ClassifierMetric(ConfiguredMetric):
    """On request; unavailable until a classifier is chosen.

    Args:
        classifier: instead of options: anything that gives texts, or pairs of them, a probability.
    """

    has_network = True
    licence = CHOSEN_LICENCE
    options_type = ClassifierOptions
    options: ClassifierOptions | None
    usual_label: ClassVar[str]
    reads: ClassVar[str] = "text pairs"

    def __init__(
        self,
        name: str = "",
        title: str = "",
        *,
        classifier: Classifier | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, title, **options)
        self.needs = (f"a classifier of {self.reads}",)
        self._classifier = classifier
        if chosen := self.options:
            label = chosen.label or self.usual_label
            self._classifier = LocalClassifier(chosen.model, label, chosen.device)
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
        """Return the classifier's probabilities of texts or pairs, (N,); each goes through it once."""
        if not texts:
            return np.zeros(0)
        assert self._classifier is not None, "asked although it is unavailable"
        key = self._classifier.identity.key
        return np.array(shared.once(key, texts, self._classifier.probabilities), dtype=float)
