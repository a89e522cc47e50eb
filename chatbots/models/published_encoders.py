"""Networks of the published encoders DeepMoji and InferSent.

DeepMoji maps the word ids of a text to scores of 64 emoji. Felbo et al. (2017), "Using millions of emoji occurrences to
learn any-domain representations for detecting sentiment, emotion and sarcasm", EMNLP. Parameter names follow Hugging
Face's port torchMoji, so its published weight file loads unchanged. The LSTMs' gates use the hard sigmoid clip(0.2 x +
0.5, 0, 1) of early Keras; `torch.nn.LSTM` does not reproduce it.

InferSent takes the maximum over time of a bidirectional LSTM over word vectors. Conneau et al. (2017), "Supervised
Learning of Universal Sentence Representations from Natural Language Inference Data", EMNLP. Parameter names follow
Facebook's release, so its weight files load unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def hard_sigmoid(x: Tensor) -> Tensor:
    """Return clip(0.2 x + 0.5, 0, 1)."""
    return (0.2 * x + 0.5).clamp(0, 1)


class HardSigmoidLSTM(nn.Module):
    """Bidirectional LSTM layer with hard-sigmoid gates and `nn.LSTM`'s parameter names.

    i, f, o = hard_sigmoid(·), g = tanh(·) of W_ih x_t + b_ih + W_hh h_{t-1} + b_hh, stacked as i, f, g, o;
    c_t = f c_{t-1} + i g; h_t = o tanh(c_t). The backward direction starts at each text's own last word.

    Args:
        D: size of the inputs.
        H: hidden units per direction.
    """

    def __init__(self, D: int, H: int) -> None:
        super().__init__()
        self.H = H
        for suffix in ("", "_reverse"):
            shapes = {"weight_ih": (4 * H, D), "weight_hh": (4 * H, H), "bias_ih": (4 * H,)}
            for name, shape in {**shapes, "bias_hh": (4 * H,)}.items():
                self.register_parameter(f"{name}_l0{suffix}", nn.Parameter(torch.zeros(shape)))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Run both directions.

        Args:
            x: (B, L, D)
            mask: (B, L) bool, True at words, which come before the padding.

        Returns:
            (B, L, 2H), forward before backward; 0 at padding.
        """
        return torch.cat((self._run(x, mask, ""), self._run(x, mask, "_reverse")), dim=-1)

    def _run(self, x: Tensor, mask: Tensor, suffix: str) -> Tensor:
        w_ih, w_hh, b_ih, b_hh = (
            getattr(self, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        inputs = x @ w_ih.T + b_ih + b_hh  # (B, L, 4H)
        h = c = x.new_zeros(len(x), self.H)
        steps = range(x.shape[1])
        out = x.new_zeros(*x.shape[:2], self.H)
        for t in reversed(steps) if suffix else steps:
            i, f, g, o = (inputs[:, t] + h @ w_hh.T).chunk(4, dim=1)  # (B, H) each
            here = mask[:, t, None]
            # Padding comes last, so the backward direction reaches its first word with a state of 0.
            c = torch.where(here, hard_sigmoid(f) * c + hard_sigmoid(i) * g.tanh(), 0)
            h = torch.where(here, hard_sigmoid(o) * c.tanh(), 0)
            out[:, t] = h
        return out


class AttentionPooling(nn.Module):
    """Attention-weighted mean over the words of a text: a_t ∝ exp(h_t · v)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.attention_vector = nn.Parameter(torch.zeros(size))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        """Average the words of each text: (B, L, S), bool (B, L) → (B, S)."""
        scores = (h @ self.attention_vector).masked_fill(~mask, -torch.inf)
        return (scores.softmax(dim=1).unsqueeze(-1) * h).sum(dim=1)


class DeepMoji(nn.Module):
    """DeepMoji network; 22,403,392 parameters at its published size.

    Args:
        n_words: size of the vocabulary; id 0 is padding.
        E: size of the word embeddings.
        H: hidden units per direction.
        K: number of emoji.
    """

    def __init__(self, n_words: int = 50_000, E: int = 256, H: int = 512, K: int = 64) -> None:
        super().__init__()
        size = 4 * H + E
        self.embed = nn.Embedding(n_words, E)
        self.lstm_0 = HardSigmoidLSTM(E, H)
        self.lstm_1 = HardSigmoidLSTM(2 * H, H)
        self.attention_layer = AttentionPooling(size)
        self.output_layer = nn.Sequential(nn.Linear(size, K))

    def forward(self, ids: Tensor) -> Tensor:
        """Compute the scores before the softmax.

        Args:
            ids: (B, L) word ids padded with 0; each text has at least one word.

        Returns:
            (B, K)
        """
        mask = ids != 0
        embedded = self.embed(ids).tanh()  # (B, L, E)
        first = self.lstm_0(embedded, mask)  # (B, L, 2H)
        second = self.lstm_1(first, mask)  # (B, L, 2H)
        text = self.attention_layer(torch.cat((second, first, embedded), dim=-1), mask)
        return torch.as_tensor(self.output_layer(text))  # (B, K)


def deepmoji_from_state(state: Mapping[str, Tensor]) -> DeepMoji:
    """Build the network of a state dict, with the sizes of its tensors.

    Raises:
        KeyError, RuntimeError: a tensor is missing, unexpected or of the wrong shape.
    """
    n_words, E = state["embed.weight"].shape
    H = state["lstm_0.weight_hh_l0"].shape[1]
    K = len(state["output_layer.0.bias"])
    with torch.device("meta"):
        model = DeepMoji(n_words, E, H, K)
    model.load_state_dict(dict(state), assign=True)
    return model


class InferSent(nn.Module):
    """InferSent network; 38,502,400 parameters at its published size, without word vectors.

    Args:
        D: size of the word vectors.
        H: hidden units per direction.
        compat_padding: include padding in the maximum, as version 1's code does. A negative maximum then becomes 0 in
            shorter sentences, so a vector depends on the batch.
    """

    def __init__(self, D: int = 300, H: int = 2048, *, compat_padding: bool = False) -> None:
        super().__init__()
        self.compat_padding = compat_padding
        self.enc_lstm = nn.LSTM(D, H, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode sentences.

        Args:
            words: (B, L, D) word vectors; values at padding are ignored.
            lengths: (B,) number of words per sentence, from 1 to L; the maximum is L. On any device.

        Returns:
            (B, 2H)
        """
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.enc_lstm(packed)[0], batch_first=True)
        if not self.compat_padding:
            # Exclude padding, so that a sentence's vector does not depend on the batch.
            places = torch.arange(states.shape[1], device=states.device)
            padding = places >= lengths.to(states.device)[:, None]
            states = states.masked_fill(padding[..., None], -torch.inf)  # (B, L, 2H)
        return states.amax(dim=1)


def infersent_from_state(state: Mapping[str, Tensor], *, compat_padding: bool = False) -> InferSent:
    """Build the network of a state dict, with the sizes of its tensors.

    Raises:
        KeyError, RuntimeError: a tensor is missing, unexpected or of the wrong shape.
    """
    D = state["enc_lstm.weight_ih_l0"].shape[1]
    H = state["enc_lstm.weight_hh_l0"].shape[1]
    with torch.device("meta"):
        model = InferSent(D, H, compat_padding=compat_padding)
    model.load_state_dict(dict(state), assign=True)
    return model
