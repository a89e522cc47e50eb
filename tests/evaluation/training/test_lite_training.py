"""GRADE-lite by the shipped configs on a tiny corpus and graph: it learns, and its checkpoint scores the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from chatbots.training.run_folder import log_read
from evaluation import training
from evaluation.items import ReplyInContext
from evaluation.metrics.grade import Grade
from evaluation.metrics.text_cache import TextCache
from evaluation.models.grade_graph import LICENCE_BESIDE
from evaluation.training.checkpoint import checkpoint_read
from evaluation.training.config import MetricTrainingConfig, config_check, config_values, learned_get
from evaluation.training.contract import dialogues_read
from evaluation.training.loop import MetricTrained, restored, train
from evaluation.training.shipping import ship
from tests.evaluation.training.grade_builders import files_write

REPLIES = [
    ReplyInContext(("I have a dog.", "My cat drinks water."), "Does your dog eat food?"),
    ReplyInContext(("I have a dog.", "My cat drinks water."), "Yes."),
    ReplyInContext(("The movie was nice.",), "I like to read the book, it has a story."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return files_write(tmp_path_factory.mktemp("lite"))


def brief(name: str, folder: Path, **changes: dict[str, Any]) -> MetricTrainingConfig:
    """Return a config of the project on the tiny files, of few batches; `changes` go over its parts."""
    values = config_values(Path(training.__file__).parent / "configs" / f"{name}.yaml")
    values["data"] = {"corpora": [{"path": "small.jsonl", "licence": "of the test"}]}
    values["options"]["graph"] = ["graph.jsonl", "wordnet"]
    values["keeping"] = {"log_every": 1}
    for part, change in changes.items():
        values[part] |= change
    return config_check(values, folder)


def losses(place: Path) -> list[float]:
    return [line["loss"] for line in log_read(place) if line["kind"] == "train"]


def measured_again(config: MetricTrainingConfig, found: MetricTrained) -> dict[str, float]:
    """Return what the network that the checkpoint gives measures on the parts that its training held out."""
    learned = learned_get("grade")
    prepared = learned.prepare(config, dialogues_read(config), "cpu")
    network = restored(checkpoint_read(found.checkpoint))
    size = config.optimiser.batch_size
    told = learned.measure(network, prepared.validation, size)
    assert prepared.test is not None
    of_test = learned.measure(network, prepared.test, size)
    return {"validation_loss": told["loss"], **{f"test_{name}": value for name, value in of_test.items()}}


def test_the_form_that_is_shipped_learns_and_its_checkpoint_scores_as_it_did(folder: Path) -> None:
    config = brief(
        "grade-lite",
        folder,
        options={"hidden": 16, "heads": 2, "layers": 1},
        optimiser={"batch_size": 16, "lr": 5e-3, "epochs": 2},
    )
    assert (config.own.text, config.own.nodes) == ("two", "fixed")
    assert (config.backbone.model, config.backbone.learns) == ("minilm", "frozen")
    found = train(config, folder / "metrics" / "grade-lite")
    told = losses(folder / "metrics" / "grade-lite")
    assert np.mean(told[-4:]) < 0.9 * np.mean(told[:4])
    again = measured_again(config, found)
    assert {name: found.best[name] for name in again} == pytest.approx(again, abs=1e-6)
    stored = load_file(found.checkpoint / "model.safetensors")
    assert not [name for name in stored if name.startswith(("text.", "table"))]  # neither learns
    scores = Grade(checkpoint=str(found.checkpoint)).scored(REPLIES, TextCache())["grade_bot"]
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    given = ship(folder / "metrics" / "grade-lite", folder / "given" / "grade-lite", "again")
    apart = folder / "given" / "conceptnet"
    assert sorted(one.name for one in apart.iterdir()) == [LICENCE_BESIDE, "graph.tsv.gz"]
    assert "Princeton University" in (apart / LICENCE_BESIDE).read_text()
    told = (folder / "given" / "grade-lite" / "CARD.md").read_text()
    assert told.index("CC BY-SA 4.0") < told.index("WordNet's licence")
    of_given = Grade(checkpoint=str(folder / "given" / "grade-lite"))
    assert of_given.params == {"checkpoint": given.digest}
    np.testing.assert_allclose(of_given.scored(REPLIES, TextCache())["grade_bot"], scores, atol=2e-3)


def test_without_wordnet_its_licence_is_not_named(folder: Path) -> None:
    config = brief(
        "grade-lite",
        folder,
        options={"hidden": 16, "heads": 2, "layers": 1, "graph": "graph.jsonl"},
        optimiser={"batch_size": 16, "max_batches": 1},
    )
    train(config, folder / "metrics" / "alone")
    ship(folder / "metrics" / "alone", folder / "alone" / "grade-lite", "again")
    apart = folder / "alone" / "conceptnet"
    assert [one.name for one in apart.iterdir()] == ["graph.tsv.gz"]
    assert "WordNet" not in (folder / "alone" / "grade-lite" / "CARD.md").read_text()


def test_adapters_learn_and_a_checkpoint_without_the_encoder_scores_as_it_did(folder: Path) -> None:
    config = brief(
        "grade-lite-adapters",
        folder,
        backbone={"model": str(folder / "bert"), "max_tokens": 32},
        options={"negatives": "lexical", "hidden": 16, "heads": 2, "layers": 1},
        optimiser={"lr": 5e-3, "epochs": 6},
    )
    assert config.backbone.learns == "adapters"
    found = train(config, folder / "metrics" / "adapters")
    told = losses(folder / "metrics" / "adapters")
    assert np.mean(told[-4:]) < 0.9 * np.mean(told[:4])
    again = measured_again(config, found)
    assert {name: found.best[name] for name in again} == pytest.approx(again, abs=1e-6)
    stored = load_file(found.checkpoint / "model.safetensors")
    adapters = {name: one for name, one in stored.items() if name.startswith("text.")}
    assert adapters
    assert all("lora_" in name for name in adapters)
    # They begin at 0; the mean over tokens does not ask the pooler.
    learnt = [one for name, one in adapters.items() if "lora_B" in name and "pooler" not in name]
    assert learnt
    assert all(one.any() for one in learnt)
    metric = Grade(checkpoint=str(found.checkpoint))
    whole = metric.scored(REPLIES, TextCache())["grade_bot"]
    alone = [metric.scored([reply], TextCache())["grade_bot"][0] for reply in REPLIES]
    np.testing.assert_allclose(whole, alone, atol=1e-6)
