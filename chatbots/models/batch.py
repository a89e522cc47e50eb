"""Inputs, outputs, decoder states and seeds of a dialogue model.

A batch contains B conversations of up to N utterances of up to T tokens. Training reads utterances 0 … n−2 of a
conversation and predicts utterances 1 … n−1, so a conversation of one utterance contributes nothing. Generation reads
all utterances, and a conversation may be empty.

The first dimension of every tensor of a decoder's state is the rows. A row is one reply in progress, or one hypothesis
of it. Rows can be selected by index (dropped, doubled or reordered by beam search) and states joined (for admitted
requests). Rows never affect each other.

Variables of a conversation (VHCR's z_conv) are drawn from the conversation's seed, so they are equal for all its
replies although a bot keeps no state; variables of a reply (z_t) are drawn from the reply's seed. Every row has its
own random numbers, drawn on the CPU in single precision, so they do not depend on the batch or the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from chatbots.conversation import Conversation
from chatbots.corpora.vocabulary import EOS, PAD
from chatbots.identity import derive_seed

MAX_TOKENS = 30
"""Maximum length of an utterance, including `<eos>` (Ghandeharioun et al. 2019, released code)."""


@dataclass(frozen=True, eq=False)
class DialogueBatch:
    """Conversations as token ids, with optional EI targets of their utterances.

    Attributes:
        utterances: (B, N, T) ids: tokens, `<eos>`, then `<pad>`; no `<sos>`.
        lengths: (B, N) number of tokens, including `<eos>`; 0 without an utterance. The utterances of a conversation
            come first, without a gap.
        emotion: (B, N, K) emotion distribution of each utterance, or None.
        sentence: (B, N, D) sentence embedding of each utterance, or None.
    """

    utterances: Tensor
    lengths: Tensor
    emotion: Tensor | None = None
    sentence: Tensor | None = None

    def __post_init__(self) -> None:
        if self.utterances.dim() != 3:
            raise ValueError(f"utterances have shape {tuple(self.utterances.shape)}; it must be (B, N, T)")
        shape = self.utterances.shape[:2]
        for name in ("lengths", "emotion", "sentence"):
            value = getattr(self, name)
            if value is None:
                continue
            n_dims = 2 if name == "lengths" else 3
            if value.dim() != n_dims or value.shape[:2] != shape:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}; it must begin with {tuple(shape)}, like the utterances, "
                    f"and have {n_dims} dimensions"
                )

    @classmethod
    def from_ids(
        cls,
        conversations: Sequence[Sequence[Sequence[int]]],
        *,
        max_tokens: int = MAX_TOKENS,
        emotion: Sequence[Tensor] | None = None,
        sentence: Sequence[Tensor] | None = None,
    ) -> DialogueBatch:
        """Build a padded batch from utterances as ids without `<eos>`.

        Args:
            conversations: at least one; a conversation or an utterance may be empty.
            max_tokens: an utterance is cut to `max_tokens` − 1 ids plus `<eos>`.
            emotion: (n, K) for each conversation of n utterances.
            sentence: (n, D) for each.
        """
        if not conversations:
            raise ValueError("there is no conversation; a batch needs at least one")
        rows = [[[*u[: max_tokens - 1], EOS] for u in utterances] for utterances in conversations]
        n_most = max(1, *(len(r) for r in rows))
        t_most = max((len(u) for r in rows for u in r), default=1)
        utterances = torch.full((len(rows), n_most, t_most), PAD)  # (B, N, T)
        lengths = torch.zeros((len(rows), n_most), dtype=torch.long)  # (B, N)
        for b, row in enumerate(rows):
            for n, ids in enumerate(row):
                utterances[b, n, : len(ids)] = torch.tensor(ids)
                lengths[b, n] = len(ids)
        return cls(utterances, lengths, _stacked(emotion, n_most), _stacked(sentence, n_most))

    @property
    def n_conversations(self) -> int:
        """B"""
        return self.utterances.shape[0]

    @property
    def mask(self) -> Tensor:
        """(B, N), true for utterances, false for padding."""
        return self.lengths > 0

    @property
    def n_utterances(self) -> Tensor:
        """(B,) number of utterances of each conversation."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> DialogueBatch:
        """Return the batch on another device."""
        moved = {
            name: value.to(device, non_blocking=True)
            for name in ("utterances", "lengths", "emotion", "sentence")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, **moved)

    @cached_property
    def targets(self) -> TargetUtterances:
        """The utterances to predict.

        Raises:
            ValueError: no conversation has a second utterance.
        """
        mask = self.mask[:, 1:]  # (B, N-1): utterances t and t+1 exist
        if not bool(mask.any()):
            raise ValueError(
                "no conversation of the batch has two utterances, so there is no reply to learn; remove such "
                "conversations"
            )
        lengths = self.lengths[:, 1:][mask]  # (M,)
        tokens = self.utterances[:, 1:][mask][:, : int(lengths.max())]  # (M, T')
        return TargetUtterances(mask, tokens, lengths, mask.nonzero()[:, 0])

    @property
    def latest(self) -> tuple[Tensor, Tensor]:
        """Return the last utterances, (B, T), and their lengths, (B,).

        For an empty conversation this is an empty utterance, only `<eos>`.
        """
        n = self.n_utterances  # (B,)
        rows = torch.arange(len(n), device=n.device)
        tokens = self.utterances[rows, (n - 1).clamp_min(0)].clone()  # (B, T)
        lengths = self.lengths[rows, (n - 1).clamp_min(0)].clone()  # (B,)
        tokens[n == 0, 0] = EOS
        lengths[n == 0] = 1
        return tokens, lengths


