"""Sentiment family: sentiment of participant and bot, and changes of the participant's.

Ghandeharioun et al. (2019), fact sheet section 1.2, by any source of feelings (`feelings.py`): the emotion
encoder of our own by default, DeepMoji as the paper has it where its files are, and VADER's lexicon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.feelings import EncoderFeelings, Feelings, VaderFeelings
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import BLANK, Shared

if TYPE_CHECKING:
    from chatbots.encoders.emotion import EmotionEncoder

FEW_ANSWERS = "fewer than two answers to the bot"


def slope_min_max(scores: np.ndarray) -> float:
    """Compute the slope from the lowest to the highest score: (S_min − S_max) / (i_min − i_max).

    i counts the scores from the first on; undefined scores keep their place and are passed over. The slope is
    positive when the lowest comes before the highest. Of equal lowest scores the first is taken, of equal
    highest the last, so that a constant series has slope 0.

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
    return float((defined[low] - defined[high]) / (at[low] - at[high]))


def variance(scores: np.ndarray) -> float:
    """Compute the population variance of the defined scores, NaN with fewer than two of them."""
    defined = scores[~np.isnan(scores)]
    return float(np.var(defined)) if len(defined) > 1 else float("nan")


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute the cosine of the rows of two (K, D) arrays: (K,), NaN where a row has no length."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    dots = np.einsum("kd,kd->k", a, b)
    found = np.divide(dots, norms, out=np.full(len(dots), np.nan), where=norms > 0)
    return np.clip(found, -1.0, 1.0)


def sentiment_columns(prefix: str, by: str, title: str, shares: str) -> tuple[Column, ...]:
    """Return the columns of one family.

    Args:
        prefix: beginning of all names.
        by: the score, for descriptions: "VADER's compound score".
        title: appended to titles, to distinguish families; "" for the default one.
        shares: the distribution whose cosine is the coherence.
    """

    def named(text: str) -> str:
        return f"{text} ({title})" if title else text

    return (
        *per_turn(
            f"{prefix}_user",
            named("Sentiment, participant"),
            unit="1",
            range=(-1, 1),
            direction="higher",
            description=f"{by} of a participant's answer to the bot (Sentiment -U). The first message, "
            "which answers nothing, is left out. In self-play: of the next utterance.",
        ),
        *per_turn(
            f"{prefix}_bot",
            named("Sentiment, bot"),
            unit="1",
            range=(-1, 1),
            direction="neither",
            description=f"{by} of the bot's turn (Sentiment -B).",
        ),
        *per_turn(
            f"{prefix}_transition",
            named("Sentiment transition, participant"),
            unit="1",
            range=(-2, 2),
            direction="higher",
            description="Sentiment of the participant's message after the bot's turn minus the one before "
            "it (Sentiment Transition -U), stored at the later message; of a run of several messages the "
            "last is taken. In self-play: of consecutive utterances.",
        ),
        Column(
            f"{prefix}_minmax",
            "conversation",
            named("Sentiment min-max slope, participant"),
            "1 per exchange",
            (-2, 2),
            "higher",
            "Slope from the participant's lowest to the highest sentiment (Sentiment Min-Max -U): "
            "(S_min − S_max) / (i_min − i_max), i counting the participant's answers. Needs two answers.",
        ),
        *per_turn(
            f"{prefix}_coherence_user_bot",
            named("Sentiment coherence, participant and bot"),
            unit="cosine",
            range=(0, 1),
            direction="neither",
            description="Cosine of the emotion distributions of a message and the bot's reply (Sentiment "
            f"Coherence -U/B); the distribution is {shares}. Of a run of several turns the last is taken. "
            "Stored at the reply. In self-play: of consecutive utterances.",
        ),
        Column(
            f"{prefix}_variance_user",
            "conversation",
            named("Sentiment variance, participant"),
            "1",
            (0, 1),
            "neither",
            "Population variance of the participant's sentiment over the answers to the bot. Needs two "
            "answers.",
        ),
        Column(
            f"{prefix}_auc_user",
            "conversation",
            named("Sentiment gained, participant"),
            "1",
            (None, None),
            "higher",
            "Sum of the sentiment transitions of a conversation (the 2019 code's AUC): how much the "
            "participant's sentiment has risen in all.",
        ),
    )


class SentimentFamily(MetricDefaults):
    """Sentiment -U and -B, transition, min-max slope, coherence, variance and AUC of one source.

    A subclass names itself, its `prefix`, its `feelings` and its columns.
    """

    prefix: str
    feelings: Feelings

    @property
    def params(self) -> dict[str, Any]:
        return {"feelings": self.feelings.identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        return self.feelings.unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        # Every turn takes part in something, the first message in a transition.
        score, share = self.feelings.read(layout.texts, shared)
        before, after = layout.transitions.T
        message, reply = layout.exchanges.T
        transition = score[after] - score[before]
        coherence = cosine(share[message], share[reply])
        answers = [score[turns] for turns in layout.by_conversation(layout.user)]
        slopes = np.array([slope_min_max(scores) for scores in answers])
        spreads = np.array([variance(scores) for scores in answers])
        n = len(layout.conversations)
        told = ~np.isnan(transition)
        owner = layout.conversation_of[after[told]]
        gained = np.bincount(owner, weights=transition[told], minlength=n).astype(float)
        gained[np.bincount(owner, minlength=n) == 0] = np.nan
        by_name = {
            "user": (layout.user, score[layout.user], BLANK),
            "bot": (layout.bot, score[layout.bot], BLANK),
            "transition": (after, transition, BLANK),
            "coherence_user_bot": (reply, coherence, "a text is blank or has no word in it"),
        }
        whole = {
            "minmax": (slopes, FEW_ANSWERS),
            "variance_user": (spreads, FEW_ANSWERS),
            "auc_user": (gained, "no message before and after a turn of the bot"),
        }
        return Measured(
            turns={
                f"{self.prefix}_{name}": layout.spread(turns, values)
                for name, (turns, values, _) in by_name.items()
            },
            conversations={f"{self.prefix}_{name}": values for name, (values, _) in whole.items()},
            reasons={
                **{
                    f"{self.prefix}_{name}": missing(values, reason)
                    for name, (_, values, reason) in by_name.items()
                },
                **{
                    f"{self.prefix}_{name}": missing(values, reason)
                    for name, (values, reason) in whole.items()
                },
            },
        )


def default_emotions() -> EmotionEncoder:
    """Return the emotion encoder that `sentiment` is made with: our own head on the sentence encoder."""
    from chatbots.encoders.emotion import emotion_encoder

    return emotion_encoder()


@register_metric
class Sentiment(SentimentFamily):
    """The sentiment family by the emotion encoder that is shipped."""

    has_network = True
    licence = "Apache-2.0 (MiniLM, and the emotion head on it)"
    name = "sentiment"
    languages = ("en",)
    title = "Sentiment"
    version = "2"
    prefix = "sentiment"
    feelings = EncoderFeelings(default_emotions)
    columns = sentiment_columns(
        prefix,
        "Σ w_k p_k over the 28 emotions of the shipped emotion head (GoEmotions on MiniLM), w_k how pleasant "
        "each is,",
        "",
        "the head's over 28 emotions",
    )


@register_metric
class VaderSentiment(SentimentFamily):
    """The sentiment family by VADER's lexicon; on request."""

    name = "vader"
    languages = ("en",)
    title = "Sentiment by VADER"
    default = False
    prefix = "vader"
    feelings = VaderFeelings()
    columns = sentiment_columns(
        prefix, "VADER's compound score", "VADER", "VADER's negative, neutral and positive share"
    )
