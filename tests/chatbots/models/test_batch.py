"""Batches: padding, cutting, targets, bad shapes."""

from __future__ import annotations

import pytest
import torch

from chatbots.models.batch import DialogueBatch
from tests.chatbots.models.builders import CONVERSATIONS, batch_of, ei_values


def test_padding_and_lengths():
    batch = DialogueBatch.from_ids([[[4, 5], []], [[6]]])
    assert batch.utterances.tolist() == [[[4, 5, 3], [3, 0, 0]], [[6, 3, 0], [0, 0, 0]]]
    assert batch.lengths.tolist() == [[3, 1], [2, 0]]
    assert batch.n_utterances.tolist() == [2, 1]


def test_long_utterances_are_cut_and_still_end():
    batch = DialogueBatch.from_ids([[list(range(4, 60))]])
    assert batch.utterances[0, 0].tolist() == [*range(4, 33), 3]
    assert batch.lengths.tolist() == [[30]]


def test_targets_are_the_next_utterances():
    targets = batch_of(CONVERSATIONS).targets
    assert targets.lengths.tolist() == [2, 5, 3, 6, 1, 4]
    assert targets.conversation.tolist() == [0, 0, 0, 1, 2, 2]
    assert targets.tokens[3].tolist() == [8, 7, 6, 5, 4, 3]
    assert targets.per_conversation(torch.ones(6)).tolist() == [3, 1, 2]


def test_latest_utterance():
    tokens, lengths = batch_of([[[4, 5], [6]], []]).latest
    assert tokens.tolist() == [[6, 3, 0], [3, 0, 0]]
    assert lengths.tolist() == [2, 1]


def test_ei_targets_are_padded_along():
    emotion, sentence = ei_values(CONVERSATIONS)
    batch = batch_of(CONVERSATIONS, ei=True)
    assert batch.emotion.shape == (3, 4, 4)
    assert torch.equal(batch.sentence[1, :2], sentence[1])
    assert not bool(batch.emotion[1, 2:].any())
    assert torch.equal(batch.to("cpu").emotion[0], emotion[0])


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="at least one"):
        DialogueBatch.from_ids([])
    with pytest.raises(ValueError, match=r"\(2, 3\); \(B, N, T\)"):
        DialogueBatch(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"lengths has shape \(2, 4\)"):
        DialogueBatch(torch.zeros(2, 3, 5, dtype=torch.long), torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"emotion has shape"):
        DialogueBatch(
            torch.zeros(2, 3, 5, dtype=torch.long), torch.zeros(2, 3), emotion=torch.zeros(2, 3)
        )
