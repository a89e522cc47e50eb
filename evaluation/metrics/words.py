"""How much both sides write: # Words -U and -B (Ghandeharioun et al. 2019, fact sheet section 1.5)."""

from __future__ import annotations

import numpy as np

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared


def n_words(text: str) -> int:
    """Words separated by white space; a blank text has none."""
    return len(text.split())


@register_metric
class Words(MetricDefaults):
    """Words per turn of each side."""

    name = "words"
    title = "Number of words"
    columns = (
        *per_turn(
            "words_user",
            "Words, participant",
            unit="words",
            range=(0, None),
            direction="higher",
            description="Words, separated by white space, of a participant's answer to the bot (# Words "
            "-U). The 2019 code splits at every single blank, so there a double blank makes an empty "
            "word. In self-play: of the next utterance.",
        ),
        *per_turn(
            "words_bot",
            "Words, bot",
            unit="words",
            range=(0, None),
            direction="neither",
            description="Words, separated by white space, of the bot's turn (# Words -B).",
        ),
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        def count(turns: np.ndarray) -> np.ndarray:
            return layout.spread(turns, [n_words(text) for text in layout.texts_at(turns)])

        return Measured(turns={"words_user": count(layout.user), "words_bot": count(layout.bot)})
