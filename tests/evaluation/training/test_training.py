"""Training of learned metrics: encoders, falling loss, the same bits after a kill, checkpoints that can be trusted."""

from pathlib import Path
from typing import Any

import pytest
import torch

from chatbots.checkpoints import WEIGHTS_FILE, CheckpointError
from chatbots.training.run_folder import StateError, log_read
from chatbots.validation import ValuesError
from evaluation.training import loop
from evaluation.training.backbone import backbone_load
from evaluation.training.checkpoint import checkpoint_missing, checkpoint_read
from evaluation.training.config import BackboneConfig, config_check, learned_metrics
from evaluation.training.loop import restored, train
from tests.chatbots.training.builders import corpus_write
from tests.evaluation.training.builders import SharedWords, config, values
from tests.tiny_models import save_classifier


@pytest.fixture(autouse=True)
def _listed() -> Any:
    learned_metrics.add(SharedWords())
    yield
    learned_metrics.discard("shared_words")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_write(tmp_path_factory.mktemp("corpora"), 60)


class Killed(Exception):
    pass


def killed_at(step: int) -> Any:
    def watch(progress: Any) -> None:
        if progress.step == step:
            raise Killed

    return watch


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return restored(checkpoint_read(folder)).state_dict()


def test_it_learns_and_says_how_well(data: Path, tmp_path: Path) -> None:
    result = train(config(data), tmp_path / "tiny")
    log = log_read(tmp_path / "tiny")
    told = [line["loss"] for line in log if line["kind"] == "train"]
    assert sum(told[-3:]) < sum(told[:3])
    validated = {line["step"]: line["loss"] for line in log if line["kind"] == "validation"}
    assert result.best["validation_loss"] == min(validated.values())
    assert validated[result.best["step"]] == min(validated.values())
    assert 0 < result.best["test_accuracy"] < 1
    assert result.to_json()["best"] == pytest.approx(result.best)
    results = checkpoint_read(tmp_path / "tiny")
    assert results.folder == result.checkpoint
    assert results.manifest.metrics == pytest.approx(result.best)
    assert results.manifest.training["n_dialogues"] == {"train": 48, "validation": 6, "test": 6}
    again = train(config(data), tmp_path / "tiny", watch=lambda _: pytest.fail("it trains again"))
    assert again.best == pytest.approx(result.best)


def test_a_killed_training_ends_with_the_same_bits(data: Path, tmp_path: Path) -> None:
    whole = train(config(data), tmp_path / "whole")
    for step in (8, 13):  # after batches that no state has
        with pytest.raises(Killed):
            train(config(data), tmp_path / "killed", watch=killed_at(step))
    train(config(data), tmp_path / "killed")
    one, other = weights(whole.checkpoint), weights(tmp_path / "killed")
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(StateError, match="another config"):
        train(config(data, optimiser={"lr": 0.1}), tmp_path / "killed")


def test_a_training_starts_from_another_one(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = train(config(data, name="first"), tmp_path / "first")
    stopped = {"optimiser": {"lr": 1e-9, "max_batches": 1}}
    second = train(config(data, start="first", seed=1, **stopped), tmp_path / "second")
    torch.testing.assert_close(weights(second.checkpoint), weights(first.checkpoint))
    monkeypatch.setattr(loop, "dialogues_read", lambda _: pytest.fail("it reads the text first"))
    with pytest.raises(ValuesError, match="train that run first"):
        train(config(data, start="nothing", **stopped), tmp_path / "third")


def test_a_checkpoint_that_was_changed_is_refused(data: Path, tmp_path: Path) -> None:
    folder = train(config(data, optimiser={"max_batches": 1}), tmp_path / "tiny").checkpoint
    assert checkpoint_missing(folder) is None
    stored = (folder / WEIGHTS_FILE).read_bytes()
    (folder / WEIGHTS_FILE).write_bytes(stored[:-1])
    assert "truncated" in str(checkpoint_missing(folder))
    (folder / WEIGHTS_FILE).write_bytes(stored[:-1] + b"\1")
    with pytest.raises(CheckpointError, match="was changed"):
        restored(checkpoint_read(folder))
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"margin": 0.1', '"margin": 0.2'))
    with pytest.raises(CheckpointError, match=r"was changed: its digest"):
        checkpoint_read(folder)


def test_all_mistakes_of_a_config_are_told_at_once(data: Path) -> None:
    wrong = values(
        name="Tiny Metric",
        options={"margin": -1, "marginn": 1},
        optimiser={"warmup": 3, "warmup_share": 0.1, "lr": 0},
        backbone={"learns": "half"},
    )
    with pytest.raises(ValuesError) as told:
        config_check(wrong, data)
    paths = {mistake.path for mistake in told.value.mistakes}
    assert {"name", "optimiser.lr", "optimiser.warmup_share", "backbone.learns"} <= paths
    assert "marginn" in str(told.value)
    assert "margin is -1" in str(told.value)
    with pytest.raises(ValuesError, match="did you mean shared_words"):
        config_check(values(metric="shared_word"), data)
    missing = values(data={"corpora": [{"path": "no.jsonl"}]}, backbone={"model": "no/such-encoder"})
    with pytest.raises(ValuesError, match=r"no\.jsonl(.|\n)*no/such-encoder"):
        config_check(missing, data)


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
    texts = ["yes", "hello how are you", "no maybe tell me more about", "fine", "tell me"]
    whole = backbone(texts, texts[::-1])
    monkeypatch.setattr("evaluation.training.backbone._PART", 24)
    parts = backbone(texts, texts[::-1])
    torch.testing.assert_close(parts.pooled, whole.pooled, atol=1e-5, rtol=1e-4)
    here = whole.mask[..., None]
    torch.testing.assert_close(parts.tokens * here, whole.tokens * here, atol=1e-5, rtol=1e-4)
