"""Sentiment and emotions of participant and bot.

Sources: each gives a score per text and a distribution over emotions. Any emotion encoder of `chatbots/encoders` can be
used (`EncoderEmotionSource`): S(x) = Σ_k w_k p_k(x), fact sheet section 1.2. VADER (Hutto and Gilbert 2014) provides
its own score; its shares of negative, neutral and positive words serve as the distribution.

Sentiment family: Ghandeharioun et al. (2019), fact sheet section 1.2, with any source of emotions (`EmotionSource`):
Confab's own emotion encoder by default, DeepMoji as in the paper if its files are available, or VADER's lexicon.

Emotions: the logarithm of the mean share of each of the 28 emotions in the participant's answers. Shares are close to 0
and differ by orders of magnitude, hence the logarithm; `FLOOR` keeps the logarithm of 0 finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import Field

from chatbots.encoders.emotion import LABELS
from chatbots.identity import Identity
from chatbots.validation import InputModel
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import CHOSEN_LICENCE, ConfiguredMetric, Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import BLANK, TextCache, blank

if TYPE_CHECKING:
    from chatbots.encoders.emotion import EmotionEncoder


class EmotionSource(Protocol):
    """Interface of models that estimate emotions in texts for the sentiment family."""

    @property
    def identity(self) -> Identity:
        """Identity of the model; available without loading it."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return the reason why the model cannot be used here, or None."""
        ...

    def read(self, texts: Sequence[str], shared: TextCache) -> tuple[np.ndarray, np.ndarray]:
        """Return sentiment (N,) in [-1, 1] and emotions (N, K).

        NaN for blank texts.
        """
        ...


class EncoderEmotionSource:
    """Emotions by an emotion encoder.

    Args:
        encoder: returns the encoder when it is first needed, so that importing a metric loads nothing.
    """

    def __init__(self, encoder: Callable[[], EmotionEncoder]) -> None:
        self._encoder = encoder

    @property
    def identity(self) -> Identity:
        return self._encoder().identity

    def unavailable_reason(self) -> str | None:
        return self._encoder().unavailable_reason()

    def read(self, texts: Sequence[str], shared: TextCache) -> tuple[np.ndarray, np.ndarray]:
        encoder = self._encoder()
        is_text = np.array([not blank(text) for text in texts], dtype=bool)
        score = np.full(len(texts), np.nan)
        share = np.full((len(texts), len(encoder.labels)), np.nan)
        if is_text.any():
            p = emotions([t for t, keep in zip(texts, is_text, strict=True) if keep], encoder, shared)
            share[is_text] = p
            score[is_text] = encoder.sentiment(p)
        return score, share


def emotions(texts: Sequence[str], encoder: EmotionEncoder, shared: TextCache) -> np.ndarray:
    """Return distributions over the encoder's emotions, (N, K).

    Each distinct text is encoded once.

    A head on the default sentence encoder reuses the sentence vectors shared by all metrics, so each sentence is
    encoded once.
    """
    from chatbots.encoders.emotion import EmotionHead

    if isinstance(encoder, EmotionHead):
        return encoder.from_embeddings(shared.encode(texts))
    distributions = shared.once(encoder.identity.key, texts, encoder.encode, keep=True)
    return np.array(distributions).reshape(-1, len(encoder.labels))


class VaderEmotionSource:
    """Emotions by VADER's lexicon."""

    @property
    def identity(self) -> Identity:
        from chatbots.encoders.emotion import vader_identity

        return vader_identity()

    def unavailable_reason(self) -> str | None:
        return None

    def read(self, texts: Sequence[str], shared: TextCache) -> tuple[np.ndarray, np.ndarray]:
        from chatbots.encoders.emotion import vader_details

        scores = shared.once(self.identity.key, texts, vader_details)
        details = np.array(scores, dtype=float).reshape(-1, 4)
        details[[blank(text) for text in texts]] = np.nan
        return details[:, 0], details[:, 1:]


FEW_ANSWERS = "fewer than two answers to the bot"


def slope_min_max(scores: np.ndarray) -> float:
    """Compute the slope between the lowest and the highest score.

    (S_min − S_max) / (i_min − i_max)

    i counts the scores from the first one; undefined scores keep their position and are skipped. The slope is positive
    if the lowest comes before the highest. Ties are broken by taking the first of the lowest and the last of the
    highest scores, so a constant series has slope 0.

    Args:
        scores: (n,) in order, NaN if undefined.

    Returns:
        The slope, or NaN with fewer than two defined scores.
    """
    positions = np.flatnonzero(~np.isnan(scores))
    if len(positions) < 2:
        return float("nan")
    defined = scores[positions]
    low = int(np.argmin(defined))
    high = len(defined) - 1 - int(np.argmax(defined[::-1]))
    return float((defined[low] - defined[high]) / (positions[low] - positions[high]))


