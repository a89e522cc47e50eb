"""PONE's scorer and the entailment classifiers against computations of their own in NumPy."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from evaluation.models.entailment import (
    EncoderVectors,
    EntailmentBert,
    EntailmentClassifier,
    EntailmentLite,
    Esim,
    NliBatch,
    StaticVectors,
)
from evaluation.models.pone import (
    PoneScorer,
    RecurrentSentences,
    accuracy,
    labelled_loss,
    pooled_words,
    ruber_blend,
    scorer_loss,
)
from evaluation.training.backbone import backbone_load
from evaluation.training.config import BackboneConfig
from evaluation.training.inference_pairs import LABELS
from tests.tiny_models import save_classifier


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
        expected = weights[-2] @ x + weights[-1]
        result = scorer(torch.tensor(q), torch.tensor(h))[k]
        assert result.item() == pytest.approx(expected.item(), abs=1e-5)


def test_m_begins_as_the_identity_so_that_the_middle_feature_is_the_cosine():
    scorer = PoneScorer(2, hidden=(3,))
    result = scorer.features(torch.tensor([[0.6, 0.8]]), torch.tensor([[1.0, 0.0]]))
    assert result[0].tolist() == pytest.approx([0.6, 0.8, 0.6, 1.0, 0.0])
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

    expected = -sum(map(math.log, [0.5, sigmoid(2), 1 - sigmoid(-1), 0.5])) / 4
    assert scorer_loss(positive, negative).item() == pytest.approx(expected)
    hinge = (max(0, 0.5 - 0.5 + sigmoid(-1)) + max(0, 0.5 - sigmoid(2) + 0.5)) / 2
    assert scorer_loss(positive, negative, "hinge").item() == pytest.approx(hinge)
    both = torch.cat([positive, negative])
    assert labelled_loss(both, torch.tensor([1, 1, 0, 0])).item() == pytest.approx(expected)
    assert accuracy(positive, negative) == 0.75  # 0 is no side of its own: it counts as not fitting


def test_recurrent_sentences_read_both_ways_and_no_padding(rng):
    torch.manual_seed(1)
    sentences = RecurrentSentences(3, 4)
    words = torch.tensor(rng.normal(size=(2, 5, 3)).astype(np.float32))
    result = sentences(words, torch.tensor([5, 2]))
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
        expected = np.concatenate([last(xs, ""), last(xs[::-1], "_reverse")])
        np.testing.assert_allclose(result[k].detach().numpy(), expected, atol=1e-5)
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
    a, b = (lstm_by_hand(network.encode, word) for word in words)
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
        result = network.own_logits(PREMISES, HYPOTHESES).double().numpy()
    expected = [esim_by_hand(network, *pair) for pair in zip(PREMISES, HYPOTHESES, strict=True)]
    np.testing.assert_allclose(result, expected, atol=1e-5)


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
        result = network.own_logits(["hello how are you"], ["fine thank you"])
        read = backbone.tokenizer(
            "hello how are you", "fine thank you", truncation="longest_first", max_length=128, return_tensors="pt"
        )
        last = backbone.model(**read).last_hidden_state[0, 0]
    pooler = backbone.model.pooler.dense
    expected = linear(network.out, np.tanh(linear(pooler, array(last))))
    np.testing.assert_allclose(array(result)[0], expected, atol=1e-5)
    assert array(EntailmentBert(backbone).out.weight).std() == pytest.approx(0.02, rel=0.5)


def test_lite_is_a_regression_on_four_features():
    torch.manual_seed(1)
    network = EntailmentLite(3)
    u, v = torch.tensor([[1.0, 0, 2]]), torch.tensor([[0.5, 1, 2]])
    features = np.array([1, 0, 2, 0.5, 1, 2, 0.5, 1, 0, 0.5, 0, 4])
    expected = linear(network.out, features)
    np.testing.assert_allclose(array(network(u, v))[0], expected, atol=1e-6)
    np.testing.assert_allclose(array(network.probabilities(u, v))[0], softmax(expected), atol=1e-6)


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
    result = network(["x"] * 3, list(LABELS))
    assert result.tolist() == torch.eye(3).tolist()
    loss = network.loss(NliBatch(["x"] * 3, list(LABELS), torch.arange(3)))
    assert float(loss.told["accuracy"]) == 1
    assert float(loss.total) == pytest.approx(math.log(math.e + 2) - 1)
