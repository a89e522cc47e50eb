"""What is given away, the six shipped models, and the metrics log."""

import math
import struct

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event

from chatbots.bots.checkpoint import SHIPPED
from chatbots.checkpoints import (
    CARD,
    SHIPPED_MAX_BYTES,
    CheckpointError,
    checkpoint_load,
    checkpoint_manifest,
    missing_reason,
)
from chatbots.training import config as subject
from chatbots.training import ei, shipping
from chatbots.training.config import config_before, config_load
from chatbots.training.loop import finished, train
from chatbots.training.run_folder import LOG_FILE, TENSORBOARD_FOLDER, MetricsLog, log_read
from chatbots.training.shipping import ship
from tests.chatbots.training.builders import config, corpus_write, fake_embeddings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = corpus_write(tmp_path_factory.mktemp("ship"))
    expected = config(
        folder,
        "vhred",
        title="Tiny VHRED",
        ei={"e": 4, "s": 4},
        data={"corpora": [{"path": "small.jsonl", "licence": "CC0", "repeat": 2}]},
        optimiser={"max_batches": 2},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ei, "embeddings_cached", fake_embeddings)
        train(expected, folder / "out" / "tiny")
    return expected, folder / "out" / "tiny"


def test_a_finished_training_is_shipped(trained, tmp_path):
    expected, folder = trained
    place = tmp_path / "tiny"
    place.mkdir()
    (place / "bot.yaml").write_text("name: Tiny")
    ship(folder, place, expected, "manage.py train_bot tiny.yaml")
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
        "- small.jsonl, CC0; read 2 times per epoch",
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
    expected, folder = trained
    with pytest.raises(CheckpointError):
        ship(tmp_path / "nothing", tmp_path / "place", expected, "")
    assert finished(folder)
    assert not finished(tmp_path / "nothing")
    monkeypatch.setattr(shipping, "SHIPPED_MAX_BYTES", 1000)
    with pytest.raises(CheckpointError, match=r"bytes, more than 1,000; lower data\.max_words"):
        ship(folder, tmp_path / "place", expected, "")


def test_the_config_that_is_trained_before_lies_beside(tmp_path):
    corpus_write(tmp_path, 1)
    text = "name: {}\nmodel: hred\ndata: {{corpora: [{{path: small.jsonl}}]}}\n"
    (tmp_path / "first.yaml").write_text(text.format("base"))
    then = tmp_path / "then.yaml"
    then.write_text(text.format("after") + "start: {weights: base}\n")
    before = config_before(then, config_load(then))
    assert before.name == "base"
    assert config_before(tmp_path / "first.yaml", before) is None


MODELS = ("hred", "hred-ei", "vhred", "vhred-ei", "vhcr", "vhcr-ei")
ALLOWED = {"topical_chat.jsonl.gz", "chatterbot_en.jsonl.gz", "everyday"}


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_model_is_what_its_card_says(tmp_path, name):
    folder = SHIPPED / f"{name}-demo"
    assert missing_reason(folder) is None
    manifest = checkpoint_manifest(folder)
    assert (manifest.model, manifest.dtype) == (name.removesuffix("-ei"), "float16")
    assert manifest.dropped_heads == {
        "hred-ei": ("ei",),
        "vhred": ("bow",),
        "vhred-ei": ("ei", "bow"),
        "vhcr-ei": ("ei",),
    }.get(name, ())
    assert sum(path.stat().st_size for path in folder.iterdir()) <= SHIPPED_MAX_BYTES

    for file in ALLOWED - {"everyday"}:
        (tmp_path / file).touch()
    path = subject.__file__.replace("config.py", f"configs/demo/{name}.yaml")
    config = config_load(path, tmp_path)
    assert manifest.training["config_digest"] == config.digest
    assert {corpus["path"] for corpus in manifest.training["corpora"]} <= ALLOWED

    card = (folder / CARD).read_text(encoding="utf-8")
    assert f"{manifest.metrics['perplexity']:.3f}" in card
    for told in ("CDLA-Sharing-1.0", "BSD-3-Clause", "## Limits", f"configs/demo/{name}.yaml"):
        assert told in card
    assert ("GoEmotions" in card) == name.endswith("-ei")


def scalars(folder) -> dict[tuple[str, int], float]:
    """Return what the event files hold: records of length, checksum, event, checksum."""
    results = {}
    for path in sorted((folder / TENSORBOARD_FOLDER).iterdir()):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                results[value.tag, event.step] = value.simple_value
    return results


def test_lines_and_events(tmp_path):
    with MetricsLog(tmp_path) as log:
        log.write(3, "train", {"loss": 2.5, "broken": math.nan})
        log.write(3, "validation", {"loss": 1.5})
    assert log_read(tmp_path) == [
        {"step": 3, "kind": "train", "loss": 2.5, "broken": None},
        {"step": 3, "kind": "validation", "loss": 1.5},
    ]
    assert scalars(tmp_path) == {("train/loss", 3): 2.5, ("validation/loss", 3): 1.5}


def test_what_came_after_the_saved_state_is_forgotten(tmp_path):
    with MetricsLog(tmp_path) as log:
        for step in (1, 2, 3):
            log.write(step, "train", {"loss": float(step)})
    with (tmp_path / LOG_FILE).open("a") as file:
        file.write('{"step": 4, "ki')  # cut off by a kill
    with MetricsLog(tmp_path, step=2) as log:
        log.write(3, "train", {"loss": 9.0})
    assert [(line["step"], line["loss"]) for line in log_read(tmp_path)] == [(1, 1), (2, 2), (3, 9)]
    with MetricsLog(tmp_path):
        pass  # from the beginning: nothing stays
    assert log_read(tmp_path) == []
