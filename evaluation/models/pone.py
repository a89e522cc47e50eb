"""Scorer network of PONE, BERT-RUBER and RUBER, and its word input.

PONE: Lan et al. 2020, "PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue Systems", ACM
TOIS. BERT-RUBER: Ghazarian et al. 2019, "Better Automatic Evaluation of Open-Domain Dialogue Systems with
Contextualized Embeddings", NeuralGen. RUBER: Tao et al. 2018, "RUBER: An Unsupervised Method for Automatic
Evaluation of Open-Domain Dialog Systems", AAAI. Numbers in brackets are sections of the fact sheet, which gives
their equations.

All three share one network. They differ in the sentence vectors (a frozen encoder's, or a jointly trained recurrent
encoder's), the loss, and the training examples (`evaluation/training/pone_data.py`):

| | sentences | loss | negatives | positives | labels filtered |
|---|---|---|---|---|---|
| RUBER | recurrent | hinge | random | true ones | no |
| BERT-RUBER | frozen | cross-entropy | random | true ones | no |
| PONE | frozen | cross-entropy | weighted | true and augmented ones | yes |

RUBER's recurrent sentence encoder reads sequences of word vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chatbots.encoders.word_vectors import WORD_DIMENSION, word_vectors
from evaluation.metrics.text_cache import tokenised

Init = Literal["identity", "xavier", "uniform"]
LossKind = Literal["cross_entropy", "hinge"]
Blend = Literal["min", "max", "arithmetic", "geometric"]
HIDDEN = (256, 512, 128)


class PoneScorer(nn.Module):
    """Scorer f(q, h): features [q ; qᵀMh ; h], ReLU layers and sigmoid.

    Args:
        width: width of a sentence vector, d.
        hidden: units of the layers between the 2d + 1 features and the score.
        dropout: applied after each of these layers.
        init: initial M. The released code draws from [0, 1), so all entries are positive; the identity makes qᵀMh a dot
            product at first.
    """

    def __init__(
        self, width: int, hidden: Sequence[int] = HIDDEN, dropout: float = 0.5, init: Init = "identity"
    ) -> None:
        super().__init__()
        start = torch.empty(width, width)
        if init == "identity":
            nn.init.eye_(start)
        elif init == "xavier":
            nn.init.xavier_uniform_(start)
        else:
            nn.init.uniform_(start)
        self.bilinear = nn.Parameter(start)
        layers: list[nn.Module] = []
        n = 2 * width + 1
        for units in hidden:
            layers += [nn.Linear(n, units), nn.ReLU(), nn.Dropout(dropout)]
            n = units
        self.layers = nn.Sequential(*layers, nn.Linear(n, 1))

    def features(self, query: Tensor, response: Tensor) -> Tensor:
        """Return features [q ; qᵀMh ; h], (B, 2d + 1), of (B, d) vectors.

        Fact sheet (2, "Features").
        """
        between = ((query @ self.bilinear) * response).sum(dim=1, keepdim=True)  # qᵀ M h
        return torch.cat([query, between, response], dim=1)

    def forward(self, query: Tensor, response: Tensor) -> Tensor:
        """Return (B,) scores before the sigmoid (2, "MLP")."""
        return self.layers(self.features(query, response)).squeeze(1)


class RecurrentSentences(nn.Module):
    """RUBER's sentence vectors.

    They concatenate the last states of a bidirectional GRU over frozen word vectors.

    Args:
        word_width: width of a word vector.
        width: width of a sentence vector, even.
    """

    def __init__(self, word_width: int, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"width is {width}; both directions share it, so it must be even")
        self.gru = nn.GRU(word_width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode padded words, (B, T, W), to text vectors, (B, d).

        `lengths` (B,) are the numbers of words, at least 1 each.
        """
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)  # (2, B, d/2)
        return torch.cat([last[0], last[1]], dim=1)


