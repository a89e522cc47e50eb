"""What is given away: half precision, no heads, a card that says what it is, and nothing that is not finished."""

from __future__ import annotations

import pytest
import torch

from chatbots.checkpoints import CheckpointError, checkpoint_load
from chatbots.training import ei
from chatbots.training import shipping as subject
from chatbots.training.config import config_before, config_load
from chatbots.training.loop import finished, train
from chatbots.training.shipping import ship
from tests.chatbots.training.builders import config, corpus_write, fake_embeddings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = corpus_write(tmp_path_factory.mktemp("ship"))
    wanted = config(
        folder,
        "vhred",
        title="Tiny VHRED",
        ei={"e": 4, "s": 4},
        data={"corpora": [{"path": "small.jsonl", "licence": "CC0", "repeat": 2}]},
        optimiser={"max_batches": 2},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ei, "embeddings_cached", fake_embeddings)
        train(wanted, folder / "out" / "tiny")
    return wanted, folder / "out" / "tiny"


def test_a_finished_training_is_shipped(trained, tmp_path):
    wanted, folder = trained
    place = tmp_path / "tiny"
    place.mkdir()
    (place / "bot.yaml").write_text("name: Tiny")
    ship(folder, place, wanted, "manage.py train_bot tiny.yaml")
    assert {p.name for p in place.iterdir()} == {
        "manifest.json",
        "vocabulary.txt",
        "model.safetensors",
        "bot.yaml",
        "CARD.md",
    }
    whole, small = checkpoint_load(folder / "best")[0], checkpoint_load(place)
    assert (small[2].dtype, small[2].dropped_heads) == ("float16", ("ei", "bow"))
    assert small[0].ei is None
    theirs = dict(whole.named_parameters())
    for name, parameter in small[0].named_parameters():
        assert torch.allclose(parameter, theirs[name], atol=2e-3), name
    card = (place / "CARD.md").read_text()
    for told in (
        "# Tiny VHRED",
        "- small.jsonl, CC0; read 2 times an epoch",
        "GoEmotions",
        "the EI heads and the bag-of-words head",
        "Model  Version",
        "VHRED  EI",
        "    manage.py train_bot tiny.yaml",
        "## Limits",
    ):
        assert told in card
    assert "nan" not in card


def test_what_is_not_finished_or_too_large_is_not_shipped(trained, tmp_path, monkeypatch):
    wanted, folder = trained
    with pytest.raises(CheckpointError):
        ship(tmp_path / "nothing", tmp_path / "place", wanted, "")
    assert finished(folder)
    assert not finished(tmp_path / "nothing")
    monkeypatch.setattr(subject, "MAX_BYTES", 1000)
    with pytest.raises(CheckpointError, match=r"bytes, more than 1,000; lower data\.max_words"):
        ship(folder, tmp_path / "place", wanted, "")


def test_the_config_that_is_trained_before_lies_beside(tmp_path):
    corpus_write(tmp_path, 1)
    text = "name: {}\nmodel: hred\ndata: {{corpora: [{{path: small.jsonl}}]}}\n"
    (tmp_path / "first.yaml").write_text(text.format("base"))
    then = tmp_path / "then.yaml"
    then.write_text(text.format("after") + "start: {weights: base}\n")
    before = config_before(then, config_load(then))
    assert before is not None
    assert before.name == "base"
    assert config_before(tmp_path / "first.yaml", before) is None
