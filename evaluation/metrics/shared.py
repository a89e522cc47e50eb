"""What the metrics of one run share, so that no text is encoded, scored or tokenised twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chatbots.encoders.emotion import EmotionEncoder
    from chatbots.encoders.sentence import CachedEncoder, SentenceEncoder

BLANK = "the text is blank"


def blank(text: str) -> bool:
    """No character but white space: nothing a metric could describe."""
    return not text.strip()


class Shared:
    """Results about single texts, kept for the length of a run. Loads an encoder at its first use.

    Args:
        device: where the default sentence encoder computes ("cpu", "cuda", "cuda:1").
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._encoder: CachedEncoder | None = None
        self._encoders: dict[str, CachedEncoder] = {}
        self._vader: dict[str, np.ndarray] = {}
        self._emotions: dict[str, dict[str, np.ndarray]] = {}
        self._tokens: dict[str, tuple[str, ...]] = {}
        self._lower_tokens: dict[str, tuple[str, ...]] = {}
        self._tokenise: Callable[[str], list[str]] | None = None

    @property
    def encoder(self) -> CachedEncoder:
        """The default sentence encoder, which within this run encodes a text once."""
        if self._encoder is None:
            from chatbots.encoders.sentence import CachedEncoder, sentence_encoder

            self._encoder = CachedEncoder(sentence_encoder(self.device))
        return self._encoder

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) sentence vectors of length 1. New distinct texts are encoded, sorted by length."""
        return self.encoder.encode(texts)

    def encode_by(self, encoder: SentenceEncoder, texts: Sequence[str]) -> np.ndarray:
        """(N, D) vectors of another sentence encoder, each text once a run."""
        key = encoder.identity.key
        if key not in self._encoders:
            from chatbots.encoders.sentence import CachedEncoder

            self._encoders[key] = CachedEncoder(encoder)
        return self._encoders[key].encode(texts)

    def emotions(self, encoder: EmotionEncoder, texts: Sequence[str]) -> np.ndarray:
        """(N, K) distributions over the encoder's emotions; each text goes through it once a run.

        A head on the default sentence encoder is given the sentence vectors of this run, so the sentence
        and its emotions cost one encoding.
        """
        from chatbots.encoders.emotion import EmotionHead

        if isinstance(encoder, EmotionHead):
            return encoder.from_embeddings(self.encode(texts))
        known = self._emotions.setdefault(encoder.identity.key, {})
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, encoder.encode(new), strict=True))
        return np.array([known[text] for text in texts]).reshape(-1, len(encoder.labels))

    def vader(self, texts: Sequence[str]) -> np.ndarray:
        """(N, 4) VADER's compound score, and its negative, neutral and positive share of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vader]
        if new:
            from chatbots.encoders.sentiment import vader_details

            self._vader.update(zip(new, vader_details(new), strict=True))
        return np.array([self._vader[text] for text in texts], dtype=float).reshape(-1, 4)

    def tokens(self, text: str) -> tuple[str, ...]:
        """NLTK's word tokens, case kept.

        `nltk.word_tokenize` splits sentences first, with data that must be downloaded; the tokenizer
        beneath it needs none. They differ only in a full stop before another sentence of the same text.
        """
        found = self._tokens.get(text)
        if found is None:
            if self._tokenise is None:
                from nltk.tokenize import NLTKWordTokenizer

                self._tokenise = NLTKWordTokenizer().tokenize
            found = self._tokens[text] = tuple(self._tokenise(text))
        return found

    def lower_tokens(self, text: str) -> tuple[str, ...]:
        """The word tokens in lower case. (NLTK's rules look at no capital, so the order is no matter.)"""
        found = self._lower_tokens.get(text)
        if found is None:
            found = self._lower_tokens[text] = tuple(token.lower() for token in self.tokens(text))
        return found
