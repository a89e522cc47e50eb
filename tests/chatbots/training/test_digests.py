"""Digests that stored trainings and checkpoints go by stay as they are, however configs are read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from chatbots.bots.checkpoint import SHIPPED
from chatbots.checkpoints import checkpoint_manifest
from chatbots.encoders.emotion_training import CONFIG
from chatbots.encoders.emotion_training import config_read as emotion_config_read
from chatbots.identity import canonical_json
from chatbots.models.catalogue import config_read, config_write
from chatbots.training import config as subject
from chatbots.training.config import config_check, config_load

CONFIGS = Path(subject.__file__).parent / "configs"

STORED = {
    "demo/base": "a4fd5446ba706952",
    "demo/hred": "6d72ec3e4f31e559",
    "demo/hred-ei": "30264f11c8a7b38f",
    "demo/vhcr": "29247014a1fa5d95",
    "demo/vhcr-ei": "a9421d77910280a3",
    "demo/vhred": "a2c6c066188ff430",
    "demo/vhred-ei": "ed2d26ac76249a0d",
    "table9/cornell-hred": "0df488554331c694",
    "table9/cornell-hred-ei": "9b75ff8f06a31f78",
    "table9/cornell-vhcr": "e0008fc5334b03fc",
    "table9/cornell-vhcr-ei": "d3eac808e26f2969",
    "table9/cornell-vhred": "7a23782b14004687",
    "table9/cornell-vhred-ei": "38e8da191f518179",
    "table9/reddit-hred": "562072c5a3e44442",
    "table9/reddit-hred-ei": "58b32691a016a96e",
    "table9/reddit-vhcr": "169ec3da9056feb5",
    "table9/reddit-vhcr-ei": "ecfb4eeb6d8ab336",
    "table9/reddit-vhred": "29c514f295282dda",
    "table9/reddit-vhred-ei": "dd5eb8098f89da63",
}
WITH_2019 = {
    "demo/vhcr": "5ace9ff0e4671c6e",
    "table9/cornell-vhred": "62cd03b8a873b2cf",
    "table9/reddit-hred": "3fe12c764ad35c62",
}
MODELS = {
    "hred-demo": "e5b032a529afddbd",
    "hred-ei-demo": "21ec7a4c44da273a",
    "vhcr-demo": "ed7899d1182c1bbc",
    "vhcr-ei-demo": "161163cfe10cca63",
    "vhred-demo": "922b8362bf0ff333",
    "vhred-ei-demo": "5787a4b06316c2b3",
}
# Whole numbers where fractions may stand, numbers that YAML takes for texts, and every section.
AS_WRITTEN = {
    "name": "odd",
    "model": "vhcr",
    "sizes": {"E": 256, "dropout": 0, "Z": 8},
    "data": {"corpora": [{"path": "everyday", "repeat": 3, "licence": "MIT"}], "validation": 0.2, "windows": "slide"},
    "ei": {
        "heads": "emotion",
        "w_emo": 25,
        "w_inf": "1e5",
        "variance": 1,
        "sentence_encoder": "infersent",
        "infersent": {"weights": "w.safetensors", "vectors": "v.txt"},
    },
    "optimiser": {"lr": "1e-3", "clip": 2, "warmup": 5, "max_skipped": 3},
    "regularisation": {"word_drop": 0, "sentence_drop": 0.25},
    "start": {"word_vectors": True},
    "held_out": {"beam": 5},
    "keeping": {"validate_every": 7},
    "seed": 2**63 - 1,
    "title": "Odd",
}


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for folder in ("cornell", "reddit"):
        (tmp_path / folder).mkdir()
    for file in ("topical_chat.jsonl.gz", "chatterbot_en.jsonl.gz"):
        (tmp_path / file).touch()
    return tmp_path


def digest(values: object) -> str:
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", STORED)
def test_a_config_of_the_project_keeps_its_digest(corpora: Path, name: str) -> None:
    assert config_load(CONFIGS / f"{name}.yaml", corpora).digest == STORED[name]


@pytest.mark.parametrize("name", WITH_2019)
def test_a_config_laid_over_a_base_keeps_its_digest(corpora: Path, name: str) -> None:
    found = config_load(CONFIGS / f"{name}.yaml", corpora, "compat-2019")
    assert found.digest == WITH_2019[name]


def test_numbers_count_as_what_they_are_and_sizes_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject.EITraining, "encoders", lambda self, folder: ())
    found = config_check(AS_WRITTEN, tmp_path)
    assert found.digest == "9d21627f050228f5"
    assert found.decisive["sizes"] == {"E": 256, "dropout": 0, "Z": 8}


@pytest.mark.parametrize("name", MODELS)
def test_a_shipped_models_config_is_read_and_written_unchanged(name: str) -> None:
    manifest = checkpoint_manifest(SHIPPED / name)
    written = config_write(config_read(manifest.model, manifest.config))
    assert written == manifest.config
    assert digest(written) == MODELS[name]


def test_the_emotion_heads_config_keeps_its_digest() -> None:
    assert digest(emotion_config_read(CONFIG).model_dump()) == "a5e763becf2c773c"
