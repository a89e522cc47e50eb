"""How probably the bot's turns are toxic, by a classifier that a researcher chooses.

None is shipped: those that are good are hundreds of megabytes and learned from comments that not everybody
may store. The released code's own, a regression on Jigsaw's comments, is not public either; its treatment of
the result is the `compat` column (fact sheet section 1.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.local_models import Classifier, LocalClassifier
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared, blank


@register_metric
class Toxicity(MetricDefaults):
    """Toxicity -B; on request.

    Args:
        name: of the metric, and what its columns begin with.
        title: for people.
        model: a folder with a transformers classifier, or a hub id that was downloaded before.
        label: which of its labels means toxic.
        device: where it computes.
        classifier: instead of `model`: anything that gives texts a probability.
    """

    default = False

    def __init__(
        self,
        name: str = "toxicity",
        title: str = "",
        model: str | None = None,
        label: str = "toxic",
        device: str = "cpu",
        classifier: Classifier | None = None,
    ) -> None:
        self.name = name
        self.title = title or "Toxicity"
        self._classifier = classifier
        if classifier is None and model is not None:
            self._classifier = LocalClassifier(model, label, device)
        self.columns = (
            *per_turn(
                f"{name}_bot",
                f"{self.title}, bot",
                unit="probability",
                range=(0, 1),
                direction="lower",
                description="Probability that the bot's turn is toxic, by the chosen classifier.",
            ),
            *per_turn(
                f"compat_{name}_bot",
                f"{self.title}, bot (2019 code)",
                unit="1",
                range=(-1, 0),
                direction="higher",
                description="Minus the probability that the bot's turn is toxic, and −0.2 wherever it has the "
                "letters 'depressed' (2019 code).",
            ),
        )

    @property
    def params(self) -> dict[str, Any]:
        return {
            "classifier": None if self._classifier is None else self._classifier.identity.as_dict()
        }

    def unavailable_reason(self) -> str | None:
        if self._classifier is None:
            return (
                "no classifier is chosen; name a local one in metrics.yaml (kind: toxicity, params: "
                "{model: path or hub id, label: toxic})"
            )
        return self._classifier.unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        texts = layout.texts_at(layout.bot)
        told = np.array([not blank(text) for text in texts], dtype=bool)
        found = np.full(len(texts), np.nan)
        if told.any():
            assert self._classifier is not None, "asked although it is unavailable"
            found[told] = self._classifier.probabilities(
                [text for text in texts if not blank(text)]
            )
        depressed = np.array(["depressed" in text for text in texts], dtype=bool)
        as_in_2019 = np.where(depressed, -0.2, -found)
        return Measured(
            {
                f"{self.name}_bot": layout.spread(layout.bot, found),
                f"compat_{self.name}_bot": layout.spread(layout.bot, as_in_2019),
            },
            reasons=dict.fromkeys(
                (f"{self.name}_bot", f"compat_{self.name}_bot"), missing(found, BLANK)
            ),
        )
