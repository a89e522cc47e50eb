"""Sources of the sentiment family: a score per text and a distribution over emotions.

Any emotion encoder of `chatbots/encoders` can be used (`EncoderFeelings`): S(x) = Σ_k w_k p_k(x), fact sheet section
1.2. VADER (Hutto and Gilbert 2014) has a score of its own and, for a distribution, its shares of negative,
neutral and positive words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chatbots.identity import Identity
from evaluation.metrics.shared import Shared, blank

if TYPE_CHECKING:
    from chatbots.encoders.emotion import EmotionEncoder


class Feelings(Protocol):
    """Interface of the models that read feelings from texts for the sentiment family."""

    @property
    def identity(self) -> Identity:
        """Identity of the model; known without loading it."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return the reason why it cannot be used here, or None."""
        ...

    def read(self, texts: Sequence[str], shared: Shared) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts' (N,) sentiment in [-1, 1] and (N, K) shares of emotions; NaN for a blank text."""
        ...


class EncoderFeelings:
    """Feelings by an emotion encoder.

    Args:
        encoder: gives it when it is first needed, so that importing a metric loads nothing.
    """

    def __init__(self, encoder: Callable[[], EmotionEncoder]) -> None:
        self._encoder = encoder

    @property
    def identity(self) -> Identity:
        return self._encoder().identity

    def unavailable_reason(self) -> str | None:
        return self._encoder().unavailable_reason()

    def read(self, texts: Sequence[str], shared: Shared) -> tuple[np.ndarray, np.ndarray]:
        encoder = self._encoder()
        told = np.array([not blank(text) for text in texts], dtype=bool)
        score = np.full(len(texts), np.nan)
        share = np.full((len(texts), len(encoder.labels)), np.nan)
        if told.any():
            p = emotions([t for t, keep in zip(texts, told, strict=True) if keep], encoder, shared)
            share[told] = p
            score[told] = encoder.sentiment(p)
        return score, share


def emotions(texts: Sequence[str], encoder: EmotionEncoder, shared: Shared) -> np.ndarray:
    """Return distributions over the encoder's emotions, (N, K); each text goes through it once.

    A head on the default sentence encoder is given the sentence vectors that metrics share, so a sentence and
    its emotions cost one encoding.
    """
    from chatbots.encoders.emotion import EmotionHead

    if isinstance(encoder, EmotionHead):
        return encoder.from_embeddings(shared.encode(texts))
    found = shared.once(encoder.identity.key, texts, encoder.encode, keep=True)
    return np.array(found).reshape(-1, len(encoder.labels))


class VaderFeelings:
    """Feelings by VADER's lexicon."""

    @property
    def identity(self) -> Identity:
        from chatbots.encoders.sentiment import vader_identity

        return vader_identity()

    def unavailable_reason(self) -> str | None:
        return None

    def read(self, texts: Sequence[str], shared: Shared) -> tuple[np.ndarray, np.ndarray]:
        from chatbots.encoders.sentiment import vader_details

        found = shared.once(self.identity.key, texts, vader_details)
        details = np.array(found, dtype=float).reshape(-1, 4)
        details[[blank(text) for text in texts]] = np.nan
        return details[:, 0], details[:, 1:]