def _stacked(values: Sequence[Tensor] | None, n_most: int) -> Tensor | None:
    """Stack values of shape (n, D), padded with zeros, to (B, N, D)."""
    if values is None:
        return None
    stacked = torch.zeros(len(values), n_most, values[0].shape[-1])
    for row, value in zip(stacked, values, strict=True):
        row[: len(value)] = value
    return stacked


@dataclass(frozen=True, eq=False)
class TargetUtterances:
    """The M predicted utterances of a batch, conversation after conversation.

    Attributes:
        mask: (B, N−1), true where utterance t+1 is predicted from utterances 0 … t. `x[:, :-1][mask]`
            are the M inputs, `x[:, 1:][mask]` the M targets.
        tokens: (M, T)
        lengths: (M,) with `<eos>`.
        conversation: (M,) the batch row of each.
    """

    mask: Tensor
    tokens: Tensor
    lengths: Tensor
    conversation: Tensor

    def per_conversation(self, values: Tensor) -> Tensor:
        """Sum (M,) values by conversation: (B,)."""
        zeros = values.new_zeros(self.mask.shape[0])
        return zeros.index_add(0, self.conversation, values)


@dataclass(frozen=True, eq=False)
class LatentNoise:
    """Standard normal numbers of the latent variables, to replace drawn ones.

    Attributes:
        sentence: (B, N−1, Z) for z_t, one row per target.
        conversation: (B, Z) for z_conv.
    """

    sentence: Tensor
    conversation: Tensor

    @classmethod
    def draw(cls, batch: DialogueBatch, Z: int, generator: torch.Generator | None) -> LatentNoise:
        """Draw the numbers of z_conv, then of z_t.

        Raises:
        ValueError: there is no generator.
        """
        if generator is None:
            raise ValueError("training a variational model needs a generator (or the noise itself)")
        n_rows, n_utterances = batch.lengths.shape
        conversation = torch.randn(n_rows, Z, generator=generator, device=generator.device)
        sentence = torch.randn(n_rows, n_utterances - 1, Z, generator=generator, device=generator.device)
        device = batch.utterances.device
        return cls(sentence.to(device), conversation.to(device))


@dataclass(frozen=True, eq=False)
class ObjectiveTerms:
    """Terms of a batch's objective by conversation.

    Attributes:
        nll: (B,) −log p of the target tokens given the latents, nats, summed over tokens.
        kl: (B,) KL divergence of all latents, nats; 0 without latents.
        log_ratio: (B,) log p(z) − log q(z) at the drawn latents: −nll + log_ratio is one importance sample
            of log p(x), whose mean of exponentials bounds the perplexity (Burda et al. 2016).
        bow: (B,) bag-of-words loss, nats; 0 without that head.
        emotion, sentence: () losses of the EI heads, means over the n input utterances; 0 without them.
        ei: () weighted sum of the two.
        n_tokens: target tokens, `<eos>` included.
        n_inputs: n.
    """

    nll: Tensor
    kl: Tensor
    log_ratio: Tensor
    bow: Tensor
    emotion: Tensor
    sentence: Tensor
    ei: Tensor
    n_tokens: int
    n_inputs: int

    @classmethod
    def of_words_alone(cls, nll: Tensor, targets: TargetUtterances) -> ObjectiveTerms:
        """Return the terms of a model without latents and heads.

        Args:
        nll: (M,) −log p of the targets.
        """
        per_conversation = targets.per_conversation(nll)  # (B,)
        zeros = torch.zeros_like(per_conversation)
        zero = zeros.sum()
        n_tokens = int(targets.lengths.sum())
        return cls(per_conversation, zeros, zeros, zeros, zero, zero, zero, n_tokens, len(targets.lengths))


