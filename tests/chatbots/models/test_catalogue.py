"""Models by name: parameter counts as published, configs from plain values, start weights."""

import numpy as np
import pytest
import torch
from torch import nn

from chatbots.models.catalogue import MODELS, ValuesError, config_read, model_build
from tests.chatbots.models.builders import TINY

# Ghandeharioun et al. (2019), Table 9 sizes at V = 20,000; counts taken from the released code.
COUNTS = [
    ("hred", 400, 400, 1000, 300, 22_353_600),
    ("vhred", 1000, 1000, 1000, 400, 57_149_400),
    ("vhcr", 1000, 1000, 1000, 500, 80_965_600),
    ("hred", 1000, 1000, 1000, 500, 53_545_000),
    ("vhred", 1250, 1250, 1000, 600, 76_641_650),
    ("vhred", 1250, 1250, 1250, 600, 83_494_150),
    ("vhcr", 1000, 1000, 1250, 600, 97_859_100),
]


@pytest.mark.parametrize(("name", "H_e", "H_d", "C", "E", "count"), COUNTS)
def test_parameter_counts(name, H_e, H_d, C, E, count):
    sizes = {"V": 20_000, "H_e": H_e, "H_d": H_d, "C": C, "E": E}
    with torch.device("meta"):
        assert model_build(config_read(name, sizes), 0).n_parameters == count
        heads = {"D": 1800, "e": 128, "s": 4000}
        emotion = model_build(config_read(name, {**sizes, "ei": {**heads, "sentence": False}}), 0)
        both = model_build(config_read(name, {**sizes, "ei": heads}), 0)
    assert emotion.n_parameters - count == {1000: 136_384, 1250: 168_384}[C]
    assert both.n_parameters - emotion.n_parameters == (C + 1) * 4000 + 4001 * 1800


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("hrde", {}, "model is 'hrde'; did you mean hred? It must be one of hred, vhred"),
        ("hred", {"V": 9, "H_E": 4}, "H_E is an unknown key; did you mean H_e"),
        ("hred", {}, "V is missing"),
        ("hred", {"V": "9"}, "V is '9'; it must be a whole number of at least 5"),
        ("hred", {"V": True}, "V is True; it must be a whole number"),
        ("hred", {"V": 4}, "V is 4; it must be a whole number of at least 5: the 4 special tokens and a word"),
        ("hred", {"V": 9, "C": 0}, "C is 0; it must be a whole number of at least 1"),
        ("hred", {"V": 9, "dropout": 1}, "dropout is 1; it must be a number at least 0 and below 1"),
        ("vhred", {"V": 9, "Z": 0}, "Z is 0"),
        ("vhred", {"V": 9, "bow": 1}, "bow is 1; it must be true or false"),
        ("vhred", {"V": 9, "ei": {"em": 4}}, "ei.em is an unknown key; did you mean e"),
        ("vhred", {"V": 9, "ei": {"D": 0}}, "ei.D is 0"),
        ("vhred", {"V": 9, "ei": 3}, "ei is 3; it must be a mapping"),
        ("vhcr", {"V": 9, "infer_z_conv": True, "compat_redraw_z_conv": True}, "cannot be combined"),
        ("transformer", {"V": 9, "d_model": 10, "n_heads": 4}, "d_model is 10"),
    ],
)
def test_wrong_configs_are_explained(name, values, message):
    with pytest.raises(ValuesError) as caught:
        config_read(name, values)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", MODELS)
def test_start_weights_come_from_the_seed_alone(name):
    config = config_read(name, TINY[name])
    before = torch.random.get_rng_state()
    a, b, c = (model_build(config, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert any(not torch.equal(a[k], c[k]) for k in a)


@pytest.mark.parametrize("name", ["hred", "vhred", "vhcr", "seq2seq"])
def test_recurrent_matrices_start_orthogonal_and_gates_open(name):
    model = model_build(config_read(name, TINY[name]), 0)
    grus = [m for m in model.modules() if isinstance(m, nn.GRU)]
    assert len(grus) >= 2
    for gru in grus:
        for key, value in gru.named_parameters():
            if key.startswith("weight_hh"):
                product = (value.T @ value).detach().numpy()
                np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)
            if key.startswith("bias_hh"):
                H = len(value) // 3
                assert value[H : 2 * H].tolist() == [2.0] * H
                assert bool((value[:H].abs() < 1).all())
