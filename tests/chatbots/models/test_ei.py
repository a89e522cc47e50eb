"""EI heads: their losses by NumPy, where gradients go, each head alone, input only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from chatbots.models.ei import EIConfig
from tests.chatbots.models import references
from tests.chatbots.models.builders import CONVERSATIONS, EI, batch_of, ei_values, ended, tiny

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
    with pytest.raises(ValueError, match="one head at least"):
        EIConfig(emotion=False, sentence=False)
    with pytest.raises(ValueError, match="w_emo"):
        EIConfig(w_emo=-1)
    with pytest.raises(ValueError, match="D\n"):
        EIConfig(D=0)
