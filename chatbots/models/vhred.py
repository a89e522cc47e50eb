"""VHRED: HRED with a latent variable per utterance.

Serban et al. (2017), "A Hierarchical Latent Variable Encoder-Decoder Model for Generating Dialogues"; sizes
and details as in Ghandeharioun et al. (2019), with its EI heads.

    (1) h_t, c_t and the words: as in HRED
    (2) p(z_t | past) = N(μ, var) from c_t                                     prior
    (3) q(z_t | past, utterance t+1) = N(μ, var) from [c_t; h_{t+1}]           posterior
    (4) h_0 = tanh(W [c_t; z_t] + b)                                           decoder's first state
    (5) loss = −log p(utterance t+1 | z_t) + KL(q ‖ p)                         negative ELBO
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chatbots.corpora.vocabulary import EOS, PAD
from chatbots.models.batch import (
    DialogueBatch,
    HiddenState,
    LatentNoise,
    ObjectiveTerms,
    ReplySeeds,
    TargetUtterances,
    standard_normal,
)
from chatbots.models.dialogue_model import HierarchicalModel
from chatbots.models.ei import EIHeads, ei_losses
from chatbots.models.hred import HREDConfig
from chatbots.models.layers import (
    ContextRNN,
    FeedForward,
    GaussianLayer,
    ReplyDecoder,
    UtteranceEncoder,
    WordDrop,
    initialise,
)
from chatbots.validation import Size


class VHREDConfig(HREDConfig):
    """Sizes of a VHRED.

    Attributes:
        Z: size of an utterance's latent variable.
        bow: add the bag-of-words loss (Zhao et al. 2017).
    """

    Z: Size = 100
    bow: bool = False


class VHRED(HierarchicalModel):
    """Hierarchical encoder-decoder with z_t per utterance."""

    has_latents = True

    def __init__(self, config: VHREDConfig) -> None:
        super().__init__(config)
        self.config = config
        C, Z = config.C, config.Z
        embedding = nn.Embedding(config.V, config.E, padding_idx=PAD)
        self.encoder = UtteranceEncoder(embedding, config.H_e, config.p)
        self.context = ContextRNN(config.W, C)
        self.prior = GaussianLayer(C, C, Z, n_layers=2)
        self.posterior = GaussianLayer(C + config.W, C, Z, n_layers=2)
        self.decoder = ReplyDecoder(embedding, C + Z, config.H_d, config.p)
        self.bow = BagOfWords(config.V, Z, config.H_d) if config.bow else None
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
        c = self.context(x[:, :-1])[targets.mask]  # (M, C), (1)
        prior = self.prior(c)  # (M, Z), (2)
        posterior = self.posterior(c, x[:, 1:][targets.mask])  # (M, Z), (3)
        z = posterior.sample(noise.sentence[targets.mask])  # (M, Z)
        h_0 = self.decoder.start(torch.cat([c, z.to(c.dtype)], dim=-1))  # (M, H_d), (4)
        nll = self.decoder.nll(h_0, targets, word_drop)  # (M,)
        bow = self.bow(z.to(c.dtype), targets) if self.bow else torch.zeros_like(nll)  # (M,)
        ei = ei_losses(self.ei, c, batch)
        return ObjectiveTerms(
            nll=targets.per_conversation(nll),
            kl=targets.per_conversation(posterior.kl(prior)),  # (5)
            log_ratio=targets.per_conversation(prior.log_density(z) - posterior.log_density(z)),
            bow=targets.per_conversation(bow),
            emotion=ei.emotion,
            sentence=ei.sentence,
            ei=ei.weighted,
            n_tokens=int(targets.lengths.sum()),
            n_inputs=len(c),
        )

    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> HiddenState:
        c = self.context.last(self.read_utterances(batch), batch.n_utterances)  # (B, C)
        noise = standard_normal([s.sentence for s in seeds], self.config.Z, c.device)  # (B, Z)
        z = self.prior(c).sample(noise).to(c.dtype)  # (B, Z)
        return HiddenState(self.decoder.start(torch.cat([c, z], dim=-1)))  # (B, H_d)


class BagOfWords(nn.Module):
    """Bag-of-words loss: z must predict the reply's words in any order.

    Zhao et al. (2017). The loss is n · KL(bag of the reply ‖ p) for the reply's n words without `<eos>`; it is 0 for a
    perfect prediction.
    """

    def __init__(self, V: int, Z: int, H_d: int) -> None:
        super().__init__()
        self.features = FeedForward(Z, H_d)
        self.project = nn.Linear(H_d, V)

    def forward(self, z: Tensor, targets: TargetUtterances) -> Tensor:
        """Return the loss, (M, Z) → (M,) nats."""
        log_p = F.log_softmax(self.project(self.features(z)).float(), dim=-1)  # (M, V)
        words = (targets.tokens != PAD) & (targets.tokens != EOS)  # (M, T)
        # Each occurrence of a word carries the word's share of the bag: its count over n.
        same = (targets.tokens[:, :, None] == targets.tokens[:, None, :]) & words[:, None, :]
        count = same.sum(-1)  # (M, T)
        n = words.sum(-1, keepdim=True).clamp_min(1)  # (M, 1)
        log_bag = (count.clamp_min(1) / n).log()  # (M, T)
        log_p_targets = log_p.gather(-1, targets.tokens)  # (M, T)
        return ((log_bag - log_p_targets) * words).sum(-1)
