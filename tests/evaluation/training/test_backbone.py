"""Encoders under a learned metric: what of them learns, and what pooling stands for a text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluation.training.backbone import backbone_load
from evaluation.training.config import BackboneConfig
from tests.tiny_models import save_classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("bert"))


def loaded(folder: Path, **changes: str) -> torch.nn.Module:
    return backbone_load(BackboneConfig(model=str(folder), **changes))  # type: ignore[arg-type]


def test_only_what_the_config_names_learns(folder: Path) -> None:
    learning = {
        how: [name for name, p in loaded(folder, learns=how).named_parameters() if p.requires_grad]
        for how in ("frozen", "adapters", "all")
    }
    assert learning["frozen"] == []
    assert learning["adapters"]
    assert all("lora_" in name for name in learning["adapters"])
    assert len(learning["all"]) > len(learning["adapters"])


def test_a_frozen_encoder_is_in_evaluation_mode_and_its_pooling_knows_no_padding(folder: Path) -> None:
    backbone = loaded(folder).train()
    both = backbone(["hello how are you", "yes"], ["fine", "no maybe tell me more about"])
    alone = backbone(["yes"], ["no maybe tell me more about"])
    torch.testing.assert_close(both.pooled[1:], alone.pooled, atol=1e-5, rtol=1e-4)
    n = int(both.mask[1].sum())
    torch.testing.assert_close(both.pooled[1], both.tokens[1, :n].mean(dim=0))
    assert not both.pooled.requires_grad
    first = loaded(folder, pooling="cls")(["yes"])
    assert first.pooled.shape == (1, backbone.width)
    assert loaded(folder, learns="adapters").train()(["yes"]).pooled.requires_grad


def test_texts_of_like_length_are_read_in_parts_and_come_back_in_their_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = loaded(folder, learns="adapters").eval()
    said = ["yes", "hello how are you", "no maybe tell me more about", "fine", "tell me"]
    whole = backbone(said, said[::-1])
    monkeypatch.setattr("evaluation.training.backbone._PART", 24)
    parts = backbone(said, said[::-1])
    torch.testing.assert_close(parts.pooled, whole.pooled, atol=1e-5, rtol=1e-4)
    here = whole.mask[..., None]
    torch.testing.assert_close(parts.tokens * here, whole.tokens * here, atol=1e-5, rtol=1e-4)
