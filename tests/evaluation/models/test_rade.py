"""RADE's network, losses and inputs against the formulas and tiny sizes."""

import math

import numpy as np
import pytest
import torch
import transformers as tf
from torch import nn

from evaluation.data.items import ReplyInContext
from evaluation.metrics.text_cache import TextCache
from evaluation.models.rade import (
    IGNORED,
    STAGE_1,
    STAGE_2,
    RadeLite,
    RadeNetwork,
    RadeWeights,
    ScoreHead,
    WordDecoder,
    context_tokens,
    padded,
    pair_tokens,
    rade_loss,
    ranking_loss,
    reported,
)
from evaluation.models.rade_inputs import NAMES, VECTORS, vectors_and_surface
from tests.tiny_models import save_model


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    folder = save_model(tmp_path_factory.mktemp("bart"), "bart", width=16, n_layers=1)
    return tf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), tf.AutoTokenizer.from_pretrained(folder)


def test_ranking_pushes_only_where_the_response_is_better():
    scores = torch.zeros(2, 2, requires_grad=True)
    better, worse = torch.tensor([4.0, 2.0]), torch.tensor([3.0, 3.0])
    loss = ranking_loss(scores, better, worse)
    assert loss.item() == pytest.approx(math.log(2) / 2)  # g is 1 for the first pair, 0 for the second
    loss.backward()
    assert scores.grad[0].tolist() == pytest.approx([0.25, -0.25])
    assert scores.grad[1].tolist() == [0, 0]
    assert ranking_loss(scores, better, worse, symmetric=True).item() == pytest.approx(math.log(2))
    assert ranking_loss(scores, worse, worse, symmetric=True).item() == 0


def test_the_loss_of_each_stage_by_hand():
    scores = torch.tensor([[3.0, 2.0], [4.0, 5.0]])
    s_a, s_h, gen = torch.tensor([4.0, 4.0]), torch.tensor([3.0, 5.0]), torch.tensor(0.7)
    mse_a, mse_h = (4 + 1) / 2, (0 + 1) / 2
    ranking = -math.log(math.e**2 / (math.e**3 + math.e**2)) / 2
    total, parts = rade_loss(scores, s_a, s_h, gen, STAGE_2)
    assert total.item() == pytest.approx(mse_a + mse_h + 0.7 + ranking)
    assert parts == pytest.approx({"mse_a": mse_a, "mse_h": mse_h, "generation": 0.7, "ranking": ranking})
    assert rade_loss(scores, s_a, None, gen, STAGE_1)[0].item() == pytest.approx(mse_a + 0.7)
    halves = RadeWeights(response=0.5, reference=2, generation=0, ranking=3)
    assert rade_loss(scores, s_a, s_h, gen, halves)[0].item() == pytest.approx(mse_a / 2 + 2 * mse_h + 3 * ranking)


