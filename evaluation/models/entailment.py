"""Networks of DialogEntailment: the base, BERT and ESIM.

Dziri, Kamalloo, Mathewson and Zaiane (2019), "Evaluating Coherence in Dialogue Systems using Entailment", NAACL: the
premise is the preceding context, the hypothesis the reply; entailment means coherent, neutral off-topic or dull,
contradiction incoherent. Numbers in brackets are sections of the fact sheet.

The released classifiers order their classes differently, so classes are matched by name: networks convert their own
order (`labels`) to that of `LABELS`.

DialogEntailment's BERT: both texts read together, one vector, three classes (fact sheet, section 3). Dziri et al.
(2019), NAACL; Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
NAACL. Any Hugging Face encoder can be used; its tokenizer chooses the separators.

DialogEntailment's ESIM: two texts are encoded separately, aligned word by word, compared, encoded again and pooled.
Chen et al. (2017), "Enhanced LSTM for Natural Language Inference", ACL (equation numbers are theirs), the sequential
variant, in the sizes of Dziri et al. (2019) (fact sheet, section 3). Their word vectors were ELMo's, which is no longer
available. Here they are the states of a frozen encoder or static word vectors, as recorded in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evaluation.training.backbone import Backbone
from evaluation.training.contract import ExampleLoss
from evaluation.training.inference_pairs import LABELS


@dataclass(frozen=True)
class NliBatch:
    """Batch of labelled pairs, as texts or vectors (B, d).

    Labels are (B,) indices of `LABELS`.
    """

    premise: Sequence[str] | Tensor
    hypothesis: Sequence[str] | Tensor
    label: Tensor


class EntailmentClassifier(nn.Module):
    """Base of the classifiers; derive from it, set `labels` and write `own_logits`.

    Attributes:
        labels: labels in the order of the network's own outputs.
        chosen_by: measure that selects its best weights, "accuracy" or "cross_entropy".
    """

    labels: tuple[str, ...] = LABELS
    chosen_by: str = "accuracy"

    def own_logits(self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor) -> Tensor:
        """Return (B, 3) logits in the network's own order."""
        raise NotImplementedError

    def forward(self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor) -> Tensor:
        """Return (B, 3) logits in the order of `LABELS`."""
        by_name = [self.labels.index(name) for name in LABELS]
        return self.own_logits(premise, hypothesis)[:, by_name]

    def probabilities(self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor) -> Tensor:
        """Return (B, 3) probabilities in the order of `LABELS`."""
        return self(premise, hypothesis).float().softmax(dim=1)

    def loss(self, batch: NliBatch) -> ExampleLoss:
        """Return the mean cross-entropy and the accuracy."""
        logits = self(batch.premise, batch.hypothesis)
        label = batch.label.to(logits.device)
        right = (logits.argmax(dim=1) == label).float().mean()
        return ExampleLoss(F.cross_entropy(logits, label), len(label), {"accuracy": right})


class EntailmentLite(EntailmentClassifier):
    """Softmax regression on frozen vectors of premise and hypothesis.

    The features are [u; v; |u − v|; u ∗ v] (10).

    Args:
        width: width of a vector, d.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(4 * width, len(LABELS))

    def own_logits(self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor) -> Tensor:
        assert isinstance(premise, Tensor)
        assert isinstance(hypothesis, Tensor)
        u, v = (vector.to(self.out.weight.device) for vector in (premise, hypothesis))
        return self.out(torch.cat([u, v, (u - v).abs(), u * v], dim=1))


INIT_STD = 0.02


class EntailmentBert(EntailmentClassifier):
    """BERT classifier of sentence pairs (3).

    [CLS] premise [SEP] hypothesis [SEP], truncated to 128 word pieces, the longer text first → pooled output → 3
    logits.

    Args:
        encoder: encoder with pooling "cls", the first token's last state, through the model's pooler if it has one.
        dropout: dropout of the pooled output.
    """

    labels = ("contradiction", "entailment", "neutral")

    def __init__(self, encoder: Backbone, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(encoder.width, len(self.labels))
        nn.init.normal_(self.out.weight, std=INIT_STD)
        nn.init.zeros_(self.out.bias)

    def own_logits(self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor) -> Tensor:
        assert not isinstance(premise, Tensor)
        assert not isinstance(hypothesis, Tensor)
        pooled = self.encoder(premise, hypothesis).pooled  # (B, H)
        return self.out(self.dropout(pooled))


HIDDEN = 300
DROPOUT = 0.5


class TokenVectorModel(Protocol):
    """Model that computes a vector for each word of a text."""

    width: int

    def __call__(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return (B, T, W) vectors and their (B, T) mask.

        The mask is 1 for tokens; every text has at least one.
        """
        ...


