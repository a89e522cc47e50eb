"""Interface of dialogue models: a training loss and a stateless stepwise decoder.

state = model.encode_context(batch, seeds)      # rows: the conversations
logits, state = model.step(tokens, state)       # first tokens: <sos>
state = state.select(rows)                      # drop, double, reorder
state = type(state).join([state, newcomers])    # admit
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from chatbots.models.batch import (
    DecoderState,
    DialogueBatch,
    HiddenState,
    LatentNoise,
    LossParts,
    ObjectiveTerms,
    ReplySeeds,
)
from chatbots.models.ei import EIConfig, with_inputs
from chatbots.models.layers import ReplyDecoder, UtteranceEncoder, WordDrop


class DialogueModel(nn.Module, ABC):
    """Network that predicts an utterance from the previous ones."""

    compat_word_drop_per_step = False
    """True for word dropout as in the released code; configs may enable it."""
    has_latents = False
    """True if a reply depends on latent variables drawn with the conversation's seeds."""
    has_sentence_drop = False
    """True if the model supports utterance drop in training."""

    @abstractmethod
    def terms(
        self,
        batch: DialogueBatch,
        *,
        word_drop: WordDrop,
        sentence_drop: float,
        generator: torch.Generator | None,
        noise: LatentNoise | None,
    ) -> ObjectiveTerms:
        """Compute the terms of the objective by conversation.

        See `loss` for the arguments.
        """

    @abstractmethod
    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> DecoderState:
        """Implement `encode_context`; called with valid arguments and without gradients."""

    @abstractmethod
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one token per row, (R,)."""

    @torch.no_grad()
    def encode_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds] = ()) -> DecoderState:
        """Encode all utterances of each conversation and return the decoder's state.

        Args:
            seeds: one per conversation; used only by models with latent variables.

        Raises:
            RuntimeError: the model is in training mode, where dropout would degrade replies.
            ValueError: a model with latent variables does not have one seed per conversation.
        """
        if self.training:
            raise RuntimeError("the model is in training mode; call eval() before generating")
        if self.has_latents and len(seeds) != batch.n_conversations:
            raise ValueError(f"{len(seeds)} seeds for {batch.n_conversations} conversations; there must be one each")
        return self.read_context(batch, seeds)

    def loss(
        self,
        batch: DialogueBatch,
        *,
        kl_weight: float = 1.0,
        word_drop: float = 0.0,
        sentence_drop: float = 0.0,
        generator: torch.Generator | None = None,
        noise: LatentNoise | None = None,
    ) -> LossParts:
        """Compute the loss of a batch with teacher forcing.

        Args:
            kl_weight: β of the KL term.
            word_drop: share of the decoder's input words replaced by `<unk>`; only in training mode.
            sentence_drop: share of the utterances hidden from VHCR's context; only in training mode.
            generator: random generator for latents and drops.
            noise: fixed numbers for the latents instead of drawn ones.

        Raises:
            ValueError: the batch has no reply to learn, an EI target or a required generator is missing, or the
            model does not support a drop.
        """
        if sentence_drop and not self.has_sentence_drop:
            name = type(self).__name__
            raise ValueError(f"sentence_drop is {sentence_drop}; {name} does not support it, so set it to 0")
        return LossParts.from_terms(
            self.terms(
                batch,
                word_drop=WordDrop(word_drop if self.training else 0.0, generator, self.compat_word_drop_per_step),
                sentence_drop=sentence_drop,
                generator=generator,
                noise=noise,
            ),
            kl_weight,
        )

    @torch.no_grad()
    def importance_samples(
        self, batch: DialogueBatch, n_samples: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw importance samples of log p(conversation) from the posterior: (n_samples, B), nats.

        The log of their mean exponential is a lower bound of log p. (The released code treats a whole batch as one
        sample, summing over B first.) Without latents all samples are equal.
        """
        samples = []
        for _ in range(n_samples):
            terms = self.terms(batch, word_drop=WordDrop(), sentence_drop=0.0, generator=generator, noise=None)
            samples.append(terms.log_ratio - terms.nll)  # (B,)
        return torch.stack(samples)

    @property
    def n_parameters(self) -> int:
        """Number of parameters; shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device


class HierarchicalConfig(Protocol):
    """Protocol of the configuration of hierarchical models."""

    @property
    def ei(self) -> EIConfig | None: ...

    @property
    def compat_word_drop_per_step(self) -> bool: ...


class HierarchicalModel(DialogueModel):
    """Base class of HRED, VHRED and VHCR.

    It has an utterance encoder and a recurrent decoder.
    """

    encoder: UtteranceEncoder
    decoder: ReplyDecoder

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__()
        self.compat_word_drop_per_step = config.compat_word_drop_per_step
        self._ei_config = config.ei

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, HiddenState]:
        assert isinstance(state, HiddenState)
        return self.decoder.step(tokens, state)

    def read_utterances(self, batch: DialogueBatch) -> Tensor:
        """Return the encoded utterances with their additional inputs, (B, N, W)."""
        h = self.encoder(batch.utterances, batch.lengths)  # (B, N, 2H_e)
        return with_inputs(h, batch, self._ei_config)
