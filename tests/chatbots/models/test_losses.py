"""Objectives and EI heads against NumPy by the equations; where gradients go, and what is dropped."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from chatbots.models.batch import DialogueBatch, LatentNoise
from chatbots.models.ei import EIConfig
from chatbots.models.layers import Gaussian, WordDrop
from tests.chatbots.models import references
from tests.chatbots.models.builders import CONVERSATIONS, EI, LATENT, MODELS, batch_of, ei_values, ended, tiny


def noise_for(batch: DialogueBatch, Z: int = 3, seed: int = 5) -> LatentNoise:
    return LatentNoise.draw(batch, Z, torch.Generator().manual_seed(seed))


def terms_of(model, batch, noise=None, sentence_drop=0.0, generator=None):
    return model.terms(
        batch, word_drop=WordDrop(), sentence_drop=sentence_drop, generator=generator, noise=noise or noise_for(batch)
    )


def assert_near(got, expected, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(got.detach()), expected, rtol=tolerance, atol=tolerance)


def test_hred_agrees_with_its_equations():
    model = tiny("hred")
    w = references.Weights(model)
    expected = [references.hred(w, ended(c))["nll"] for c in CONVERSATIONS]
    parts = model.loss(batch_of(CONVERSATIONS))
    assert_near(terms_of(model, batch_of(CONVERSATIONS)).nll, expected)
    assert_near(parts.tokens_nll, sum(expected))
    assert parts.n_tokens == sum(len(u) + 1 for c in CONVERSATIONS for u in c[1:])
    assert_near(parts.total, sum(expected))
    assert parts.kl == parts.bow == parts.emotion == parts.sentence == 0


@pytest.mark.parametrize("bow", [False, True])
def test_vhred_agrees_with_its_equations(bow):
    model = tiny("vhred", bow=bow)
    w = references.Weights(model)
    batch = batch_of(CONVERSATIONS)
    noise = noise_for(batch)
    expected = [references.vhred(w, ended(c), noise.sentence[b].double().numpy()) for b, c in enumerate(CONVERSATIONS)]
    terms = terms_of(model, batch, noise)
    for name, got in (("nll", terms.nll), ("kl", terms.kl), ("ratio", terms.log_ratio)):
        assert_near(got, [e[name] for e in expected])
    assert_near(terms.bow, [e["bow"] for e in expected])
    assert bool(terms.bow.sum() > 0) == bow
    total = sum(e["nll"] + 0.3 * e["kl"] + e["bow"] for e in expected)
    assert_near(model.loss(batch, kl_weight=0.3, noise=noise).total, total)


def test_vhcr_agrees_with_its_equations():
    model = tiny("vhcr")
    w = references.Weights(model)
    batch = batch_of(CONVERSATIONS)
    noise = noise_for(batch)
    expected = [
        references.vhcr(w, ended(c), noise.sentence[b].double().numpy(), noise.conversation[b].double().numpy())
        for b, c in enumerate(CONVERSATIONS)
    ]
    terms = terms_of(model, batch, noise)
    for name, got in (("nll", terms.nll), ("kl", terms.kl), ("ratio", terms.log_ratio)):
        assert_near(got, [e[name] for e in expected])


def test_seq2seq_agrees_with_its_equations():
    model = tiny("seq2seq")
    w = references.Weights(model)
    expected = []
    for conversation in map(ended, CONVERSATIONS):
        nll = 0.0
        for source, target in pairwise(conversation):
            nll += references.said(references.seq2seq_logits(w, source, target), target)
        expected.append(nll)
    assert_near(terms_of(model, batch_of(CONVERSATIONS)).nll, expected)


def test_transformer_agrees_with_torch_nn_one_pair_at_a_time():
    model = tiny("transformer")
    for conversation in map(ended, CONVERSATIONS):
        nll = 0.0
        for source, target in pairwise(conversation):
            place = positions_by_hand(max(len(source), len(target)), 8)
            table = model.embedding.weight
            words = table[torch.tensor(source)] * 8**0.5 + place[: len(source)]
            said = table[torch.tensor([2, *target[:-1]])] * 8**0.5 + place[: len(target)]
            mask = torch.nn.Transformer.generate_square_subsequent_mask(len(target))
            states = model.decoder(said[None], model.encoder(words[None]), tgt_mask=mask)[0]
            logits = (states @ table.T).detach()
            nll += float(F.cross_entropy(logits, torch.tensor(target), reduction="sum"))
        batch = batch_of([[u[:-1] for u in conversation]])
        assert float(terms_of(model, batch).nll.detach()) == pytest.approx(nll, rel=1e-5)


def positions_by_hand(n: int, d: int) -> torch.Tensor:
    """Compute the positions of Vaswani et al. (2017), section 3.5, entry by entry."""
    table = np.zeros((n, d))
    for position in range(n):
        for i in range(d // 2):
            angle = position / 10_000 ** (2 * i / d)
            table[position, 2 * i], table[position, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return torch.tensor(table, dtype=torch.float32)


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_equals_its_conversations_one_by_one(name):
    model = tiny(name)
    together = batch_of(CONVERSATIONS)
    noise = noise_for(together)
    terms = terms_of(model, together, noise)
    for b, conversation in enumerate(CONVERSATIONS):
        n = len(conversation) - 1
        own = LatentNoise(noise.sentence[b : b + 1, :n], noise.conversation[b : b + 1])
        alone = terms_of(model, batch_of([conversation]), own)
        for part in ("nll", "kl", "log_ratio", "bow"):
            got, expected = getattr(terms, part)[b], getattr(alone, part)[0]
            assert float(got.detach()) == pytest.approx(float(expected.detach()), abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_pads_do_not_leak(name):
    model = tiny(name)
    batch = batch_of(CONVERSATIONS)
    noise = noise_for(batch)
    wider = dataclasses.replace(
        batch, utterances=F.pad(batch.utterances, (0, 4, 0, 2)), lengths=F.pad(batch.lengths, (0, 2))
    )
    junk = (wider.lengths[..., None] <= torch.arange(wider.utterances.shape[2])) & (wider.lengths[..., None] > 0)
    wider.utterances[junk] = 9  # whatever stands behind an utterance's end
    wide_noise = LatentNoise(F.pad(noise.sentence, (0, 0, 0, 2), value=7.0), noise.conversation)
    a, b = terms_of(model, batch, noise), terms_of(model, wider, wide_noise)
    assert_near(b.nll, a.nll.detach().numpy(), 1e-5)
    assert_near(b.kl, a.kl.detach().numpy(), 1e-5)
    assert a.n_tokens == b.n_tokens


def test_a_conversation_without_a_reply_adds_nothing():
    for name in MODELS:
        model = tiny(name)
        batch = batch_of([CONVERSATIONS[1], [[4, 5]]])
        terms = terms_of(model, batch)
        assert [float(t[1].detach()) for t in (terms.nll, terms.kl, terms.log_ratio)] == [0, 0, 0]
        with pytest.raises(ValueError, match="two utterances"):
            model.loss(batch_of([[[4, 5]]]), generator=torch.Generator())


def test_kl_agrees_with_torch_and_with_integration():
    random = np.random.default_rng(2)
    m_q, m_p = random.normal(size=(2, 5, 1))
    v_q, v_p = random.uniform(0.2, 3, size=(2, 5, 1))
    q, p = (Gaussian(torch.tensor(m), torch.tensor(v)) for m, v in ((m_q, v_q), (m_p, v_p)))
    expected = torch.distributions.kl_divergence(
        torch.distributions.Normal(q.mean, q.variance.sqrt()), torch.distributions.Normal(p.mean, p.variance.sqrt())
    ).sum(-1)
    torch.testing.assert_close(q.kl(p), expected)
    grid = np.linspace(-25, 25, 200_001)
    log_q = -0.5 * np.log(2 * np.pi * v_q) - (grid - m_q) ** 2 / (2 * v_q)
    log_p = -0.5 * np.log(2 * np.pi * v_p) - (grid - m_p) ** 2 / (2 * v_p)
    integral = np.trapezoid(np.exp(log_q) * (log_q - log_p), grid)
    np.testing.assert_allclose(q.kl(p).numpy(), integral, rtol=1e-6)
    z = torch.tensor(random.normal(size=(5, 1)))
    density = torch.distributions.Normal(q.mean, q.variance.sqrt()).log_prob(z).sum(-1)
    torch.testing.assert_close(q.log_density(z), density)


def test_kl_of_many_samples_is_the_mean_log_ratio():
    """Over draws from the posterior, −log p(z)/q(z) averages to the KL."""
    for name in LATENT:
        model = tiny(name, spread=1.0)
        batch = batch_of(CONVERSATIONS[1:2] * 1500)
        terms = terms_of(model, batch)
        # VHCR's KL(z_t) depends on z_conv, so it is averaged too.
        gaps = (terms.kl + terms.log_ratio).detach().numpy()
        assert gaps.std() > 0.05
        assert abs(gaps.mean()) < 4 * gaps.std() / np.sqrt(len(gaps))


@pytest.mark.parametrize("name", LATENT)
def test_importance_samples_are_repeatable_and_bound_as_they_should(name):
    model = tiny(name)
    batch = batch_of(CONVERSATIONS)
    draw = [model.importance_samples(batch, 4, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert draw[0].shape == (4, 3)
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])
    noise = LatentNoise.draw(batch, 3, torch.Generator().manual_seed(1))
    first = terms_of(model, batch, noise)
    torch.testing.assert_close(draw[0][0], (first.log_ratio - first.nll).detach())
    with pytest.raises(ValueError, match="generator"):
        model.importance_samples(batch, 1)


class TestWordDrop:
    inputs = torch.tensor([[2, 5, 6, 7, 0, 0], [2, 8, 9, 4, 5, 0]] * 500)

    def test_each_word_has_a_coin_of_its_own_and_the_start_none(self):
        dropped = WordDrop(0.25, torch.Generator().manual_seed(1))(self.inputs)
        gone = dropped != self.inputs
        assert set(dropped[gone].tolist()) == {1}
        words = self.inputs > 3
        assert gone[words].float().mean() == pytest.approx(0.25, abs=0.03)
        assert not bool(gone[~words].any())
        assert 0.1 < gone[:, 1].float().mean() < 0.4

    def test_compat_has_one_coin_per_step(self):
        drop = WordDrop(0.5, torch.Generator().manual_seed(1), compat_per_step=True)
        dropped = drop(self.inputs)
        columns = dropped == 1
        assert bool((columns == columns[:1]).all())
        assert 0 < int(columns[0].sum()) < 6

    @pytest.mark.parametrize("name", MODELS)
    def test_only_in_training(self, name):
        model = tiny(name)
        batch = batch_of(CONVERSATIONS)

        def nll(**options):
            generator = torch.Generator().manual_seed(4)
            noise = noise_for(batch)
            loss = model.loss(batch, generator=generator, noise=noise, **options)
            return float(loss.tokens_nll.detach())

        assert nll(word_drop=0.9) == nll()
        model.train()
        assert nll(word_drop=0.9) != nll()
        assert nll(word_drop=0.9) == nll(word_drop=0.9)
        with pytest.raises(ValueError, match="generator"):
            model.loss(batch, word_drop=0.5, noise=noise_for(batch))
        with pytest.raises(ValueError, match=r"1\.5"):
            nll(word_drop=1.5)


class TestSentenceDrop:
    """The coins the model throws are thrown again here, in the same order."""

    def expected(self, model, coins, batch, noise, sees_holes):
        w = references.Weights(model)
        return [
            references.vhcr(
                w,
                ended(c),
                noise.sentence[b].double().numpy(),
                noise.conversation[b].double().numpy(),
                dropped={t for t in range(len(coins[b])) if coins[b][t]},
                inference_sees_holes=sees_holes,
            )["nll"]
            for b, c in enumerate(CONVERSATIONS)
        ]

    def test_each_utterance_has_a_coin_and_the_inference_sees_all(self):
        model = tiny("vhcr").train()
        batch = batch_of(CONVERSATIONS)
        noise = noise_for(batch)
        coins = torch.rand(3, 4, generator=torch.Generator().manual_seed(8)) < 0.5
        assert len(set(map(tuple, coins.tolist()))) > 1
        coins[:, -1] = False
        # The last utterance of a shorter conversation is only ever a target.
        terms = terms_of(model, batch, noise, 0.5, torch.Generator().manual_seed(8))
        assert_near(terms.nll, self.expected(model, coins.tolist(), batch, noise, False))

    def test_not_outside_training(self):
        model = tiny("vhcr")
        batch = batch_of(CONVERSATIONS)
        noise = noise_for(batch)
        nll = terms_of(model, batch, noise).nll
        dropped = terms_of(model, batch, noise, 0.9, torch.Generator().manual_seed(1)).nll
        assert torch.equal(nll, dropped)

    def test_compat_drops_places_for_all_and_in_evaluation(self):
        model = tiny("vhcr", compat_sentence_drop=True)
        batch = batch_of(CONVERSATIONS)
        noise = noise_for(batch)
        places = torch.rand(1, 4, generator=torch.Generator().manual_seed(2)) < 0.5
        places[:, -1] = False
        assert bool(places.any())
        terms = terms_of(model, batch, noise, 0.5, torch.Generator().manual_seed(2))
        expected = self.expected(model, places.expand(3, 4).tolist(), batch, noise, True)
        assert_near(terms.nll, expected)

    @pytest.mark.parametrize("name", [m for m in MODELS if m != "vhcr"])
    def test_other_models_refuse_it(self, name):
        with pytest.raises(ValueError, match=r"sentence_drop is 0\.25"):
            tiny(name).loss(batch_of(CONVERSATIONS), sentence_drop=0.25, generator=torch.Generator())


def test_dropout_acts_in_training_unless_compat():
    batch = batch_of(CONVERSATIONS)
    for compat in (False, True):
        model = tiny("hred", dropout=0.5, compat_inert_dropout=compat).train()
        torch.manual_seed(0)
        losses = {float(model.loss(batch).tokens_nll.detach()) for _ in range(3)}
        assert (len(losses) == 1) == compat
        assert len({float(model.eval().loss(batch).tokens_nll.detach()) for _ in range(3)}) == 1


def test_input_only_is_read_by_context_and_posterior():
    model = tiny("vhred", ei={**EI, "input_only": True})
    w = references.Weights(model)
    batch = batch_of(CONVERSATIONS, ei=True)
    noise = noise_for(batch)
    emotion, sentence = ei_values(CONVERSATIONS)
    expected = [
        references.vhred(
            w,
            ended(c),
            noise.sentence[b].double().numpy(),
            extras=torch.cat([emotion[b], sentence[b]], -1).double().numpy(),
        )
        for b, c in enumerate(CONVERSATIONS)
    ]
    terms = terms_of(model, batch, noise)
    assert_near(terms.nll, [e["nll"] for e in expected])
    assert_near(terms.kl, [e["kl"] for e in expected])


HRED_FAMILY = ("hred", "vhred", "vhcr")


def loss_of(model, *, ei=True):
    return model.loss(batch_of(CONVERSATIONS, ei=ei), generator=torch.Generator().manual_seed(0))


def with_a_negative_logit(model):
    """Push one emotion logit below 0, where a ReLU on it would show."""
    if model.config.ei.emotion:
        with torch.no_grad():
            model.ei.emotion[2].bias[0] = -1.0
    return model


def expected_losses(model, relu_emotion=False):
    """Compute the two means, utterance by utterance: the heads read c_t, the targets are utterance t's."""
    w = references.Weights(model)
    emotion, sentence = ei_values(CONVERSATIONS)
    cross, squares = [], []
    for b, conversation in enumerate(CONVERSATIONS):
        for t, c in enumerate(references.hred(w, ended(conversation))["c"]):
            if model.config.ei.emotion:
                logits = references.head(w, "emotion", c)
                if relu_emotion:
                    logits = np.maximum(logits, 0)
                p = emotion[b][t].double().numpy()
                cross.append(-(p * references.log_softmax(logits)).sum())
            if model.config.ei.sentence:
                gap = references.head(w, "sentence", c) - sentence[b][t].double().numpy()
                squares.extend(gap**2)
    return np.mean(cross) if cross else 0.0, np.mean(squares) if squares else 0.0


