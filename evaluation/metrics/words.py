"""Length of both sides' turns: # Words -U and -B (Ghandeharioun et al. 2019, fact sheet section 1.5)."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared


def n_words(text: str) -> int:
    """Count the words separated by white space; a blank text has none."""
    return len(text.split())


_PUNCTUATION = re.compile(r"[^\w\s]|_")


def n_words_spoken(text: str) -> int:
    """Count the words when all punctuation is taken out: "Well - I don't!" has three, an emoji alone none."""
    return n_words(_PUNCTUATION.sub("", text))


@register_metric
class Words(MetricDefaults):
    """Words and characters per turn of each side."""

    name = "words"
    languages = ()
    title = "Number of words"
    version = "2"
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
        *per_turn(
            "response_length_bot",
            "Response length",
            unit="words",
            range=(0, None),
            direction="neither",
            description="Words of the bot's turn when all punctuation is taken out.",
        ),
        *per_turn(
            "characters_user",
            "Characters, participant",
            unit="characters",
            range=(0, None),
            direction="higher",
            description="Characters of a participant's answer to the bot, blanks included.",
        ),
        *per_turn(
            "characters_bot",
            "Characters, bot",
            unit="characters",
            range=(0, None),
            direction="neither",
            description="Characters of the bot's turn, blanks included.",
        ),
    )

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        def count(turns: np.ndarray, how: Callable[[str], int] = n_words) -> np.ndarray:
            return layout.spread(turns, [how(text) for text in layout.texts_at(turns)])

        return Measured(
            turns={
                "words_user": count(layout.user),
                "words_bot": count(layout.bot),
                "response_length_bot": count(layout.bot, n_words_spoken),
                "characters_user": count(layout.user, len),
                "characters_bot": count(layout.bot, len),
            }
        )
