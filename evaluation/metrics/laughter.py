"""Laughter: number of laughs in an utterance ("ha", "haha", "ahahah").

Ghandeharioun et al. (2019), fact sheet section 1.2. The released code counts the letters "ha" anywhere,
also in "that" and "what"; both ways are here under their own names.
"""

from __future__ import annotations

import re

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared

_LAUGH = re.compile(r"\b(?:a?(?:ha)+h?)\b")


def laughs(text: str) -> int:
    """Count the words of the text that are laughter, whatever their case: "Haha, ha!" has two."""
    return len(_LAUGH.findall(text.casefold()))


def laughs_substring(text: str) -> int:
    """Count the letters `ha` in the text, case-sensitive, as the released code does."""
    return text.count("ha")


@register_metric
class Laughter(MetricDefaults):
    """Laughter -U and -B by words, and -U as the 2019 code counted."""

    name = "laughter"
    languages = ("en",)
    title = "Laughter"
    version = "2"
    columns = (
        *per_turn(
            "laughter_user",
            "Laughter, participant",
            unit="laughs",
            range=(0, None),
            direction="higher",
            description="Words of laughter (ha, haha, ahah, hah) in a participant's answer to the bot, "
            "whatever their case. In self-play: in the next utterance.",
        ),
        *per_turn(
            "laughter_bot",
            "Laughter, bot",
            unit="laughs",
            range=(0, None),
            direction="neither",
            description="Words of laughter in the bot's turn (Laughter -B).",
        ),
        *per_turn(
            "laughter_substring_user",
            "Laughter, participant (2019 code)",
            unit="occurrences",
            range=(0, None),
            direction="neither",
            description="Occurrences of the letters 'ha', case-sensitive, in a participant's answer "
            "(Laughter -U as the released code counts: 'that' and 'what' count too).",
        ),
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        texts = layout.texts_at(layout.user)
        return Measured(
            turns={
                "laughter_user": layout.spread(layout.user, [laughs(t) for t in texts]),
                "laughter_bot": layout.spread(
                    layout.bot, [laughs(t) for t in layout.texts_at(layout.bot)]
                ),
                "laughter_substring_user": layout.spread(
                    layout.user, [laughs_substring(t) for t in texts]
                ),
            }
        )