@pytest.mark.parametrize(
    "heads",
    [{}, {"sentence": False}, {"emotion": False}, {"compat_relu_emotion": True}],
    ids=["both", "emotion", "sentence", "compat"],
)
def test_losses_are_those_of_the_paper(heads):
    model = with_a_negative_logit(tiny("hred", ei={**EI, **heads, "w_emo": 25.0, "w_inf": 300.0}))
    emotion, sentence = expected_losses(model, relu_emotion="compat_relu_emotion" in heads)
    parts = loss_of(model)
    assert float(parts.emotion.detach()) == pytest.approx(emotion, rel=1e-5)
    assert float(parts.sentence.detach()) == pytest.approx(sentence, rel=1e-5)
    assert (emotion == 0) == (heads.get("emotion") is False)
    total = parts.tokens_nll + 25 * parts.emotion + 300 * parts.sentence
    torch.testing.assert_close(parts.total, total)
    assert parts.n_inputs == 3 + 1 + 2


def test_compat_relu_makes_a_difference():
    plain, compat = (
        loss_of(with_a_negative_logit(tiny("hred", ei={**EI, "compat_relu_emotion": flag}))) for flag in (False, True)
    )
    assert float(plain.emotion.detach()) != float(compat.emotion.detach())


def gradients(model) -> dict[str, float]:
    """Return how strongly the EI losses alone pull at each part."""
    model.zero_grad()
    parts = loss_of(model)
    (parts.emotion + parts.sentence).backward()
    return {name: float(p.grad.abs().sum()) if p.grad is not None else 0.0 for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", HRED_FAMILY)
class TestGradients:
    reached = ("context.rnn.weight_hh_l0", "encoder.rnn.weight_hh_l0", "encoder.embedding.weight")

    def test_distillation_teaches_context_encoder_and_embedding(self, name):
        pulled = gradients(tiny(name, ei=EI))
        assert all(pulled[part] > 0 for part in self.reached)
        assert pulled["ei.emotion.0.weight"] > 0
        assert pulled["decoder.project.weight"] == 0

    def test_input_only_teaches_its_heads_alone(self, name):
        pulled = gradients(tiny(name, ei={**EI, "input_only": True}))
        assert {part for part, size in pulled.items() if size > 0} == {
            part for part in pulled if part.startswith("ei.")
        }

    def test_input_only_compat_is_attached(self, name):
        ei = {**EI, "input_only": True, "compat_input_only_attached": True}
        pulled = gradients(tiny(name, ei=ei))
        assert all(pulled[part] > 0 for part in self.reached)

    def test_input_only_reads_the_extras(self, name):
        ei = {**EI, "input_only": True}
        model = tiny(name, ei=ei)
        batch = batch_of(CONVERSATIONS, ei=True)
        other = batch_of(CONVERSATIONS, ei=True)
        other.emotion[0, 0] = other.emotion[0, 0].flip(0)
        a, b = (model.loss(x, generator=torch.Generator().manual_seed(0)).tokens_nll.detach() for x in (batch, other))
        assert float(a) != float(b)
        assert model.context.rnn.input_size == 2 * 4 + 4 + 3 + (3 if name == "vhcr" else 0)

    def test_missing_or_wrong_targets_are_named(self, name):
        with pytest.raises(ValueError, match="emotion targets of width 4; the batch has none"):
            loss_of(tiny(name, ei=EI), ei=False)
        with pytest.raises(ValueError, match="sentence targets of width 9; the batch has of width 3"):
            loss_of(tiny(name, ei={**EI, "D": 9, "emotion": False}))


def test_config_refuses_nonsense():
    with pytest.raises(ValueError, match="enable at least one head"):
        EIConfig(emotion=False, sentence=False)
    with pytest.raises(ValueError, match="w_emo"):
        EIConfig(w_emo=-1)
    with pytest.raises(ValueError, match="D\n"):
        EIConfig(D=0)