def variance(scores: np.ndarray) -> float:
    """Compute the population variance of the defined scores.

    NaN with fewer than two.
    """
    defined = scores[~np.isnan(scores)]
    return float(np.var(defined)) if len(defined) > 1 else float("nan")


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute the cosines of the rows of two (K, D) arrays: (K,).

    NaN for a zero row.
    """
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    dots = np.einsum("kd,kd->k", a, b)
    cosines = np.divide(dots, norms, out=np.full(len(dots), np.nan), where=norms > 0)
    return np.clip(cosines, -1.0, 1.0)


def sentiment_columns(prefix: str, score: str, title: str, shares: str) -> tuple[Column, ...]:
    """Return the columns of a sentiment family.

    Args:
        prefix: prefix of all column names.
        score: description of the score, such as "VADER's compound score".
        title: appended to titles to distinguish families; "" for the default one.
        shares: distribution whose cosine is the coherence.
    """

    def make_title(text: str) -> str:
        return f"{text} ({title})" if title else text

    return (
        *per_turn(
            f"{prefix}_user",
            make_title("Sentiment, participant"),
            unit="1",
            range=(-1, 1),
            direction="higher",
            description=(
                f"{score} of a participant's answer to the bot (Sentiment -U). A first message that answers nothing "
                "is excluded. In self-play: of the next utterance."
            ),
        ),
        *per_turn(
            f"{prefix}_bot",
            make_title("Sentiment, bot"),
            unit="1",
            range=(-1, 1),
            direction="neither",
            description=f"{score} of the bot's turn (Sentiment -B).",
        ),
        *per_turn(
            f"{prefix}_transition",
            make_title("Sentiment transition, participant"),
            unit="1",
            range=(-2, 2),
            direction="higher",
            description="Sentiment of the participant's message after the bot's turn minus the one before it "
            "(Sentiment "
            "Transition -U), stored at the later message. If a speaker writes several messages in a row, the "
            "last one is used. In self-play: for consecutive utterances.",
        ),
        Column(
            f"{prefix}_minmax",
            "conversation",
            make_title("Sentiment min-max slope, participant"),
            "1 per exchange",
            (-2, 2),
            "higher",
            "Slope from the participant's lowest to the highest sentiment (Sentiment Min-Max -U): (S_min − "
            "S_max) / (i_min − i_max), where i counts the participant's answers. Requires two answers.",
        ),
        *per_turn(
            f"{prefix}_coherence_user_bot",
            make_title("Sentiment coherence, participant and bot"),
            unit="cosine",
            range=(0, 1),
            direction="neither",
            description="Cosine of the emotion distributions of a message and the bot's reply (Sentiment "
            "Coherence -U/B); "
            f"the distribution is {shares}. If a speaker writes several turns in a row, the last one is used. "
            "Stored at the reply. In self-play: for consecutive utterances.",
        ),
        Column(
            f"{prefix}_variance_user",
            "conversation",
            make_title("Sentiment variance, participant"),
            "1",
            (0, 1),
            "neither",
            "Population variance of the participant's sentiment over the answers to the bot. Requires two answers.",
        ),
        Column(
            f"{prefix}_auc_user",
            "conversation",
            make_title("Sentiment gained, participant"),
            "1",
            (None, None),
            "higher",
            "Sum of the sentiment transitions of a conversation (the 2019 code's AUC): the total rise of the "
            "participant's sentiment.",
        ),
    )


class SentimentFamily(MetricDefaults):
    """Columns of sentiment and its changes from one source of emotions.

    Sentiment -U and -B, transition, min-max slope, coherence, variance and AUC.

    A subclass defines its name, its `prefix`, its `feelings` and its columns.
    """

    prefix: str
    feelings: EmotionSource

    @property
    def params(self) -> dict[str, Any]:
        return {"feelings": self.feelings.identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        return self.feelings.unavailable_reason()

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        # Score every turn, because even the first message is part of a transition.
        score, share = self.feelings.read(layout.texts, shared)
        before, after = layout.transitions.T
        message, reply = layout.exchanges.T
        transition = score[after] - score[before]
        coherence = cosine(share[message], share[reply])
        answers = [score[turns] for turns in layout.by_conversation(layout.user)]
        slopes = np.array([slope_min_max(scores) for scores in answers])
        spreads = np.array([variance(scores) for scores in answers])
        n = len(layout.conversations)
        is_defined = ~np.isnan(transition)
        owner = layout.conversation_of[after[is_defined]]
        gained = np.bincount(owner, weights=transition[is_defined], minlength=n).astype(float)
        gained[np.bincount(owner, minlength=n) == 0] = np.nan
        by_name = {
            "user": (layout.user, score[layout.user], BLANK),
            "bot": (layout.bot, score[layout.bot], BLANK),
            "transition": (after, transition, BLANK),
            "coherence_user_bot": (reply, coherence, "a text is blank or contains no word"),
        }
        by_conversation = {
            "minmax": (slopes, FEW_ANSWERS),
            "variance_user": (spreads, FEW_ANSWERS),
            "auc_user": (gained, "the bot has no turn with a message before and after it"),
        }
        return Measured(
            turns={
                f"{self.prefix}_{name}": layout.spread(turns, values) for name, (turns, values, _) in by_name.items()
            },
            conversations={f"{self.prefix}_{name}": values for name, (values, _) in by_conversation.items()},
            reasons={
                **{f"{self.prefix}_{name}": missing(values, reason) for name, (_, values, reason) in by_name.items()},
                **{
                    f"{self.prefix}_{name}": missing(values, reason)
                    for name, (values, reason) in by_conversation.items()
                },
            },
        )


def default_emotions() -> EmotionEncoder:
    """Return the emotion encoder behind `sentiment`, Confab's own head."""
    from chatbots.encoders.emotion import emotion_encoder

    return emotion_encoder()