@dataclass(frozen=True, eq=False)
class LossParts:
    """Losses of one batch.

    Sums are over the batch, means over its input utterances; all are ().

    Attributes:
        tokens_nll: sum over target tokens, nats.
        n_tokens: number of target tokens, `<eos>` included; exp(tokens_nll / n_tokens) is the perplexity.
        kl: sum, nats, not weighted.
        bow: sum, nats.
        emotion: mean cross-entropy of the emotion head, nats, not weighted.
        sentence: mean squared error of the sentence head, not weighted.
        n_inputs: number of input utterances, over which the two means are taken.
        total: the minimised loss, tokens_nll + β·kl + bow + w_emo·emotion + w_inf·sentence.
    """

    tokens_nll: Tensor
    n_tokens: int
    kl: Tensor
    bow: Tensor
    emotion: Tensor
    sentence: Tensor
    n_inputs: int
    total: Tensor

    @classmethod
    def from_terms(cls, terms: ObjectiveTerms, kl_weight: float) -> LossParts:
        """Sum over the conversations."""
        nll, kl, bow = terms.nll.sum(), terms.kl.sum(), terms.bow.sum()
        return cls(
            tokens_nll=nll,
            n_tokens=terms.n_tokens,
            kl=kl,
            bow=bow,
            emotion=terms.emotion,
            sentence=terms.sentence,
            n_inputs=terms.n_inputs,
            total=nll + kl_weight * kl + bow + terms.ei,
        )


@dataclass(frozen=True, eq=False)
class DecoderState:
    """Base class of decoder states: frozen dataclasses of tensors, rows first.

    If other dimensions of two states differ, the smaller is padded with zeros at the end; such a state has a mask or a
    length that marks the padding.
    """

    @property
    def n_rows(self) -> int:
        """R"""
        return len(getattr(self, fields(self)[0].name))

    def select(self, rows: Tensor | Sequence[int]) -> Self:
        """Return the rows with these indices, in order; indices may repeat."""
        first = getattr(self, fields(self)[0].name)
        index = torch.as_tensor(rows, dtype=torch.long, device=first.device)
        return type(self)(**{f.name: getattr(self, f.name).index_select(0, index) for f in fields(self)})

    def repeat(self, n: int) -> Self:
        """Repeat each row n times: r_0, r_0, …, r_1, r_1, …

        Beam search relies on this order.
        """
        return self.select([row for row in range(self.n_rows) for _ in range(n)])

    @classmethod
    def join(cls, states: Sequence[Self]) -> Self:
        """Concatenate the rows of several states."""
        return cls(**{f.name: _joined([getattr(s, f.name) for s in states]) for f in fields(cls)})


def _joined(tensors: list[Tensor]) -> Tensor:
    """Concatenate by rows, padding other dimensions with zeros at the end."""
    shape = [max(sizes) for sizes in zip(*(t.shape[1:] for t in tensors), strict=True)]
    if all(list(t.shape[1:]) == shape for t in tensors):
        return torch.cat(tensors)
    joined = tensors[0].new_zeros(sum(len(t) for t in tensors), *shape)
    start = 0
    for tensor in tensors:
        place = (slice(start, start + len(tensor)), *(slice(0, size) for size in tensor.shape[1:]))
        joined[place] = tensor
        start += len(tensor)
    return joined


@dataclass(frozen=True, eq=False)
class HiddenState(DecoderState):
    """A recurrent decoder's state."""

    hidden: Tensor  # (R, H_d)


@dataclass(frozen=True, slots=True)
class ReplySeeds:
    """The seeds of one reply's latents, each 0 … 2^63 − 1."""

    conversation: int
    """Seed of z_conv."""
    sentence: int
    """Seed of z_t; different from the reply's seed, which determines its words."""

    @classmethod
    def from_conversation(cls, conversation: Conversation) -> ReplySeeds:
        """Return the seeds of the next reply."""
        return cls(derive_seed(conversation.seed, "conversation"), derive_seed(conversation.reply_seed, "latent"))


def standard_normal(seeds: Sequence[int], n: int, device: torch.device) -> Tensor:
    """Draw (R, n) standard normal numbers, each row from its own seed."""
    rows = [torch.randn(n, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(rows).to(device)
