"""DialogEntailment's classifiers trained on a few dialogues."""

import json
from collections import Counter
from pathlib import Path

import pytest

import evaluation.training as training
from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from chatbots.validation import ValuesError
from evaluation.training.checkpoint import CheckpointError, checkpoint_read
from evaluation.training.config import config_check, config_load
from evaluation.training.contract import Splits, dialogues_read
from evaluation.training.inference_pairs import LABELS, pairs_write
from evaluation.training.loop import restored, train
from evaluation.training.metrics.entailment import NliPairs, pairs_made
from evaluation.training.shipping import ship
from tests.tiny_models import save_classifier

CONFIGS = Path(training.__file__).parent / "configs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("entailment")
    lines = [json.dumps({"turns": list(dialogue.turns)}) for dialogue in corpus_read(EVERYDAY).dialogues[:14]]
    (place / "small.jsonl").write_text("\n".join(lines))
    save_classifier(place / "bert")
    return place


def config(folder, name="tiny", *, backbone=None, optimiser=None, corpora=True, **options):
    return config_check(
        {
            "name": name,
            "metric": "entailment",
            "data": {"corpora": [{"path": "small.jsonl", "licence": "MIT"}]} if corpora else {},
            "backbone": backbone or {},
            "options": options,
            "optimiser": {
                "batch_size": 32, "lr": 0.02, "epochs": 4, "schedule": "constant", "precision": "float32",
                **(optimiser or {}),
            },
            "keeping": {"log_every": 2},
        },
        folder,
    )  # fmt: skip


def losses(folder, name):
    log = (folder / "metrics" / name / "log.jsonl").read_text().splitlines()
    return [
        result["loss"] for result in map(json.loads, log) if result.get("part", "train") == "train" and "lr" in result
    ]


@pytest.fixture(scope="module")
def lite(folder):
    return train(config(folder, chosen_by="cross_entropy"), folder / "metrics" / "tiny")


def test_lite_learns_and_is_measured_by_label(folder, lite):
    told = losses(folder, "tiny")
    assert told[-1] < told[0]
    best = lite.best
    manifest = checkpoint_read(lite.checkpoint).manifest
    assert best["validation_loss"] < 1.1
    counts = manifest.facts["pairs"]["test"]
    n = sum(counts.values())
    assert best["test_majority"] == pytest.approx(max(counts.values()) / n)
    mean = sum(counts[name] * best[f"test_accuracy_{name}"] for name in counts) / n
    assert best["test_accuracy"] == pytest.approx(mean)
    assert best["test_loss"] == best["test_cross_entropy"]


@pytest.mark.parametrize(
    ("network", "backbone", "options"),
    [("bert", {"learns": "all", "pooling": "cls"}, {}), ("esim", {"learns": "frozen"}, {"hidden": 16, "dropout": 0.1})],
)
def test_bert_and_esim_learn(folder, network, backbone, options):
    chosen = config(
        folder, f"tiny-{network}", backbone={"model": str(folder / "bert"), "max_tokens": 64, **backbone},
        optimiser={"lr": 5e-3, "plateau": 0.5}, network=network, most_pairs=160, most_held_out=32, **options,
    )  # fmt: skip
    result = train(chosen, folder / "metrics" / chosen.name)
    told = losses(folder, chosen.name)
    assert sum(told[-3:]) < sum(told[:3])
    results = checkpoint_read(result.checkpoint)
    network_again = restored(results)
    given = network_again.probabilities(["hello how are you"], ["fine thank you"])
    assert given.sum().item() == pytest.approx(1, abs=1e-5)
    words_from = results.manifest.facts["words_from"]
    assert words_from == ("states of bert" if network == "esim" else "")


def test_without_its_premise_a_network_sees_the_reply_alone(folder):
    pairs = pairs_made(config(folder), dialogues_read(config(folder)))["train"]
    assert {batch.premise[0] for batch in NliPairs(pairs, hypothesis_only=True).in_order(8)} == {""}
    first = next(NliPairs(pairs).in_order(8))
    assert first.premise[0] == pairs[0].premise
    assert [LABELS[k] for k in first.label] == [pair.label for pair in pairs[:8]]