def scorer_loss(positive: Tensor, negative: Tensor, kind: LossKind = "cross_entropy", margin: float = 0.5) -> Tensor:
    """Return the mean loss of a batch of scores before the sigmoid.

    Args:
        positive: (P,) scores of fitting responses.
        negative: (N,) scores of others; for the hinge N = P, in the order of the positives.
        kind: "cross_entropy", binary, mean over all P + N (2, "Loss"); or "hinge" on the probabilities, as in RUBER:
            max(0, margin − f(q, r) + f(q, r⁻)).
    """
    if kind == "hinge":
        return F.relu(margin - positive.sigmoid() + negative.sigmoid()).mean()
    labels = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)])
    return F.binary_cross_entropy_with_logits(torch.cat([positive, negative]), labels)


def labelled_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of (B,) scores and labels.

    Scores are before the sigmoid, labels 0 or 1.
    """
    return F.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))


def accuracy(positive: Tensor, negative: Tensor) -> float:
    """Return the share of scores on the correct side of ½.

    The arguments are scores before the sigmoid.
    """
    right = (positive > 0).sum() + (negative <= 0).sum()
    return float(right) / (len(positive) + len(negative))


def pooled_words(words: np.ndarray) -> np.ndarray:
    """Return RUBER's pooled vector (2W,) of a text.

    Maximum and minimum of each dimension of (T, W) word vectors.
    """
    return np.concatenate([words.max(axis=0), words.min(axis=0)])


def ruber_blend(unreferenced: np.ndarray, referenced: np.ndarray, kind: Blend = "min") -> np.ndarray:
    """Return RUBER's blend of both parts.

    Each part is scaled to 0 … 1 over the evaluated set; then each response gets the minimum.

    Args:
        unreferenced, referenced: (N,) scores of the same responses.
        kind: "min" as published, or another mean of the two.

    Returns:
        (N,); all NaN if a part is constant, because its scale is then undefined.
    """
    scaled = []
    for values in (unreferenced, referenced):
        spread = np.ptp(values)
        scaled.append((values - values.min()) / spread if spread > 0 else np.full(len(values), np.nan))
    a, b = scaled
    if kind == "min":
        return np.minimum(a, b)
    if kind == "max":
        return np.maximum(a, b)
    return (a + b) / 2 if kind == "arithmetic" else np.sqrt(a * b)


MOST_WORDS = 60
"""Maximum number of words of a text; a longer one keeps its last words, which are nearest to the reply."""


class WordBatch(NamedTuple):
    """Padded word vectors of texts.

    Attributes:
        words: (B, T, W).
        lengths: (B,) numbers of words without padding, at least 1 each.
    """

    words: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)


class WordTexts:
    """Texts as batches of word vectors; `texts[rows]` selects rows.

    Words without a vector are skipped; a text without any known word is a single zero vector.
    """

    width = WORD_DIMENSION

    def __init__(self, texts: Sequence[str]) -> None:
        look_up = word_vectors().lookup
        rows: dict[str, int] = {}
        known = [np.zeros(WORD_DIMENSION, dtype=np.float32)]
        self._texts = []
        for words in tokenised([text.lower() for text in texts]):
            for word in words:
                if word not in rows:
                    vector = look_up(word)
                    rows[word] = 0 if vector is None else len(known)
                    if vector is not None:
                        known.append(vector)
            numbers = [rows[word] for word in words if rows[word]][-MOST_WORDS:]
            self._texts.append(np.array(numbers or [0]))
        self._vectors = np.stack(known)

    def __len__(self) -> int:
        return len(self._texts)

    def lengths(self) -> np.ndarray:
        """Return the number of vectors of each text, (N,)."""
        return np.array([len(numbers) for numbers in self._texts])

    def __getitem__(self, rows: np.ndarray) -> WordBatch:
        texts = [self._texts[row] for row in rows]
        lengths = [len(numbers) for numbers in texts]
        padded = np.zeros((len(texts), max(lengths, default=1)), dtype=int)
        for k, numbers in enumerate(texts):
            padded[k, : len(numbers)] = numbers
        return WordBatch(torch.from_numpy(self._vectors[padded]), torch.tensor(lengths))
