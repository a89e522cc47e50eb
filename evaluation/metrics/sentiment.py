"""The sentiment family: how participant and bot feel, and how the participant's feeling moves.

Ghandeharioun et al. (2019), fact sheet section 1.2, with VADER (Hutto and Gilbert 2014) in the place of
DeepMoji: S(x) is VADER's compound score, and the emotion distribution whose cosine is the coherence is
VADER's (negative, neutral, positive) triple.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared


def slope_min_max(scores: np.ndarray) -> float:
    """Slope from the lowest to the highest score: (S_min − S_max) / (i_min − i_max).

    i counts the scores from the first on; undefined scores keep their place and are passed over. Positive
    when the lowest comes before the highest. Of equal lowest scores the first is taken, of equal highest
    the last, so a constant series has slope 0.

    Args:
        scores: (n,) in order, NaN where undefined.

    Returns:
        The slope, or NaN with fewer than two defined scores.
    """
    at = np.flatnonzero(~np.isnan(scores))
    if len(at) < 2:
        return float("nan")
    defined = scores[at]
    low = int(np.argmin(defined))
    high = len(defined) - 1 - int(np.argmax(defined[::-1]))
    if low == high:  # cannot be: equal scores would give the first and the last
        return float("nan")
    return float((defined[low] - defined[high]) / (at[low] - at[high]))


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of the rows of two (K, D) arrays: (K,), NaN where a row has no length."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    dots = np.einsum("kd,kd->k", a, b)
    found = np.divide(dots, norms, out=np.full(len(dots), np.nan), where=norms > 0)
    return np.clip(found, -1.0, 1.0)


@register_metric
class Sentiment(MetricDefaults):
    """Sentiment -U and -B, its transition, its min-max slope and the coherence of both sides."""

    name = "sentiment"
    title = "Sentiment"
    columns = (
        *per_turn(
            "sentiment_user",
            "Sentiment, participant",
            unit="1",
            range=(-1, 1),
            direction="higher",
            description="VADER's compound score of a participant's answer to the bot (Sentiment -U). "
            "The first message, which answers nothing, is left out. In self-play: of the next utterance.",
        ),
        *per_turn(
            "sentiment_bot",
            "Sentiment, bot",
            unit="1",
            range=(-1, 1),
            direction="neither",
            description="VADER's compound score of the bot's turn (Sentiment -B).",
        ),
        *per_turn(
            "sentiment_transition",
            "Sentiment transition, participant",
            unit="1",
            range=(-2, 2),
            direction="higher",
            description="Sentiment of the participant's message after the bot's turn minus the one before "
            "it (Sentiment Transition -U), stored at the later message; of a run of several messages the "
            "last is taken. In self-play: of consecutive utterances.",
        ),
        Column(
            "sentiment_minmax",
            "conversation",
            "Sentiment min-max slope, participant",
            "1 per exchange",
            (-2, 2),
            "higher",
            "Slope from the participant's lowest to the highest sentiment (Sentiment Min-Max -U): "
            "(S_min − S_max) / (i_min − i_max), i counting the participant's answers. Needs two answers.",
        ),
        *per_turn(
            "sentiment_coherence_user_bot",
            "Sentiment coherence, participant and bot",
            unit="cosine",
            range=(0, 1),
            direction="neither",
            description="Cosine of the emotion distributions of a message and the bot's reply (Sentiment "
            "Coherence -U/B); the distribution is VADER's negative, neutral and positive share. Of a run "
            "of several turns the last is taken. Stored at the reply. In self-play: of consecutive "
            "utterances.",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.sentiment import vader_identity

        return {"lexicon": vader_identity().as_dict()}

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        # Every turn takes part in something, the first message in a transition.
        score = shared.sentiment(layout.texts)
        share = shared.proportions(layout.texts)
        before, after = layout.transitions.T
        message, reply = layout.exchanges.T
        user = layout.spread(layout.user, score[layout.user])
        slopes = np.full(len(layout.conversations), np.nan)
        for number in np.unique(layout.conversation_of[layout.user]):
            slopes[number] = slope_min_max(
                score[layout.user[layout.conversation_of[layout.user] == number]]
            )
        return Measured(
            turns={
                "sentiment_user": user,
                "sentiment_bot": layout.spread(layout.bot, score[layout.bot]),
                "sentiment_transition": layout.spread(after, score[after] - score[before]),
                "sentiment_coherence_user_bot": layout.spread(
                    reply, cosine(share[message], share[reply])
                ),
            },
            conversations={"sentiment_minmax": slopes},
            reasons={
                "sentiment_user": _if(np.isnan(score[layout.user]), BLANK),
                "sentiment_bot": _if(np.isnan(score[layout.bot]), BLANK),
                "sentiment_transition": _if(np.isnan(score[after] - score[before]), BLANK),
                "sentiment_minmax": _if(np.isnan(slopes), "fewer than two answers to the bot"),
                "sentiment_coherence_user_bot": _if(
                    np.isnan(cosine(share[message], share[reply])), "a text has no word in it"
                ),
            },
        )


def _if(missing: np.ndarray, reason: str) -> tuple[str, ...]:
    return (reason,) if missing.any() else ()