@register_metric
class Sentiment(SentimentFamily):
    """Sentiment family by the shipped emotion encoder."""

    has_network = True
    licence = "Apache-2.0 (MiniLM, and the emotion head on it)"
    name = "sentiment"
    languages = ("en",)
    title = "Sentiment"
    version = "2"
    prefix = "sentiment"
    feelings = EncoderEmotionSource(default_emotions)
    columns = sentiment_columns(
        prefix,
        "Σ w_k p_k over the 28 emotions of the shipped emotion head (GoEmotions on MiniLM), where w_k is the "
        "pleasantness of each,",
        "",
        "the head's over 28 emotions",
    )


@register_metric
class VaderSentiment(SentimentFamily):
    """Sentiment family by VADER's lexicon; on request."""

    name = "vader"
    languages = ("en",)
    title = "Sentiment by VADER"
    default = False
    prefix = "vader"
    feelings = VaderEmotionSource()
    columns = sentiment_columns(
        prefix, "VADER's compound score", "VADER", "VADER's shares of negative, neutral and positive words"
    )


class DeepMojiOptions(InputModel):
    """Options of an entry of `metrics.yaml`."""

    weights: str = Field(min_length=1, description="file with torchMoji's weights")
    vocabulary: str = Field(min_length=1, description="torchMoji's `vocabulary.json`")
    device: str = Field("cpu", description="device to compute on")


@register_metric
class DeepMojiSentiment(SentimentFamily, ConfiguredMetric):
    """Sentiment by DeepMoji's 64 emoji and the paper's weights; on request."""

    has_network = True
    needs = ("torchMoji's weights and vocabulary",)
    licence = CHOSEN_LICENCE
    kind = "deepmoji"
    usual_title = "DeepMoji"
    languages = ("en",)
    options_type = DeepMojiOptions
    options: DeepMojiOptions | None

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.prefix = self.name
        self.columns = sentiment_columns(
            self.name, "Σ w_k p_k over DeepMoji's 64 emoji, with the paper's weights,", self.title, "DeepMoji's"
        )
        self.title = f"Sentiment by {self.title}"
        if chosen := self.options:
            from chatbots.encoders.deepmoji import DeepMojiEncoder

            encoder = DeepMojiEncoder(chosen.weights, chosen.vocabulary, chosen.device)
            self.feelings = EncoderEmotionSource(lambda: encoder)

    @property
    def params(self) -> dict[str, Any]:
        # Missing files have no digest to compare.
        return super().params if self.unavailable_reason() is None else {"feelings": None}

    def unavailable_reason(self) -> str | None:
        if self.options is None:
            return (
                "its files are not specified; name them in metrics.yaml (kind: deepmoji, params: "
                "{weights: path, vocabulary: path})"
            )
        return super().unavailable_reason()


FLOOR = 0.001
"""Constant added to a mean share before taking its logarithm."""


def _column(label: str) -> Column:
    return Column(
        f"emotion_{label}_user",
        "conversation",
        f"{label.capitalize()} in the answers",
        "log share",
        (float(np.log(FLOOR)), float(np.log(1 + FLOOR))),
        "neither",
        f"log(p + {FLOOR}), where p is the mean share of {label} among the 28 emotions that the shipped head "
        "estimates for the participant's answers to the bot. In self-play: for the next utterances.",
    )


@register_metric
class Emotions(MetricDefaults):
    """Share of each emotion in the participant's answers."""

    name = "emotions"
    has_network = True
    licence = "Apache-2.0 (MiniLM, and the emotion head on it)"
    languages = ("en",)
    title = "Emotions of the participant"
    columns = tuple(_column(label) for label in LABELS)
    ingredient = True

    @property
    def params(self) -> dict[str, Any]:
        return {"feelings": EncoderEmotionSource(default_emotions).identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        return EncoderEmotionSource(default_emotions).unavailable_reason()

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        _, share = EncoderEmotionSource(default_emotions).read(layout.texts_at(layout.user), shared)
        means = {
            column.name: np.log(layout.mean(layout.spread(layout.user, share[:, k])) + FLOOR)
            for k, column in enumerate(self.columns)
        }
        return Measured(
            turns={}, conversations=means, reasons={name: missing(values, BLANK) for name, values in means.items()}
        )
