"""Texts as sequences of word vectors, which RUBER's recurrent encoder of sentences reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from chatbots.encoders.words import DIMENSION, word_vectors
from evaluation.metrics.tokens import tokenised

MOST_WORDS = 60
"""Of a text; a longer one keeps its last, which stand nearest to the reply."""


class WordBatch(NamedTuple):
    """Word vectors of texts, padded.

    Attributes:
        words: (B, T, W).
        lengths: (B,) how many of them are the text's, at least 1 each.
    """

    words: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)


class WordTexts:
    """Texts of which batches of word vectors are made; `texts[rows]` gives those of some rows.

    Words without a vector are left out; a text without any word that has one is a single vector of zeros.
    """

    width = DIMENSION

    def __init__(self, texts: Sequence[str]) -> None:
        look_up = word_vectors().lookup
        rows: dict[str, int] = {}
        known = [np.zeros(DIMENSION, dtype=np.float32)]
        self._texts = []
        for words in tokenised([text.lower() for text in texts]):
            for word in words:
                if word not in rows:
                    found = look_up(word)
                    rows[word] = 0 if found is None else len(known)
                    if found is not None:
                        known.append(found)
            numbers = [rows[word] for word in words if rows[word]][-MOST_WORDS:]
            self._texts.append(np.array(numbers or [0]))
        self._vectors = np.stack(known)

    def __len__(self) -> int:
        return len(self._texts)

    def lengths(self) -> np.ndarray:
        """Return the number of vectors of each text, (N,)."""
        return np.array([len(one) for one in self._texts])

    def __getitem__(self, rows: np.ndarray) -> WordBatch:
        texts = [self._texts[row] for row in rows]
        lengths = [len(one) for one in texts]
        padded = np.zeros((len(texts), max(lengths, default=1)), dtype=int)
        for k, one in enumerate(texts):
            padded[k, : len(one)] = one
        return WordBatch(torch.from_numpy(self._vectors[padded]), torch.tensor(lengths))
