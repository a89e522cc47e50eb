"""VHCR: VHRED plus a latent variable for the whole conversation.

Park, Cho and Kim (2018), "A Hierarchical Latent Structure for Variational Conversation Modeling"; sizes and
details as in Ghandeharioun et al. (2019), with its EI heads.

    (1) h_t and the words: as in HRED
    (2) q(z_conv | x) = N(μ, var) from a bi-GRU over all h_t;  p(z_conv) = N(0, I)
    (3) c_t = GRU(c_{t−1}, [h_t; z_conv]),  c_{−1} = tanh(W z_conv + b)
    (4) p(z_t | past, z_conv) = N(μ, var) from [c_t; z_conv]
    (5) q(z_t | x, z_conv) = N(μ, var) from [c_t; h_{t+1}; z_conv]
    (6) h_0 = tanh(W [c_t; z_t; z_conv] + b)
    (7) loss = −log p(x | z) + KL(z_conv) + Σ_t KL(z_t)

Utterance drop replaces some of the context RNN's inputs by a learned vector, so that the model has to use z_conv. Here
it is drawn per utterance and in training only, and the inference network always sees the real utterances.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import model_validator
from torch import Tensor, nn

from chatbots.corpora.vocabulary import PAD
from chatbots.identity import derive_seed
from chatbots.models.batch import DialogueBatch, HiddenState, LatentNoise, ObjectiveTerms, ReplySeeds, standard_normal
from chatbots.models.dialogue_model import HierarchicalModel
from chatbots.models.ei import EIHeads, ei_losses
from chatbots.models.hred import HREDConfig
from chatbots.models.layers import (
    ContextRNN,
    FeedForward,
    Gaussian,
    GaussianLayer,
    ReplyDecoder,
    UtteranceEncoder,
    WordDrop,
    coins,
    initialise,
    last_states,
)
from chatbots.validation import Size


class VHCRConfig(HREDConfig):
    """Sizes of a VHCR.

    Attributes:
        Z: size of each of the two latent variables.
        infer_z_conv: for generation, infer z_conv from the context, as the released code does in its corpus evaluation,
            instead of drawing it from N(0, I). An inferred z_conv changes as the conversation grows; a drawn one stays
            the same.
        compat_redraw_z_conv: draw z_conv again for every reply, as the released code does in chat and self-play.
        compat_sentence_drop: drop utterances as the released code does: one draw per position for the whole batch,
            outside training too, and the inference network sees the replacement.
    """

    Z: Size = 100
    infer_z_conv: bool = False
    compat_redraw_z_conv: bool = False
    compat_sentence_drop: bool = False

    @model_validator(mode="after")
    def _has_one_way_to_z_conv(self) -> VHCRConfig:
        if self.infer_z_conv and self.compat_redraw_z_conv:
            raise ValueError("infer_z_conv and compat_redraw_z_conv cannot be combined")
        return self


class VHCR(HierarchicalModel):
    """Hierarchical encoder-decoder with z_conv per conversation and z_t per utterance."""

    has_latents = True
    has_sentence_drop = True

    def __init__(self, config: VHCRConfig) -> None:
        super().__init__(config)
        self.config = config
        C, Z, W = config.C, config.Z, config.W
        embedding = nn.Embedding(config.V, config.E, padding_idx=PAD)
        self.encoder = UtteranceEncoder(embedding, config.H_e, config.p)
        self.inference = nn.GRU(W, C, batch_first=True, bidirectional=True)
        self.z_conv_posterior = GaussianLayer(2 * C, C, Z, n_layers=2)
        self.context_start = FeedForward(Z, C)
        self.context = ContextRNN(W + Z, C)
        self.prior = GaussianLayer(C + Z, C, Z, n_layers=1)
        self.posterior = GaussianLayer(C + W + Z, C, Z, n_layers=2)
        self.decoder = ReplyDecoder(embedding, C + 2 * Z, config.H_d, config.p)
        self.dropped_utterance = nn.Parameter(torch.randn(W))
        self.ei = EIHeads(config.ei, C) if config.ei else None
        initialise(self)

    def terms(
        self,
        batch: DialogueBatch,
        *,
        word_drop: WordDrop,
        sentence_drop: float,
        generator: torch.Generator | None,
        noise: LatentNoise | None,
    ) -> ObjectiveTerms:
        targets = batch.targets
        noise = noise or LatentNoise.draw(batch, self.config.Z, generator)
        x = self.read_utterances(batch)  # (B, N, W), (1)
        seen = self._sentence_dropped(x, sentence_drop, generator)  # (B, N, W)

        inferred = self._infer(seen if self.config.compat_sentence_drop else x, batch.n_utterances)
        z_conv = inferred.sample(noise.conversation)  # (B, Z), (2)
        standard = Gaussian.standard(z_conv)
        replies = (batch.n_utterances > 1).float()  # (B,), 0 without a reply: it has no KL term
        kl_conv = inferred.kl(standard) * replies
        ratio_conv = (standard.log_density(z_conv) - inferred.log_density(z_conv)) * replies

        z_conv = z_conv.to(x.dtype)
        c = self._contexts(seen[:, :-1], z_conv)[targets.mask]  # (M, C), (3)
        zc = z_conv[targets.conversation]  # (M, Z)
        prior = self.prior(c, zc)  # (M, Z), (4)
        posterior = self.posterior(c, x[:, 1:][targets.mask], zc)  # (M, Z), (5)
        z = posterior.sample(noise.sentence[targets.mask])  # (M, Z)
        h_0 = self.decoder.start(torch.cat([c, z.to(c.dtype), zc], dim=-1))  # (M, H_d), (6)
        nll = targets.per_conversation(self.decoder.nll(h_0, targets, word_drop))  # (B,)
        ratio = targets.per_conversation(prior.log_density(z) - posterior.log_density(z))  # (B,)
        ei = ei_losses(self.ei, c, batch)
        return ObjectiveTerms(
            nll=nll,
            kl=kl_conv + targets.per_conversation(posterior.kl(prior)),  # (7)
            log_ratio=ratio_conv + ratio,
            bow=torch.zeros_like(nll),
            emotion=ei.emotion,
            sentence=ei.sentence,
            ei=ei.weighted,
            n_tokens=int(targets.lengths.sum()),
            n_inputs=len(c),
        )

    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> HiddenState:
        config, n_utterances = self.config, batch.n_utterances
        x = self.read_utterances(batch)  # (B, N, W)
        # z_conv is seeded by the conversation, so that it is the same for all of its replies.
        redraw = config.compat_redraw_z_conv
        of_conversation = [derive_seed(s.sentence, "z_conv") if redraw else s.conversation for s in seeds]
        z_conv = standard_normal(of_conversation, config.Z, x.device)  # (B, Z)
        if config.infer_z_conv:
            z_conv = self._infer(x, n_utterances).sample(z_conv)
        z_conv = z_conv.to(x.dtype)
        c = self._contexts(x, z_conv, n_utterances)  # (B, C)
        noise = standard_normal([s.sentence for s in seeds], config.Z, x.device)
        z = self.prior(c, z_conv).sample(noise).to(x.dtype)  # (B, Z)
        return HiddenState(self.decoder.start(torch.cat([c, z, z_conv], dim=-1)))  # (B, H_d)

    def _sentence_dropped(self, x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
        """Replace utterances at random by the learned vector: (B, N, W) → (B, N, W)."""
        if not 0 <= rate <= 1:
            raise ValueError(f"sentence_drop is {rate}; it must be a probability from 0 to 1")
        compat = self.config.compat_sentence_drop
        if not rate or not (self.training or compat):
            return x
        n_rows, n_utterances, _ = x.shape
        dropped = coins(rate, (1 if compat else n_rows, n_utterances), generator, x.device)
        dropped[:, -1] = False  # only the inference network reads the batch's last position
        return torch.where(dropped[:, :, None], self.dropped_utterance.to(x.dtype), x)

    def _infer(self, x: Tensor, n_utterances: Tensor) -> Gaussian:
        """Return q(z_conv), (B, N, W) → (B, Z); N(0, I) without utterances."""
        has_utterances = n_utterances > 0  # (B,)
        last = x.new_zeros(x.shape[0], 2 * self.config.C)  # (B, 2C)
        if bool(has_utterances.any()):
            states = last_states(self.inference, x[has_utterances], n_utterances[has_utterances])
            last[has_utterances] = states.to(last.dtype)
        inferred = self.z_conv_posterior(last)
        standard = Gaussian.standard(inferred.mean)
        return Gaussian(
            torch.where(has_utterances[:, None], inferred.mean, standard.mean),
            torch.where(has_utterances[:, None], inferred.variance, standard.variance),
        )

    def _contexts(self, x: Tensor, z_conv: Tensor, n_utterances: Tensor | None = None) -> Tensor:
        """Return c_t after each utterance, (B, N, C), or only after the last, (B, C).

        Args:
            x: (B, N, W)
            z_conv: (B, Z)
            n_utterances: (B,) lengths of the conversations, to get only the last context.
        """
        initial = self.context_start(z_conv)  # (B, C)
        z_repeated = z_conv[:, None].expand(-1, x.shape[1], -1)  # (B, N, Z)
        inputs = torch.cat([x, z_repeated], dim=-1)  # (B, N, W+Z)
        if n_utterances is None:
            return self.context(inputs, initial)
        return self.context.last(inputs, n_utterances, initial)