class EncoderVectors(nn.Module):
    """Last states of an encoder, including those of special tokens."""

    def __init__(self, encoder: Backbone) -> None:
        super().__init__()
        self.encoder, self.width = encoder, encoder.width

    def forward(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        states = self.encoder(texts)
        return states.tokens.float(), states.mask


class StaticVectors(nn.Module):
    """Static word vectors.

    A word without a vector is all zeros; a text without words is a single zero vector.

    Args:
        words: function that splits a text into words.
        vector: function that returns a word's vector or None.
        width: width of a vector.
        most: maximum number of words; the rest of the text is truncated.
    """

    def __init__(
        self,
        words: Callable[[str], Sequence[str]],
        vector: Callable[[str], np.ndarray | None],
        width: int,
        max_words: int,
    ) -> None:
        super().__init__()
        self.words, self.vector, self.width, self.most = words, vector, width, max_words
        self.device_of: Tensor
        self.register_buffer("device_of", torch.zeros(0), persistent=False)

    def forward(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        text_words = [list(self.words(text))[: self.most] or [""] for text in texts]
        longest = max(map(len, text_words))
        vectors = np.zeros((len(text_words), longest, self.width), dtype=np.float32)
        mask = np.zeros((len(text_words), longest), dtype=np.int64)
        for row, words in enumerate(text_words):
            mask[row, : len(words)] = 1
            for k, word in enumerate(words):
                vector = self.vector(word) if word else None
                if vector is not None:
                    vectors[row, k] = vector
        device = self.device_of.device
        return torch.from_numpy(vectors).to(device), torch.from_numpy(mask).to(device)


class Esim(EntailmentClassifier):
    """ESIM of two texts.

    Args:
        vectors: word vectors of width W.
        hidden: units h of each LSTM direction and of both ReLU layers.
        dropout: applied to words, to the input of the second LSTM, and before the output layer.
    """

    labels = ("entailment", "contradiction", "neutral")

    def __init__(self, vectors: TokenVectorModel, hidden: int = HIDDEN, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.vectors = vectors
        self.encode = nn.LSTM(vectors.width, hidden, batch_first=True, bidirectional=True)
        self.project = nn.Sequential(nn.Linear(8 * hidden, hidden), nn.ReLU())  # 2,400 → 300
        self.compose = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.decide = nn.Sequential(nn.Linear(8 * hidden, hidden), nn.ReLU(), nn.Dropout(dropout))  # 2,400 → 300
        self.out = nn.Linear(hidden, len(self.labels))
        self.dropout = dropout
        for name, parameter in self.named_parameters():
            if not name.startswith("vectors."):
                _begin(name, parameter)

    def own_logits(self, premise: Sequence[str] | Tensor, hypothesis: Sequence[str] | Tensor) -> Tensor:
        assert not isinstance(premise, Tensor)
        assert not isinstance(hypothesis, Tensor)
        (a, a_mask), (b, b_mask) = self.vectors(premise), self.vectors(hypothesis)
        return self.compared(a, a_mask, b, b_mask)

    def compared(self, a: Tensor, a_mask: Tensor, b: Tensor, b_mask: Tensor) -> Tensor:
        """Return (B, 3) logits of words, in the order of `labels`.

        Words are (B, T, W), their masks (B, T).
        """
        a = _read(self.encode, self._same_dropped(a), a_mask)  # ā, (1): (B, T, 2h)
        b = _read(self.encode, self._same_dropped(b), b_mask)  # b̄, (2)
        alike = a @ b.transpose(1, 2)  # e_ij = āᵢᵀ b̄ⱼ, (11)
        a_sees = _softmax(alike, b_mask) @ b  # ã, (12)
        b_sees = _softmax(alike.transpose(1, 2), a_mask) @ a  # b̃, (13)
        pooled = []
        for states, seen, mask in ((a, a_sees, a_mask), (b, b_sees, b_mask)):
            enhanced = torch.cat([states, seen, states - seen, states * seen], dim=2)  # m, (14), (15)
            again = _read(self.compose, self._same_dropped(self.project(enhanced)), mask)  # v, (16), (17)
            is_word = mask[..., None].to(again.dtype)
            mean = (again * is_word).sum(dim=1) / is_word.sum(dim=1)  # (18)
            maximum = again.masked_fill(is_word == 0, -torch.inf).amax(dim=1)  # (19)
            pooled += [mean, maximum]
        return self.out(self.decide(torch.cat(pooled, dim=1)))  # (20)

    def _same_dropped(self, states: Tensor) -> Tensor:
        """Drop the same dimensions for all words of a text, as released."""
        if not self.training or not self.dropout:
            return states
        dropout_mask = torch.full_like(states[:, :1], 1 - self.dropout).bernoulli() / (1 - self.dropout)
        return states * dropout_mask


def _read(lstm: nn.LSTM, states: Tensor, mask: Tensor) -> Tensor:
    """Return (B, T, 2h) states of a bidirectional LSTM; zeros at padding."""
    packed = pack_padded_sequence(states, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=states.shape[1])
    return outputs


def _softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return (B, T, S) attention over the second text's words.

    The second text's mask is (B, S).
    """
    return scores.masked_fill(mask[:, None] == 0, -torch.inf).softmax(dim=2)


def _begin(name: str, parameter: nn.Parameter) -> None:
    """Initialise a parameter (3).

    Xavier for weights, orthogonal for recurrent weights, zeros for biases, 1 for forget gates.
    """
    with torch.no_grad():
        if "weight_hh" in name:
            nn.init.orthogonal_(parameter)
        elif parameter.dim() > 1:
            nn.init.xavier_normal_(parameter)
        else:
            parameter.zero_()
            if "bias_hh" in name:  # gates are in the order input, forget, cell, output
                h = len(parameter) // 4
                parameter[h : 2 * h] = 1
