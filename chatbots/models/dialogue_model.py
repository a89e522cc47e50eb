"""Interface of dialogue models: a loss for training and a stateless, stepwise decoder.

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
    """A network that predicts an utterance from those before it."""

    compat_word_drop_per_step = False
    """Word drop as in the released code; a config may switch it on."""
    has_latents = False
    """Whether a reply depends on variables that are drawn by the seeds of its conversation."""
    has_sentence_drop = False
    """Whether utterances can be hidden from its context in training."""

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
        """Compute the parts of the objective for each conversation; see `loss` for the arguments."""

    @abstractmethod
    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> DecoderState:
        """Do what `encode_context` promises, checked and without gradients."""

    @abstractmethod
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one token per row, (R,), and give the logits of the next, (R, V), with the new state."""

    @torch.no_grad()
    def encode_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds] = ()) -> DecoderState:
        """Read all utterances of each conversation; the state its next one is decoded from.

        Args:
            seeds: one per conversation; looked at by models with latent variables.

        Raises:
            RuntimeError: if the model is in training mode: dropout would only make the bot worse.
            ValueError: if a model with latent variables has not one seed per conversation.
        """
        if self.training:
            raise RuntimeError("the model is in training mode; call eval() before it generates")
        if self.has_latents and len(seeds) != batch.n_conversations:
            raise ValueError(f"{len(seeds)} seeds for {batch.n_conversations} conversations")
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
        """Compute the cost of a batch, teacher forced.

        Args:
            kl_weight: β of the KL term.
            word_drop: share of the decoder's input words replaced by `<unk>`; in training mode only.
            sentence_drop: share of the utterances hidden from VHCR's context; in training mode only.
            generator: of the latents and of what is dropped.
            noise: the latents' numbers, instead of drawing them.

        Raises:
            ValueError: no reply to learn in the batch, an EI target missing, no generator where one is
                needed, or a drop the model does not have.
        """
        if sentence_drop and not self.has_sentence_drop:
            name = type(self).__name__
            raise ValueError(f"sentence_drop is {sentence_drop}; {name} has none, give 0")
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

        The log of their mean exponential bounds log p from below. (The released code takes the mean for
        a whole batch as one sample: sum over B first.) Without latents all samples are equal.
        """
        samples = []
        for _ in range(n_samples):
            terms = self.terms(batch, word_drop=WordDrop(), sentence_drop=0.0, generator=generator, noise=None)
            samples.append(terms.log_ratio - terms.nll)  # (B,)
        return torch.stack(samples)

    @property
    def n_parameters(self) -> int:
        """All trained numbers; shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device


class HierarchicalConfig(Protocol):
    """Protocol of the configuration that hierarchical models share."""

    @property
    def ei(self) -> EIConfig | None: ...

    @property
    def compat_word_drop_per_step(self) -> bool: ...


class HierarchicalModel(DialogueModel):
    """Base of HRED, VHRED and VHCR: utterances read one by one, and a recurrent decoder."""

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
