"""Figures on held-out text, against sums by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from chatbots.encoders.word_vectors import word_vectors
from chatbots.models.batch import DialogueBatch
from chatbots.training import held_out as subject
from chatbots.training.data import data_prepare
from chatbots.training.held_out import perplexity, version_name
from chatbots.training.loop import initialise_model
from tests.chatbots.models.builders import CONVERSATIONS, tiny
from tests.chatbots.training.builders import config, corpus_write

CPU = torch.device("cpu")


def started(wanted, data):
    return initialise_model(wanted, data, Path("nowhere/beside")).eval()


def split_batches():
    return [DialogueBatch.from_ids(CONVERSATIONS[:2]), DialogueBatch.from_ids(CONVERSATIONS[2:])]


def test_perplexity_without_latents_is_that_of_the_tokens():
    model = tiny("hred")
    result = perplexity(model, split_batches(), 1, seed=0)
    nll = n = 0.0
    for batch in split_batches():
        parts = model.loss(batch)
        nll, n = nll + float(parts.tokens_nll.detach()), n + parts.n_tokens
    assert result["perplexity"] == pytest.approx(math.exp(nll / n), rel=1e-5)
    assert result["kl"] == 0
    assert result["tokens"] == n


def test_perplexity_with_latents_is_a_bound_that_samples_tighten():
    model = tiny("vhcr")
    one, many = (perplexity(model, split_batches(), k, seed=4) for k in (1, 60))
    assert many["perplexity"] < one["perplexity"] * 1.02
    bound = 0.0
    for i, batch in enumerate(split_batches()):
        generator = torch.Generator().manual_seed(subject.derive_seed(4, i))
        weights = model.importance_samples(batch, 60, generator).double().numpy()  # (S, B)
        bound += np.log(np.mean(np.exp(weights), axis=0)).sum()
    assert many["perplexity"] == pytest.approx(math.exp(-bound / many["tokens"]), rel=1e-6)
    assert many["kl"] > 0


def test_nothing_to_measure_is_undefined():
    result = perplexity(tiny("hred"), [], 1, seed=0)
    assert math.isnan(result["perplexity"])
    assert result["tokens"] == 0


def test_validation_does_not_depend_on_the_batches_and_uses_the_whole_kl(tmp_path):
    expected = config(corpus_write(tmp_path), "vhred", sizes={"dropout": 0.0})
    data = data_prepare(expected)
    model = started(expected, data)
    one = subject.validation_loss(model, data, expected, CPU)
    again = subject.validation_loss(model.train(), data, expected, CPU)
    assert one == again  # evaluation mode, the same noise
    assert one["loss"] == pytest.approx(one["tokens_nll"] + one["kl"])
    hred = config(tmp_path)
    plain = started(hred, data)
    result = subject.validation_loss(plain, data, hred, CPU)
    parts = plain.loss(next(data.validation.batches(999, 0, 0)))
    assert result["loss"] == pytest.approx(float(parts.tokens_nll.detach()) / parts.n_tokens, rel=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_first_replies_and_their_likeness(tmp_path, monkeypatch, beam):
    expected = config(corpus_write(tmp_path), "vhcr", held_out={"beam": beam, "max_replies": 3})
    data = data_prepare(expected)
    model = started(expected, data)
    pairs = data.first_exchanges(3)
    replies = subject.first_replies(model, data, expected, [first for first, _ in pairs])
    assert len(replies) == len(pairs) > 0
    assert all("<unk>" not in reply for reply in replies)
    assert replies == subject.first_replies(model, data, expected, [first for first, _ in pairs])
    # The true reply itself, said back, is wholly alike.
    words = [data.tokeniser.tokenise(truth) for _, truth in pairs]
    monkeypatch.setattr(subject, "first_replies", lambda *_: words)
    result = subject.embedding_metrics(model, data, expected)
    assert result["replies"] == len(pairs)
    for name in ("average", "extrema", "greedy", "greedy_ref"):
        assert result[name] == pytest.approx(1, abs=1e-5)
    # One without any known word is left out.
    monkeypatch.setattr(subject, "first_replies", lambda *_: [["zzxqy"], *words[1:]])
    assert word_vectors().lookup("zzxqy") is None
    assert subject.embedding_metrics(model, data, expected)["replies"] == len(pairs) - 1


def test_greedy_ref_goes_from_the_true_reply_to_the_generated_one(tmp_path, monkeypatch):
    expected = config(corpus_write(tmp_path))
    data = data_prepare(expected)
    monkeypatch.setattr(type(data), "first_exchanges", lambda *_: [("hi", "tea and music")])
    monkeypatch.setattr(subject, "first_replies", lambda *_: [["tea"]])
    result = subject.embedding_metrics(None, data, expected)
    x, y = word_vectors().matrix(["tea", "and", "music"]), word_vectors().matrix(["tea"])
    cosines = [float(v @ y[0] / np.linalg.norm(v) / np.linalg.norm(y[0])) for v in x]
    assert result["greedy_ref"] == pytest.approx(np.mean(cosines), abs=1e-5)
    assert result["greedy"] == pytest.approx((np.mean(cosines) + 1) / 2, abs=1e-5)


@pytest.mark.parametrize(
    ("ei", "name"),
    [
        (None, "baseline"),
        ({}, "EI"),
        ({"heads": "emotion"}, "EI_emo"),
        ({"heads": "sentence"}, "EI_inf"),
        ({"input_only": True}, "input only"),
    ],
)
def test_versions_have_the_papers_names(tmp_path, ei, name):
    corpus_write(tmp_path, 1)
    assert version_name(config(tmp_path, **({} if ei is None else {"ei": ei}))) == name
