"""HRED, the hierarchical recurrent encoder-decoder.

Serban et al. (2016), "Building End-To-End Dialogue Systems Using Generative Hierarchical Neural Network
Models"; sizes and details as in Ghandeharioun et al. (2019), with its EI heads.

    (1) h_t = [forward last; backward last] of a bi-GRU over utterance t       encoder
    (2) c_t = GRU(c_{t−1}, h_t)                                                context
    (3) h_0 = tanh(W c_t + b)                                                  decoder's first state
    (4) p(word | words before) = softmax(W' GRU(h, previous word) + b')        decoder
    (5) loss = −Σ_t log p(utterance t+1 | utterances 0 … t) + EI heads' losses on c_t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from chatbots.corpora.vocabulary import PAD, VocabularySize
from chatbots.models.batch import DialogueBatch, HiddenState, LatentNoise, ObjectiveTerms, ReplySeeds
from chatbots.models.dialogue_model import HierarchicalModel
from chatbots.models.ei import EIConfig, EIHeads, ei_losses, input_width
from chatbots.models.layers import ContextRNN, ReplyDecoder, UtteranceEncoder, WordDrop, initialise
from chatbots.validation import InputModel, Share, Size


class HREDConfig(InputModel):
    """Sizes of an HRED.

    Attributes:
        V: size of the vocabulary, including special tokens.
        E: embedding.
        H_e: encoder's hidden units per direction.
        H_d: decoder's hidden units.
        C: context.
        dropout: probability, on embedded words and the decoder's output.
        ei: the EI heads, or None.
        compat_inert_dropout: dropout without effect, as in the released code.
        compat_word_drop_per_step: one word-drop decision per step for the whole batch, as in the released code.
    """

    V: VocabularySize
    E: Size = 500
    H_e: Size = 1000
    H_d: Size = 1000
    C: Size = 1000
    dropout: Share = 0.2
    ei: EIConfig | None = None
    compat_inert_dropout: bool = False
    compat_word_drop_per_step: bool = False

    @property
    def p(self) -> float:
        """Effective dropout probability."""
        return 0.0 if self.compat_inert_dropout else self.dropout

    @property
    def W(self) -> int:
        """Width of an encoded utterance: 2H_e; input-only 2H_e + K + D."""
        return 2 * self.H_e + input_width(self.ei)


class HRED(HierarchicalModel):
    """Hierarchical encoder-decoder without latent variables."""

    def __init__(self, config: HREDConfig) -> None:
        super().__init__(config)
        self.config = config
        embedding = nn.Embedding(config.V, config.E, padding_idx=PAD)
        self.encoder = UtteranceEncoder(embedding, config.H_e, config.p)
        self.context = ContextRNN(config.W, config.C)
        self.decoder = ReplyDecoder(embedding, config.C, config.H_d, config.p)
        self.ei = EIHeads(config.ei, config.C) if config.ei else None
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
        x = self.read_utterances(batch)  # (B, N, W), (1)
        c = self.context(x[:, :-1])[targets.mask]  # (M, C), (2)
        h_0 = self.decoder.start(c)  # (M, H_d), (3)
        nll = self.decoder.nll(h_0, targets, word_drop)  # (M,), (4)
        ei = ei_losses(self.ei, c, batch)
        terms = ObjectiveTerms.of_words_alone(nll, targets)
        return replace(terms, emotion=ei.emotion, sentence=ei.sentence, ei=ei.weighted)  # (5)

    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> HiddenState:
        c = self.context.last(self.read_utterances(batch), batch.n_utterances)  # (B, C)
        return HiddenState(self.decoder.start(c))  # (B, H_d)
