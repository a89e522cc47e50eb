"""Emotions in the participant's answers: the mean share of each of the 28, as a logarithm.

Shares lie near 0 and differ by factors, so their logarithms are compared; `FLOOR` keeps that of 0 finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chatbots.encoders.valence import LABELS
from evaluation.columns import Column
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.feelings import EncoderFeelings
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.sentiment import default_emotions
from evaluation.metrics.shared import BLANK, Shared

FLOOR = 0.001
"""Added to a mean share before its logarithm is taken."""


def _column(label: str) -> Column:
    return Column(
        f"emotion_{label}_user",
        "conversation",
        f"{label.capitalize()} in the answers",
        "log share",
        (float(np.log(FLOOR)), float(np.log(1 + FLOOR))),
        "neither",
        f"log(p + {FLOOR}), p the mean share of {label} among the 28 emotions that the shipped head reads from the "
        "participant's answers to the bot. In self-play: from the next utterances.",
    )


@register_metric
class Emotions(MetricDefaults):
    """Emotions of the participant's answers, each by itself."""

    name = "emotions"
    has_network = True
    licence = "Apache-2.0 (MiniLM, and the emotion head on it)"
    languages = ("en",)
    title = "Emotions of the participant"
    columns = tuple(_column(label) for label in LABELS)
    ingredient = True

    @property
    def params(self) -> dict[str, Any]:
        return {"feelings": EncoderFeelings(default_emotions).identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        return EncoderFeelings(default_emotions).unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        _, share = EncoderFeelings(default_emotions).read(layout.texts_at(layout.user), shared)
        means = {
            column.name: np.log(layout.mean(layout.spread(layout.user, share[:, k])) + FLOOR)
            for k, column in enumerate(self.columns)
        }
        return Measured(
            turns={},
            conversations=means,
            reasons={name: missing(values, BLANK) for name, values in means.items()},
        )
