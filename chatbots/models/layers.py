"""Layers of HRED, VHRED and VHCR.

Serban et al. (2016, HRED; 2017, VHRED), Park et al. (2018, VHCR), with the details of the latter's released code:
single-layer GRUs, a bidirectional encoder, and the context only in the decoder's first state.

Dropout follows Zaremba et al. (2014): on embedded tokens and the decoder's output, never on recurrent connections. (The
released code passes it only to single-layer GRUs, where it has no effect; the config's `compat_inert_dropout`
reproduces this.) It draws from torch's global generator, as torch.nn does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from chatbots.corpora.vocabulary import PAD, SOS, UNK
from chatbots.models.batch import HiddenState, TargetUtterances

_MIN_VARIANCE = 1e-8
"""Floor of the variance. Softplus can round to 0, whose logarithm is −∞."""


def initialise(model: nn.Module) -> None:
    """Initialise GRUs with orthogonal recurrent matrices and update-gate biases (bias_hh) of 2.

    The bias makes a GRU keep its state at first. All other parameters have PyTorch's defaults.
    """
    for module in model.modules():
        if isinstance(module, nn.GRU):
            for name, parameter in module.named_parameters():
                if name.startswith("weight_hh"):
                    nn.init.orthogonal_(parameter)  # the whole (3H, H) block
                elif name.startswith("bias_hh"):
                    third = parameter.shape[0] // 3  # gates in the order r, z, n
                    with torch.no_grad():
                        parameter[third : 2 * third] = 2.0


class FeedForward(nn.Sequential):
    """FF(a→b; n layers, hidden h, activation): a feed-forward network.

    Args:
        last: apply the activation after the last layer too.
    """

    def __init__(
        self,
        a: int,
        b: int,
        *,
        n_layers: int = 1,
        hidden: int = 0,
        activation: type[nn.Module] = nn.Tanh,
        last: bool = True,
    ) -> None:
        widths = [a, *[hidden] * (n_layers - 1), b]
        parts: list[nn.Module] = []
        for i in range(n_layers):
            parts.append(nn.Linear(widths[i], widths[i + 1]))
            if last or i < n_layers - 1:
                parts.append(activation())
        super().__init__(*parts)


class UtteranceEncoder(nn.Module):
    """Bidirectional GRU over the words of an utterance.

    h_t = [last forward state; last backward state].

    Args:
        embedding: V × E, shared with the decoder.
    """

    def __init__(self, embedding: nn.Embedding, H_e: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = nn.Dropout(dropout)
        self.rnn = nn.GRU(embedding.embedding_dim, H_e, batch_first=True, bidirectional=True)

    def forward(self, utterances: Tensor, lengths: Tensor) -> Tensor:
        """Encode the utterances of a batch; padding becomes zeros.

        Args:
            utterances: (B, N, T)
            lengths: (B, N)

        Returns:
            (B, N, 2H_e)
        """
        mask = lengths > 0  # (B, N)
        width = 2 * self.rnn.hidden_size
        encoded = self.embedding.weight.new_zeros(*lengths.shape, width)  # (B, N, 2H_e)
        if not bool(mask.any()):
            return encoded
        words = self.dropout(self.embedding(utterances[mask]))  # (M, T, E)
        h = last_states(self.rnn, words, lengths[mask])  # (M, 2H_e)
        encoded[mask] = h.to(encoded.dtype)
        return encoded


def last_states(rnn: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Return a bidirectional GRU's last states: [forward; backward].

    Padding is ignored.

    Args:
        inputs: (M, T, ·)
        lengths: (M,), none of them 0.

    Returns:
        (M, 2H)
    """
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    _, h = rnn(packed)  # (2, M, H)
    return torch.cat([h[0], h[1]], dim=-1)


def one_step(rnn: nn.GRU, inputs: Tensor, hidden: Tensor) -> Tensor:
    """Advance a one-layer GRU by one step: (R, ·), (R, H) → (R, H).

    Faster than a sequence of length 1.
    """
    weights = rnn.all_weights[0]  # in the order of gru_cell's arguments
    return torch.gru_cell(inputs, hidden, *weights)