def test_inputs_lose_the_oldest_context_and_never_a_response(bart):
    _, tokenizer = bart

    def ids(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    context = ["hello how", "fine"]
    whole = pair_tokens(tokenizer, context, "yes no", "maybe")
    tail = [end, *ids("yes no"), end, *ids("maybe"), end]
    assert whole == [begin, *ids("hello how"), end, *ids("fine"), *tail]
    assert pair_tokens(tokenizer, context, "yes no", "maybe", len(tail) + 2) == [begin, ids("fine")[-1], *tail]
    assert pair_tokens(tokenizer, context, "yes no", "maybe", len(tail) + 1) == [begin, *tail]
    # Where both alone are too long, the longer one loses its end.
    long, short = "yes no maybe yes no maybe", "yes no"
    n, m = len(ids(long)), len(ids(short))
    cut = pair_tokens(tokenizer, context, long, short, n + m + 2)
    assert cut == [begin, end, *ids(long)[: n - 2], end, *ids(short), end]
    cut = pair_tokens(tokenizer, context, short, long, n + m + 2)
    assert cut == [begin, end, *ids(short), end, *ids(long)[: n - 2], end]
    assert len(pair_tokens(tokenizer, context, long, long, 12)) == 12
    assert context_tokens(tokenizer, context) == [begin, *ids("hello how"), end, *ids("fine"), end]
    assert padded([[1, 2], [3]], 9).tolist() == [[1, 2], [3, 9]]


def test_the_posterior_encoder_averages_states_and_the_head_is_its_formula(bart):
    model, tokenizer = bart
    torch.manual_seed(0)
    network = RadeNetwork(model).eval()
    rows = [pair_tokens(tokenizer, ["hello"], "yes", "no"), pair_tokens(tokenizer, ["cats and dogs"], "books", "no")]
    tokens = padded(rows, 1)
    there = padded([[1] * len(row) for row in rows], 0)
    with torch.no_grad():
        result = network(tokens, there)
        for k, row in enumerate(rows):
            states = model.get_encoder()(input_ids=torch.tensor([row])).last_hidden_state[0].numpy()
            first, last = (layer for layer in network.head.layers if isinstance(layer, nn.Linear))
            hidden = np.tanh(first.weight.numpy() @ states.mean(axis=0) + first.bias.numpy())
            expected = last.weight.numpy() @ hidden + last.bias.numpy()
            np.testing.assert_allclose(result[k].numpy(), expected, atol=1e-4)


def test_generation_is_the_mean_log_likelihood_of_the_reference_given_the_context_alone(bart):
    model, tokenizer = bart
    network = RadeNetwork(model).eval()
    context = torch.tensor([context_tokens(tokenizer, ["hello how are you"])])
    input_ids = tokenizer("i am fine", add_special_tokens=False)["input_ids"]
    labels = torch.tensor([[*input_ids, IGNORED, IGNORED]])
    with torch.no_grad():
        given = torch.tensor([[model.config.decoder_start_token_id, *input_ids[:-1]]])
        logits = model(input_ids=context, decoder_input_ids=given).logits[0].double().log_softmax(-1)
        expected = -np.mean([logits[t, word].item() for t, word in enumerate(input_ids)])
        assert network.generation(context, torch.ones_like(context), labels).item() == pytest.approx(expected, abs=1e-4)


def test_the_word_decoder_is_begun_by_the_context_and_ignores_padding():
    torch.manual_seed(1)
    decoder = WordDecoder(7, 4, hidden=3)
    context = torch.randn(1, 4)
    result = decoder(context, torch.tensor([[2, 5, IGNORED]]))
    state = decoder.begin(context).tanh().unsqueeze(0)
    nats = []
    for given, expected in ((0, 2), (2, 5)):
        out, state = decoder.gru(decoder.words(torch.tensor([[given]])), state)
        nats.append(-decoder.out(out)[0, 0].log_softmax(-1)[expected].item())
    assert result.item() == pytest.approx(np.mean(nats), abs=1e-5)
    assert decoder(context + 1, torch.tensor([[2, 5, IGNORED]])).item() != result.item()


def test_the_lite_network_turns_standardises_and_averages_its_members():
    torch.manual_seed(3)
    lite = RadeLite(2, n_vectors=1, width=3, n_axes=1, hidden=4, dropout=0.5, members=3)
    vectors = torch.tensor([[[1.0, 0, 0]], [[3.0, 0, 0]], [[2.0, 0.1, 0]], [[2.0, -0.1, 0]]])
    surface = torch.tensor([[0.0, 7], [2, 7], [1, 7], [1, 7]])
    scores = torch.tensor([[4.0, 1.0], [4.0, 5.0], [5.0, 3.0], [3.0, 3.0]])
    lite.fitted(vectors, surface, scores).eval()
    x = lite.inputs(vectors, surface)
    root = 2**0.5
    assert x[:, 0].tolist() == pytest.approx([-root, root, 0, 0], abs=1e-5)
    assert x[:, 1].tolist() == [0, 0, 0, 0]  # constant in training: says nothing
    assert x[:, 2].abs().tolist() == pytest.approx([root, root, 0, 0], abs=1e-5)  # along the main axis
    expected = []
    for w, b, v, c in zip(lite.into, lite.into_bias, lite.out, lite.out_bias, strict=True):
        y = np.tanh(x.numpy() @ w.detach().numpy() + b.detach().numpy())
        expected.append(y @ v.detach().numpy() + c.detach().numpy())
    made = np.mean(expected, axis=0) * scores.numpy().std(axis=0) + scores.numpy().mean(axis=0)
    np.testing.assert_allclose(lite(vectors, surface).detach().numpy(), made, atol=1e-5)


def test_features_of_a_pair_by_hand():
    reply = ReplyInContext(("Hi there!", "Do you like red cars?"), "I like red cars, red cars!", "You like cats?")
    vectors, surface = vectors_and_surface([reply], TextCache())
    result = dict(zip(NAMES, surface[0].tolist(), strict=True))
    assert vectors.shape == (1, len(VECTORS), 384)
    assert result["response_words"] == 6
    assert result["response_different_words"] == pytest.approx(4 / 6)
    assert result["response_repeated_pairs"] == pytest.approx(1 / 6)  # "red cars" twice
    assert result["response_says_i"] == pytest.approx(1 / 6)
    assert result["reference_says_you"] == pytest.approx(1 / 3)
    assert result["response_reference_shared_words"] == pytest.approx(1 / 4)  # "like"
    assert result["response_reference_shared_words_back"] == pytest.approx(1 / 3)
    assert result["response_last_shared_pairs"] == pytest.approx(2 / 4)  # "like red", "red cars"
    assert result["longer_than_reference"] == pytest.approx(math.log(7 / 4))
    assert result["context_turns"] == 2
    a, h, q = vectors[0, 3], vectors[0, 2], vectors[0, 0]
    assert result["cosine_response_reference"] == pytest.approx(float(a @ h), abs=1e-5)
    assert result["cosine_response_last"] == pytest.approx(float(a @ q), abs=1e-5)
    assert np.isfinite(surface).all()


def test_the_head_has_the_sizes_of_the_paper_and_reports_within_the_scale():
    head = ScoreHead(768)
    assert [p.shape for p in head.parameters()] == [(768, 768), (768,), (2, 768), (2,)]
    assert reported(np.array([0.2, 3.0, 6.0])).tolist() == [1, 3, 5]
