"""GRADE and GRADE-lite learn, their ablations too, and their checkpoints score replies as metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from chatbots.training.engine import TrainingResult
from chatbots.training.run_folder import log_read
from chatbots.validation import ValuesError
from evaluation import training
from evaluation.data.items import ReplyInContext
from evaluation.metrics.grade import Grade, GradePmi
from evaluation.metrics.likelihood import ReplyPmi
from evaluation.metrics.registry import metrics
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import SHIPPED, shipped_names, trained_register
from evaluation.models.grade_graph import LICENCE_BESIDE, graph_read
from evaluation.training.checkpoint import checkpoint_read
from evaluation.training.config import MetricTrainingConfig, config_again, config_check, config_values, learned_get
from evaluation.training.contract import dialogues_read
from evaluation.training.loop import restored, train
from evaluation.training.metrics.grade import graph_paths, reader_restored
from evaluation.training.shipping import ship
from tests.evaluation.training.grade_builders import config, files_write
from tests.tiny_models import save_model

CONFIGS = sorted(Path(training.__file__).parent.glob("configs/*.yaml"))
REPLIES = [
    ReplyInContext(("I have a dog.", "My cat drinks water."), "Does your dog eat food?"),
    ReplyInContext(("I have a dog.", "My cat drinks water."), "Yes."),
    ReplyInContext(("The movie was nice.",), "I like to read the book, it has a story."),
    ReplyInContext(("?", "Oh."), "OK."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return files_write(tmp_path_factory.mktemp("grade"))


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    train(config(folder), folder / "metrics" / "tiny-grade")
    return folder / "metrics"


def test_the_loss_begins_at_the_margin_and_falls(trained: Path) -> None:
    told = [x["loss"] for x in log_read(trained / "tiny-grade") if x["kind"] == "train"]
    assert told[0] == pytest.approx(0.1, abs=0.05)
    assert np.mean(told[-5:]) < 0.9 * np.mean(told[:5])


def test_a_checkpoint_is_a_metric_and_a_batch_equals_its_replies_alone(trained: Path) -> None:
    (metric,) = trained_register(trained)
    try:
        assert metric.name == "tiny_grade"
        assert metric.unavailable_reason() is None
        assert "tiny_grade" in metrics
        assert trained_register(trained) == []  # it is there
        whole = metric.scored(REPLIES, TextCache())  # type: ignore[attr-defined]
        alone = [metric.scored([reply], TextCache()) for reply in REPLIES]  # type: ignore[attr-defined]
        for name, values in whole.items():
            np.testing.assert_allclose(values, [one[name][0] for one in alone], atol=1e-6)
        assert (whole["tiny_grade_bot"] > 0).all()
        assert (whole["tiny_grade_bot"] < 1).all()
        assert (whole["tiny_grade_keywords_bot"] > 0).tolist() == [True, False, True, False]
        # "nice" is in no triple.
        assert whole["tiny_grade_unknown_bot"].tolist() == [0, 0, 1, 0]
    finally:
        metrics.discard("tiny_grade")


def test_mutual_information_stands_beside_it_in_standard_deviations(trained: Path, tmp_path: Path) -> None:
    model = {"model": str(save_model(tmp_path, "gpt2", width=16, n_layers=1))}
    place = {"checkpoint": str(trained / "tiny-grade")}
    both = GradePmi(**place, **model, pmi_level=0.2, pmi_spread=0.5)
    assert both.unavailable_reason() is None
    shared = TextCache()
    alone = Grade(**place).scored(REPLIES, shared)["grade_bot"]
    pmi = ReplyPmi(**model).scored(REPLIES, shared)["reply_pmi_bot"]
    told = both.checkpoint.manifest.metrics
    expected = (np.log(alone / (1 - alone)) - told["test_level"]) / told["test_spread"]
    expected = (expected + (pmi - 0.2) / 0.5) / 2
    np.testing.assert_allclose(both.scored(REPLIES, shared)["grade_pmi_bot"], expected, atol=1e-3)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_of_the_project_can_be_read(path: Path) -> None:
    expected = config_again(config_values(path))
    assert expected.name == path.stem
    assert expected.metric_options
    assert all(corpus.licence for corpus in expected.data.corpora)


def test_what_comes_with_confab_is_whole_and_its_triples_lie_apart() -> None:
    (name,) = [shipped_name for shipped_name in shipped_names() if shipped_name == "grade-lite"]
    folder = SHIPPED / name
    metric = Grade(checkpoint=name)
    assert metric.unavailable_reason() is None
    assert not (folder / "graph.tsv.gz").exists()
    assert len(metric.checkpoint.file("graph.tsv.gz")) == (folder.parent / "conceptnet/graph.tsv.gz").stat().st_size
    assert "Attribution-ShareAlike 4.0" in (folder.parent / "conceptnet/LICENSE.txt").read_text()
    licence = SHIPPED / "wordnet" / "LICENSE.txt"  # the graph has WordNet's edges too
    assert (folder.parent / "conceptnet" / LICENCE_BESIDE).read_bytes() == licence.read_bytes()
    assert metric.licence.endswith("CC BY-SA 4.0 (ConceptNet); WordNet's licence")
    assert "WordNet's licence" in (folder / "CARD.md").read_text()
    graph = reader_restored(metric.checkpoint).graph
    both = graph.hops(["beagle", "trail"], ["dog"])  # the first edge is ConceptNet's, the second WordNet's
    assert both.tolist() == [[2], [2]]
    assert {one.licence for one in metric.checkpoint.config.data.corpora} == {"CDLA-Sharing-1.0"}
    assert metric.name == "grade"
    better, worse = metric.scored(
        [
            ReplyInContext(("What do you do at weekends?", "I love to watch football."), reply)
            for reply in ("Football is fun! Which team do you like?", "The soup needs more salt.")
        ],
        TextCache(),
    )["grade_bot"]
    assert better > worse


def test_what_does_not_fit_is_refused_at_once(folder: Path) -> None:
    with pytest.raises(ValuesError) as told:
        config(folder, graph="no.jsonl", vectors="no.txt", text="two")
    assert {m.path for m in told.value.mistakes} == {"options.graph", "options.vectors", "options.text"}
    with pytest.raises(ValuesError, match="scoring would need the file"):
        config(folder, nodes="fixed")
    with pytest.raises(ValuesError, match=r"options.graph"):
        config(folder, graph=[])
    with pytest.raises(ValuesError, match=r"there is no file .*no.jsonl"):
        config(folder, graph=["graph.jsonl", "no.jsonl"])


def test_a_graph_of_several_files_has_wordnets_relations_too(folder: Path) -> None:
    paths = graph_paths(config(folder, graph=["graph.jsonl", "wordnet"]))
    alone, both = graph_read(paths[0]), graph_read(*paths)
    assert both.hops(["puppy"], ["dog"]) == 2  # IsA
    assert not alone.knows("puppy")
    assert both.edges.nnz > alone.edges.nnz
    assert graph_paths(config(folder, graph="graph.jsonl")) == paths[:1]


JUDGED_REPLIES = [
    ReplyInContext(("I have a dog.", "My cat drinks water."), "Does your dog eat food?"),
    ReplyInContext(("I have a dog.", "My cat drinks water."), "Yes."),
    ReplyInContext(("The movie was nice.",), "I like to read the book, it has a story."),
]


@pytest.fixture(scope="module")
def lite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def measured_again(config: MetricTrainingConfig, found: TrainingResult) -> dict[str, float]:
    """Return what the network that the checkpoint gives measures on the parts that its training held out."""
    learned = learned_get("grade")
    prepared = learned.prepare(config, dialogues_read(config), "cpu")
    network = restored(checkpoint_read(found.checkpoint))
    size = config.optimiser.batch_size
    result = learned.measure(network, prepared.validation, size)
    assert prepared.test is not None
    of_test = learned.measure(network, prepared.test, size)
    return {"validation_loss": result["loss"], **{f"test_{name}": value for name, value in of_test.items()}}


def test_the_form_that_is_shipped_learns_and_its_checkpoint_scores_as_it_did(lite_folder: Path) -> None:
    config = brief(
        "grade-lite",
        lite_folder,
        options={"hidden": 16, "heads": 2, "layers": 1},
        optimiser={"batch_size": 16, "lr": 5e-3, "epochs": 2},
    )
    assert (config.metric_options.text, config.metric_options.nodes) == ("two", "fixed")
    assert (config.backbone.model, config.backbone.learns) == ("minilm", "frozen")
    result = train(config, lite_folder / "metrics" / "grade-lite")
    told = losses(lite_folder / "metrics" / "grade-lite")
    assert np.mean(told[-4:]) < 0.9 * np.mean(told[:4])
    again = measured_again(config, result)
    assert {name: result.best[name] for name in again} == pytest.approx(again, abs=1e-6)
    stored = load_file(result.checkpoint / "model.safetensors")
    assert not [name for name in stored if name.startswith(("text.", "table"))]  # neither learns
    scores = Grade(checkpoint=str(result.checkpoint)).scored(JUDGED_REPLIES, TextCache())["grade_bot"]
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    given = ship(lite_folder / "metrics" / "grade-lite", lite_folder / "given" / "grade-lite", "again")
    apart = lite_folder / "given" / "conceptnet"
    assert sorted(one.name for one in apart.iterdir()) == [LICENCE_BESIDE, "graph.tsv.gz"]
    assert "Princeton University" in (apart / LICENCE_BESIDE).read_text()
    told = (lite_folder / "given" / "grade-lite" / "CARD.md").read_text()
    assert told.index("CC BY-SA 4.0") < told.index("WordNet's licence")
    of_given = Grade(checkpoint=str(lite_folder / "given" / "grade-lite"))
    assert of_given.params == {"checkpoint": given.digest}
    np.testing.assert_allclose(of_given.scored(JUDGED_REPLIES, TextCache())["grade_bot"], scores, atol=2e-3)


def test_without_wordnet_its_licence_is_not_named(lite_folder: Path) -> None:
    config = brief(
        "grade-lite",
        lite_folder,
        options={"hidden": 16, "heads": 2, "layers": 1, "graph": "graph.jsonl"},
        optimiser={"batch_size": 16, "max_batches": 1},
    )
    train(config, lite_folder / "metrics" / "alone")
    ship(lite_folder / "metrics" / "alone", lite_folder / "alone" / "grade-lite", "again")
    apart = lite_folder / "alone" / "conceptnet"
    assert [one.name for one in apart.iterdir()] == ["graph.tsv.gz"]
    assert "WordNet" not in (lite_folder / "alone" / "grade-lite" / "CARD.md").read_text()


def test_adapters_learn_and_a_checkpoint_without_the_encoder_scores_as_it_did(lite_folder: Path) -> None:
    config = brief(
        "grade-lite-adapters",
        lite_folder,
        backbone={"model": str(lite_folder / "bert"), "max_tokens": 32},
        options={"negatives": "lexical", "hidden": 16, "heads": 2, "layers": 1},
        optimiser={"lr": 5e-3, "epochs": 6},
    )
    assert config.backbone.learns == "adapters"
    result = train(config, lite_folder / "metrics" / "adapters")
    told = losses(lite_folder / "metrics" / "adapters")
    assert np.mean(told[-4:]) < 0.9 * np.mean(told[:4])
    again = measured_again(config, result)
    assert {name: result.best[name] for name in again} == pytest.approx(again, abs=1e-6)
    stored = load_file(result.checkpoint / "model.safetensors")
    adapters = {name: one for name, one in stored.items() if name.startswith("text.")}
    assert adapters
    assert all("lora_" in name for name in adapters)
    # They begin at 0; the mean over tokens does not ask the pooler.
    learnt = [adapter for name, adapter in adapters.items() if "lora_B" in name and "pooler" not in name]
    assert learnt
    assert all(one.any() for one in learnt)
    metric = Grade(checkpoint=str(result.checkpoint))
    whole = metric.scored(JUDGED_REPLIES, TextCache())["grade_bot"]
    alone = [metric.scored([reply], TextCache())["grade_bot"][0] for reply in JUDGED_REPLIES]
    np.testing.assert_allclose(whole, alone, atol=1e-6)