class ContextRNN(nn.Module):
    """GRU over encoded utterances; c_t is its output after utterance t.

    Args:
        width: width of an encoded utterance with its additional inputs.
        C: size of the context.
    """

    def __init__(self, width: int, C: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(width, C, batch_first=True)

    def forward(self, inputs: Tensor, initial: Tensor | None = None) -> Tensor:
        """Return the contexts, (B, N, C), of inputs (B, N, width).

        The RNN is causal, so padding at the end does not affect earlier outputs.

        Args:
            initial: first state, (B, C); zeros if None.
        """
        outputs, _ = self.rnn(inputs, None if initial is None else initial[None].contiguous())
        return outputs

    def last(self, inputs: Tensor, n_utterances: Tensor, initial: Tensor | None = None) -> Tensor:
        """Return the context after the last utterance, (B, C).

        For a conversation without utterances it is the initial state.
        """
        if initial is None:
            initial = inputs.new_zeros(inputs.shape[0], self.rnn.hidden_size)  # (B, C)
        outputs = torch.cat([initial[:, None], self(inputs, initial)], dim=1)  # (B, 1+N, C)
        rows = torch.arange(outputs.shape[0], device=outputs.device)
        return outputs[rows, n_utterances]


@dataclass(frozen=True)
class WordDrop:
    """Word dropout on the decoder's inputs in training (Bowman et al. 2016).

    Attributes:
        rate: probability with which each word but `<sos>` becomes `<unk>`.
        generator: source of randomness; required unless `rate` is 0.
        compat_per_step: reproduce the released code: one draw per step for the whole batch, `<sos>` included.
    """

    rate: float = 0.0
    generator: torch.Generator | None = None
    compat_per_step: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"word_drop is {self.rate}; it must be a probability from 0 to 1")
        if self.rate and self.generator is None:
            raise ValueError("word dropout needs a generator")

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return (M, T) ids with words replaced by `<unk>` at random."""
        if not self.rate:
            return inputs
        dropped = coins(self.rate, inputs.shape, self.generator, inputs.device)  # (M, T)
        if self.compat_per_step:
            dropped = dropped[:1].expand_as(inputs)
        else:
            dropped = dropped & (inputs != SOS) & (inputs != PAD)
        return inputs.masked_fill(dropped, UNK)


def coins(
    rate: float, shape: tuple[int, ...] | torch.Size, generator: torch.Generator | None, device: torch.device
) -> Tensor:
    """Draw booleans that are true with probability `rate`."""
    if generator is None:
        raise ValueError("random numbers need a generator")
    return (torch.rand(shape, generator=generator, device=generator.device) < rate).to(device)


class ReplyDecoder(nn.Module):
    """GRU decoder that starts at h_0 = tanh(W [context; latents] + b).

    Logits are an affine function of its state; the projection is not tied to the embedding.

    Args:
        embedding: V × E, shared with the encoder.
        width: total size of context and latents.
    """

    def __init__(self, embedding: nn.Embedding, width: int, H_d: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.start = FeedForward(width, H_d)
        self.rnn = nn.GRU(embedding.embedding_dim, H_d, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(H_d, embedding.num_embeddings)

    def nll(self, h_0: Tensor, targets: TargetUtterances, word_drop: WordDrop) -> Tensor:
        """Compute each target's negative log-likelihood with teacher forcing.

        Args:
            h_0: (M, H_d)

        Returns:
            (M,) nats, summed over the target's tokens.
        """
        inputs = word_drop(shifted(targets.tokens, targets.lengths))  # (M, T)
        words = self.dropout(self.embedding(inputs))  # (M, T, E)
        states, _ = self.rnn(words, h_0[None].contiguous())  # (M, T, H_d)
        return tokens_nll(lambda mask: self.project(self.dropout(states[mask])), targets)

    def step(self, tokens: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState]:
        """Read a token per row, (R,), and return next logits (R, V) and state.

        Without dropout.
        """
        h = one_step(self.rnn, self.embedding(tokens), state.hidden)  # (R, H_d)
        return self.project(h), HiddenState(h)


def shifted(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the decoder inputs for the targets `tokens`: (M, T) → (M, T).

    Each row starts with `<sos>` and omits the last token; positions after the end are padding.
    """
    inputs = torch.full_like(tokens, SOS)
    inputs[:, 1:] = tokens[:, :-1]
    positions = torch.arange(tokens.shape[1], device=tokens.device)  # (T,)
    return inputs.masked_fill(positions >= lengths[:, None], PAD)


def tokens_nll(logits_at, targets: TargetUtterances) -> Tensor:
    """Compute the cross-entropy of each target, ignoring padding.

    Args:
        logits_at: function from a mask (M, T) to the logits of its P true positions, (P, V).

    Returns:
        (M,) nats
    """
    positions = torch.arange(targets.tokens.shape[1], device=targets.tokens.device)  # (T,)
    mask = positions < targets.lengths[:, None]  # (M, T)
    logits = logits_at(mask).float()  # (P, V)
    nll = F.cross_entropy(logits, targets.tokens[mask], reduction="none")  # (P,)
    return nll.new_zeros(mask.shape[0]).index_add(0, mask.nonzero()[:, 0], nll)


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A diagonal normal distribution per row: mean and variance, each (M, Z)."""

    mean: Tensor
    variance: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """Return z = μ + √var · ε, (M, Z), for standard normal ε.

        Reparameterisation of Kingma and Welling (2014).
        """
        return self.mean + self.variance.sqrt() * noise

    def kl(self, prior: Gaussian) -> Tensor:
        """Compute KL(self ‖ prior), summed over Z: (M,) nats.

        ½ Σ (log var_p − log var_q + (var_q + (μ_q − μ_p)²) / var_p − 1)
        """
        gap = self.variance + (self.mean - prior.mean) ** 2
        terms = prior.variance.log() - self.variance.log() + gap / prior.variance - 1
        return 0.5 * terms.sum(-1)

    def log_density(self, z: Tensor) -> Tensor:
        """Compute the log density at z, summed over Z: (M, Z) → (M,)."""
        quadratic = (z - self.mean) ** 2 / self.variance
        log_two_pi = 1.8378770664093453
        return -0.5 * (log_two_pi + self.variance.log() + quadratic).sum(-1)

    @classmethod
    def standard(cls, like: Tensor) -> Gaussian:
        """Return N(0, I) with a tensor's shape."""
        return cls(torch.zeros_like(like), torch.ones_like(like))


class GaussianLayer(nn.Module):
    """Layer that maps features to a diagonal normal distribution of z.

    g = FF(width→C); μ = W g + b; var = softplus(W' g + b'). The noise is scaled by the square root of var.
    """

    def __init__(self, width: int, C: int, Z: int, *, n_layers: int) -> None:
        super().__init__()
        self.features = FeedForward(width, C, n_layers=n_layers, hidden=C)
        self.mean = nn.Linear(C, Z)
        self.variance = nn.Linear(C, Z)

    def forward(self, *inputs: Tensor) -> Gaussian:
        """Concatenate the inputs, (M, ·), and return the distribution of (M, Z).

        Always in single precision.
        """
        g = self.features(torch.cat(inputs, dim=-1))  # (M, C)
        variance = F.softplus(self.variance(g).float()).clamp_min(_MIN_VARIANCE)  # (M, Z)
        return Gaussian(self.mean(g).float(), variance)
