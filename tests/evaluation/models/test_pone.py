"""The scorer of PONE against the formulas in NumPy, and its special cases."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from evaluation.models.pone import (
    PoneScorer,
    RecurrentSentences,
    accuracy,
    labelled_loss,
    pooled_words,
    ruber_blend,
    scorer_loss,
)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_the_forward_pass_is_the_formula(rng):
    torch.manual_seed(0)
    scorer = PoneScorer(3, hidden=(4, 5), init="uniform").eval()
    assert scorer.bilinear.min() >= 0
    q, h = rng.normal(size=(2, 6, 3)).astype(np.float32)
    weights = [p.detach().numpy() for p in scorer.layers.parameters()]
    m = scorer.bilinear.detach().numpy()
    for k in range(6):
        x = np.concatenate([q[k], [q[k] @ m @ h[k]], h[k]])
        for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            x = np.maximum(w @ x + b, 0)
        wanted = weights[-2] @ x + weights[-1]
        found = scorer(torch.tensor(q), torch.tensor(h))[k]
        assert found.item() == pytest.approx(wanted.item(), abs=1e-5)


def test_m_begins_as_the_identity_so_that_the_middle_feature_is_the_cosine():
    scorer = PoneScorer(2, hidden=(3,))
    found = scorer.features(torch.tensor([[0.6, 0.8]]), torch.tensor([[1.0, 0.0]]))
    assert found[0].tolist() == pytest.approx([0.6, 0.8, 0.6, 1.0, 0.0])
    assert not torch.equal(PoneScorer(2, init="xavier").bilinear, torch.eye(2))


def test_the_published_layers_have_their_sizes():
    scorer = PoneScorer(768)
    assert [layer.out_features for layer in scorer.layers if isinstance(layer, nn.Linear)] == [256, 512, 128, 1]
    assert scorer.layers[0].in_features == 1537
    assert sum(isinstance(layer, nn.Dropout) for layer in scorer.layers) == 3


def test_losses_by_hand():
    positive, negative = torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 0.0])

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    wanted = -sum(map(math.log, [0.5, sigmoid(2), 1 - sigmoid(-1), 0.5])) / 4
    assert scorer_loss(positive, negative).item() == pytest.approx(wanted)
    hinge = (max(0, 0.5 - 0.5 + sigmoid(-1)) + max(0, 0.5 - sigmoid(2) + 0.5)) / 2
    assert scorer_loss(positive, negative, "hinge").item() == pytest.approx(hinge)
    both = torch.cat([positive, negative])
    assert labelled_loss(both, torch.tensor([1, 1, 0, 0])).item() == pytest.approx(wanted)
    assert accuracy(positive, negative) == 0.75  # 0 is no side of its own: it counts as not fitting


def test_recurrent_sentences_read_both_ways_and_no_padding(rng):
    torch.manual_seed(1)
    sentences = RecurrentSentences(3, 4)
    words = torch.tensor(rng.normal(size=(2, 5, 3)).astype(np.float32))
    found = sentences(words, torch.tensor([5, 2]))
    weights = {name: p.detach().numpy() for name, p in sentences.gru.named_parameters()}

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def last(xs, end):
        w, u = weights[f"weight_ih_l0{end}"], weights[f"weight_hh_l0{end}"]
        b, c = weights[f"bias_ih_l0{end}"], weights[f"bias_hh_l0{end}"]
        h = np.zeros(2)
        for x in xs:
            i, j = np.split(w @ x + b, 3), np.split(u @ h + c, 3)
            r, z = sigmoid(i[0] + j[0]), sigmoid(i[1] + j[1])
            h = (1 - z) * np.tanh(i[2] + r * j[2]) + z * h
        return h

    for k, n in enumerate((5, 2)):
        xs = words[k, :n].numpy()
        wanted = np.concatenate([last(xs, ""), last(xs[::-1], "_reverse")])
        np.testing.assert_allclose(found[k].detach().numpy(), wanted, atol=1e-5)
    with pytest.raises(ValueError, match="width is 5"):
        RecurrentSentences(3, 5)


def test_ruber_takes_the_lower_part_after_scaling_both():
    unreferenced, referenced = np.array([0.2, 0.4, 0.6]), np.array([3.0, 1.0, 2.0])
    assert ruber_blend(unreferenced, referenced).tolist() == pytest.approx([0, 0, 0.5])
    assert ruber_blend(unreferenced, referenced, "max").tolist() == pytest.approx([1, 0.5, 1])
    assert ruber_blend(unreferenced, referenced, "arithmetic").tolist() == pytest.approx([0.5, 0.25, 0.75])
    assert ruber_blend(unreferenced, referenced, "geometric").tolist() == pytest.approx([0, 0, 0.5**0.5])
    assert np.isnan(ruber_blend(np.ones(3), referenced)).all()
    assert pooled_words(np.array([[1.0, -2.0], [0.0, 5.0]])).tolist() == [1, 5, 0, -2]


def test_a_few_steps_make_the_loss_fall(rng):
    torch.manual_seed(2)
    scorer = PoneScorer(8, hidden=(16,), dropout=0.1).train()
    adam = torch.optim.Adam(scorer.parameters(), lr=1e-2)
    q = torch.tensor(rng.normal(size=(64, 8)).astype(np.float32))
    losses = []
    for _ in range(30):
        adam.zero_grad()
        loss = scorer_loss(scorer(q, q), scorer(q, q.roll(1, 0)))
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
