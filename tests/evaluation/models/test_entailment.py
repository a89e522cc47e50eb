"""The entailment classifiers against computations of their own, in NumPy and step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from evaluation.models.entailment import (
    EncoderVectors,
    EntailmentBert,
    EntailmentClassifier,
    EntailmentLite,
    Esim,
    NliBatch,
    StaticVectors,
)
from evaluation.training.backbone import backbone_load
from evaluation.training.config import BackboneConfig
from evaluation.training.inference_pairs import LABELS
from tests.tiny_models import save_classifier

WORDS = {word: np.random.default_rng(k).normal(size=5).astype(np.float32) for k, word in enumerate("abcde")}
PREMISES, HYPOTHESES = ["a b c", "e", "unknown a"], ["d d", "a b c d e", ""]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = save_classifier(tmp_path_factory.mktemp("bert"))
    return BackboneConfig(model=str(folder), pooling="cls", learns="all")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def array(tensor):
    return tensor.detach().double().numpy()


def lstm_by_hand(lstm, words):
    """Return (T, 2h) states of a bidirectional LSTM, gate by gate."""
    both = []
    for suffix, order in (("", 1), ("_reverse", -1)):
        w, u, bw, bu = (
            array(getattr(lstm, f"{name}_l0{suffix}")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        n = u.shape[1]
        h, c, states = np.zeros(n), np.zeros(n), []
        for x in words[::order]:
            i, f, g, o = np.split(w @ x + bw + u @ h + bu, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        both.append(np.array(states[::order]))
    return np.concatenate(both, axis=1)


def linear(layer, x):
    return x @ array(layer.weight).T + array(layer.bias)


def esim_by_hand(network, premise, hypothesis):
    zero = np.zeros(5)
    words = [
        np.array([WORDS.get(word, zero) for word in (text.split() or [""])], dtype=float)
        for text in (premise, hypothesis)
    ]
    a, b = (lstm_by_hand(network.encode, one) for one in words)
    e = np.array([[x @ y for y in b] for x in a])
    pooled = []
    for own, seen in ((a, softmax(e) @ b), (b, softmax(e.T) @ a)):
        m = np.concatenate([own, seen, own - seen, own * seen], axis=1)
        v = lstm_by_hand(network.compose, np.maximum(linear(network.project[0], m), 0))
        pooled += [v.mean(axis=0), v.max(axis=0)]
    hidden = np.maximum(linear(network.decide[0], np.concatenate(pooled)), 0)
    return linear(network.out, hidden)


def test_esim_is_what_its_equations_say_and_padding_changes_nothing():
    torch.manual_seed(3)
    network = Esim(StaticVectors(str.split, WORDS.get, 5, 128), hidden=4).eval()
    for parameter in network.parameters():  # biases too
        torch.nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        found = network.own_logits(PREMISES, HYPOTHESES).double().numpy()
    wanted = [esim_by_hand(network, *pair) for pair in zip(PREMISES, HYPOTHESES, strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_esim_begins_as_its_configuration_says():
    torch.manual_seed(3)
    network = Esim(StaticVectors(str.split, WORDS.get, 5, 128), hidden=4)
    for lstm in (network.encode, network.compose):
        for suffix in ("", "_reverse"):
            recurrent = array(getattr(lstm, f"weight_hh_l0{suffix}"))
            np.testing.assert_allclose(recurrent.T @ recurrent, np.eye(4), atol=1e-5)
            assert array(getattr(lstm, f"bias_hh_l0{suffix}")).tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
            assert not array(getattr(lstm, f"bias_ih_l0{suffix}")).any()
    weights = array(Esim(StaticVectors(str.split, WORDS.get, 5, 128), hidden=60).project[0].weight)
    assert weights.std() == pytest.approx(math.sqrt(2 / (480 + 60)), rel=0.05)
    assert not array(network.out.bias).any()
    assert network.train().own_logits(PREMISES, HYPOTHESES).shape == (3, 3)


def test_esim_reads_the_states_of_an_encoder(encoder):
    torch.manual_seed(1)
    vectors = EncoderVectors(backbone_load(encoder.model_copy(update={"learns": "frozen"})))
    network = Esim(vectors, hidden=4).eval()
    with torch.no_grad():
        both = network.own_logits(["hello", "how are you today i am fine"], ["yes", "no"])
        alone = network.own_logits(["hello"], ["yes"])
    torch.testing.assert_close(both[:1], alone, atol=1e-4, rtol=1e-3)
    assert not any("vectors" in name for name, p in network.named_parameters() if p.requires_grad)


def test_bert_is_a_layer_on_the_pooled_pair(encoder):
    torch.manual_seed(1)
    backbone = backbone_load(encoder)
    network = EntailmentBert(backbone).eval()
    torch.nn.init.normal_(network.out.bias)
    with torch.no_grad():
        found = network.own_logits(["hello how are you"], ["fine thank you"])
        read = backbone.tokenizer(
            "hello how are you", "fine thank you", truncation="longest_first", max_length=128, return_tensors="pt"
        )
        last = backbone.model(**read).last_hidden_state[0, 0]
    pooler = backbone.model.pooler.dense
    wanted = linear(network.out, np.tanh(linear(pooler, array(last))))
    np.testing.assert_allclose(array(found)[0], wanted, atol=1e-5)
    assert array(EntailmentBert(backbone).out.weight).std() == pytest.approx(0.02, rel=0.5)


def test_lite_is_a_regression_on_four_features():
    torch.manual_seed(1)
    network = EntailmentLite(3)
    u, v = torch.tensor([[1.0, 0, 2]]), torch.tensor([[0.5, 1, 2]])
    features = np.array([1, 0, 2, 0.5, 1, 2, 0.5, 1, 0, 0.5, 0, 4])
    wanted = linear(network.out, features)
    np.testing.assert_allclose(array(network(u, v))[0], wanted, atol=1e-6)
    np.testing.assert_allclose(array(network.probabilities(u, v))[0], softmax(wanted), atol=1e-6)


@pytest.mark.parametrize("own", [Esim.labels, EntailmentBert.labels, LABELS])
def test_classes_go_by_their_names(own):
    assert sorted(own) == sorted(LABELS)
    # Sheet, section 3: the released networks' own orders.
    assert EntailmentBert.labels == ("contradiction", "entailment", "neutral")
    assert Esim.labels == ("entailment", "contradiction", "neutral")

    class Sure(EntailmentClassifier):
        labels = own

        def own_logits(self, premise, hypothesis):
            return torch.tensor([[float(name == one) for name in self.labels] for one in hypothesis])

    network = Sure()
    found = network(["x"] * 3, list(LABELS))
    assert found.tolist() == torch.eye(3).tolist()
    loss = network.loss(NliBatch(["x"] * 3, list(LABELS), torch.arange(3)))
    assert float(loss.told["accuracy"]) == 1
    assert float(loss.total) == pytest.approx(math.log(math.e + 2) - 1)
