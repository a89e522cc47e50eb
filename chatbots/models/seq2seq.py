"""Seq2Seq with attention: a single-turn baseline that sees the latest utterance only.

Sutskever et al. (2014), "Sequence to Sequence Learning with Neural Networks", with the global attention of Luong et al.
(2015), "Effective Approaches to Attention-based Neural Machine Translation", `general` score. There is no input
feeding, so training handles all words in parallel. Like our other models it uses GRUs instead of LSTMs.

    (1) m_s = [forward state; backward state] of a bi-GRU at word s            memory
    (2) h_0 = tanh(W [forward last; backward last] + b)
    (3) h_t = GRU(h_{t−1}, previous word)
    (4) a_t(s) ∝ exp(h_tᵀ W_a m_s)                                             Luong et al., Eq. 7, 8
    (5) h̃_t = tanh(W_c [Σ_s a_t(s) m_s; h_t])                                  Luong et al., Eq. 5
    (6) p(word) = softmax(W_s h̃_t + b)                                         Luong et al., Eq. 6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from chatbots.corpora.vocabulary import PAD, VocabularySize
from chatbots.models.batch import DecoderState, DialogueBatch, LatentNoise, ObjectiveTerms, ReplySeeds
from chatbots.models.dialogue_model import DialogueModel
from chatbots.models.layers import FeedForward, WordDrop, initialise, one_step, shifted, tokens_nll
from chatbots.validation import InputModel, Share, Size


class Seq2SeqConfig(InputModel):
    """Sizes of a Seq2Seq model.

    Attributes:
        V: vocabulary size, special tokens included.
        E: embedding size; encoder and decoder share the embedding.
        H_e: encoder's hidden units per direction.
        H_d: decoder's hidden units.
        dropout: probability, on embedded words and before the projection.
    """

    V: VocabularySize
    E: Size = 300
    H_e: Size = 256
    H_d: Size = 512
    dropout: Share = 0.2


@dataclass(frozen=True, eq=False)
class AttentionState(DecoderState):
    """Decoder state with the encoder memory that it attends to."""

    hidden: Tensor  # (R, H_d)
    memory: Tensor  # (R, S, 2H_e)
    keys: Tensor  # (R, S, H_d), W_a m_s
    mask: Tensor  # (R, S), False at padding


class Seq2Seq(DialogueModel):
    """Recurrent encoder-decoder with attention from one utterance to the next."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.V, config.E, padding_idx=PAD)
        self.encoder = nn.GRU(config.E, config.H_e, batch_first=True, bidirectional=True)
        self.start = FeedForward(2 * config.H_e, config.H_d)
        self.decoder = nn.GRU(config.E, config.H_d, batch_first=True)
        self.score = nn.Linear(2 * config.H_e, config.H_d, bias=False)  # W_a
        self.combine = nn.Linear(2 * config.H_e + config.H_d, config.H_d, bias=False)  # W_c
        self.dropout = nn.Dropout(config.dropout)
        self.project = nn.Linear(config.H_d, config.V)  # W_s
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
        state = self._encode(batch.utterances[:, :-1][targets.mask], batch.lengths[:, :-1][targets.mask])
        words = self.embedding(word_drop(shifted(targets.tokens, targets.lengths)))  # (M, T, E)
        h, _ = self.decoder(self.dropout(words), state.hidden[None].contiguous())  # (M, T, H_d), (3)
        attended = self._attend(h, state)  # (M, T, H_d)
        nll = tokens_nll(lambda mask: self.project(self.dropout(attended[mask])), targets)  # (6)
        return ObjectiveTerms.of_words_alone(nll, targets)

    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> AttentionState:
        return self._encode(*batch.latest)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, AttentionState]:
        assert isinstance(state, AttentionState)
        h = one_step(self.decoder, self.embedding(tokens), state.hidden)  # (R, H_d), (3)
        attended = self._attend(h[:, None], state)[:, 0]  # (R, H_d)
        return self.project(attended), AttentionState(h, state.memory, state.keys, state.mask)

    def _encode(self, tokens: Tensor, lengths: Tensor) -> AttentionState:
        """Encode M utterances, (M, T), of lengths (M,), all above 0."""
        words = self.dropout(self.embedding(tokens))  # (M, T, E)
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(outputs, batch_first=True)  # (M, S, 2H_e), (1)
        positions = torch.arange(memory.shape[1], device=memory.device)  # (S,)
        hidden = self.start(torch.cat([last[0], last[1]], dim=-1))  # (M, H_d), (2)
        mask = positions < lengths[:, None]  # (M, S)
        return AttentionState(hidden, memory, self.score(memory), mask)

    def _attend(self, h: Tensor, state: AttentionState) -> Tensor:
        """Attend to the memory from each decoder state: (M, T, H_d) → (M, T, H_d)."""
        scores = h @ state.keys.transpose(1, 2)  # (M, T, S)
        scores = scores.masked_fill(~state.mask[:, None], -torch.inf)
        seen = torch.softmax(scores.float(), dim=-1).to(h.dtype) @ state.memory  # (M, T, 2H_e), (4)
        return torch.tanh(self.combine(torch.cat([seen, h], dim=-1)))  # (5)