def test_an_epoch_has_every_pair_once_and_goes_on_where_it_stopped(folder):
    pairs = pairs_made(config(folder), dialogues_read(config(folder)))["train"]
    examples = NliPairs(pairs)
    batches = list(examples.batches(16, seed=1, epoch=0))
    assert len(batches) == examples.n_batches(16)
    counts = Counter((p, h) for batch in batches for p, h in zip(batch.premise, batch.hypothesis, strict=True))
    assert counts == Counter((pair.premise, pair.hypothesis) for pair in pairs)
    again = list(examples.batches(16, seed=1, epoch=0, start=3))
    assert again[0].hypothesis == batches[3].hypothesis
    assert next(examples.batches(16, seed=1, epoch=1)).hypothesis != batches[0].hypothesis


def test_the_learning_rate_is_halved_by_a_validation_that_is_no_better(folder):
    chosen = config(folder, "plateau", optimiser={"lr": 30.0, "plateau": 0.5, "epochs": 6}, chosen_by="cross_entropy")
    train(chosen, folder / "metrics" / "plateau")
    log = (folder / "metrics" / "plateau" / "log.jsonl").read_text().splitlines()
    best, halved = float("inf"), 0
    for line in map(json.loads, log):
        if "lr" in line:
            assert line["lr"] == pytest.approx(30 * 0.5**halved)
        elif "accuracy_neutral" in line:
            halved += line["loss"] >= best
            best = min(best, line["loss"])
    assert halved


def test_finished_pairs_are_learned_from_and_never_shipped(folder, lite, tmp_path):
    made = config(folder)
    parts = pairs_made(made, dialogues_read(made))
    for name, pairs in parts.items():
        pairs_write(folder / f"{name}.tsv", pairs)
    files = {name: f"{name}.tsv" for name in parts}
    chosen = config(folder, "from-files", corpora=False, files=files, chosen_by="cross_entropy")
    assert pairs_made(chosen, Splits((), (), (), "")) == parts
    result = train(chosen, folder / "metrics" / "from-files")
    assert result.best["test_accuracy"] == pytest.approx(lite.best["test_accuracy"], abs=0.02)
    with pytest.raises(CheckpointError, match="whose licences are unknown"):
        ship(folder / "metrics" / "from-files", tmp_path / "shipped", "again")
    assert ship(folder / "metrics" / "tiny", tmp_path / "lite", "again").dtype == "float16"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpora": False}, "give either corpora"),
        ({"files": {"train": "small.jsonl", "validation": "small.jsonl"}}, "give either corpora"),
        ({"corpora": False, "files": {"train": "small.jsonl"}}, "both train and validation"),
        ({"mnli": "nowhere.txt"}, r"options\.mnli cannot be used here: there is no file"),
        ({"pairs": {"n_mnli": 5}}, "options.mnli must be"),
        ({"backbone": {"learns": "adapters"}}, "lite requires backbone.learns: frozen"),
        ({"pairs": {"p_dull": 2}}, "p_dull"),
    ],
)
def test_what_cannot_be_is_told(folder, changes, message):
    with pytest.raises(ValuesError, match=message):
        config(folder, **changes)


@pytest.mark.parametrize("name", ["entailment-lite", "entailment-lite-reply-only", "entailment-esim-lite"])
def test_the_offline_configs_can_be_used(name, tmp_path):
    (tmp_path / "topical_chat.jsonl.gz").write_bytes(b"")
    metric_options = config_load(CONFIGS / f"{name}.yaml", tmp_path).metric_options
    assert metric_options.hypothesis_only == name.endswith("reply-only")


@pytest.mark.parametrize("name", ["entailment-bert", "entailment-esim"])
def test_the_published_configs_lack_data_and_encoder_alone(name, tmp_path):
    with pytest.raises(ValuesError) as told:
        config_load(CONFIGS / f"{name}.yaml", tmp_path)
    assert {mistake.path for mistake in told.value.mistakes} <= {
        "data.corpora[0].path",
        "backbone.model",
        "options.mnli",
    }
