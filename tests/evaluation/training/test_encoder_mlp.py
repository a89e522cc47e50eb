"""An encoder with an MLP trained on a few rated pairs, and the metric that its checkpoint gives."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from evaluation import training
from evaluation.data.items import ReplyInContext
from evaluation.metrics.encoder_mlp import EncoderMlp
from evaluation.metrics.text_cache import TextCache
from evaluation.training.checkpoint import checkpoint_read
from evaluation.training.config import config_check, config_values
from evaluation.training.contract import Splits
from evaluation.training.loop import restored, train
from evaluation.training.metrics.encoder_mlp import EncoderMlpTraining
from evaluation.training.metrics.rade import RadeTraining
from evaluation.training.sweeps import MetricTrainee
from tests.tiny_models import TEXT, save_classifier, save_model
from tests.validation.rated_folds import folds_measured

CONFIGS = Path(training.__file__).parent / "configs"
NO_DIALOGUES = Splits((), (), (), "")
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write 32 pairs to 16 contexts; longer replies have the better scores. The encoder is a tiny BERT."""
    place = tmp_path_factory.mktemp("mlp")
    rng = np.random.default_rng(0)
    with (place / "rated.jsonl").open("w") as file:
        for k in range(32):
            said, other = (" ".join(rng.choice(WORDS, size=rng.integers(2, 12))) for _ in range(2))
            row = {
                "context": [f"hello {k % 16}", "what do you like"],
                "output": said,
                "reference": other,
                "s_output": min(5, 1 + len(said.split()) / 3),
                "s_reference": min(5, 1 + len(other.split()) / 3),
            }
            file.write(json.dumps(row) + "\n")
    save_classifier(place / "bert")
    save_model(place / "bart", "bart", width=16, n_layers=1)
    return place


def values(folder, name="mlp-tiny", **options):
    return {
        "name": name,
        "metric": "encoder_mlp",
        "backbone": {"model": str(folder / "bert"), "learns": "all", "max_tokens": 64, "pooling": "cls"},
        "options": {"rated": ["rated.jsonl"], "folds": 4, "chosen_by": "error", "dropout": 0.0, **options},
        "optimiser": {"batch_size": 8, "lr": 0.01, "epochs": 12, "schedule": "constant", "precision": "float32"},
        "keeping": {"log_every": 3},
    }


@pytest.fixture(scope="module")
def trained(folder):
    return train(config_check(values(folder), folder), folder / "metrics" / "mlp-tiny")


def test_it_learns_what_people_rated(folder, trained):
    lines = [json.loads(line) for line in (folder / "metrics/mlp-tiny/log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert np.mean(losses[-3:]) < 0.6 * np.mean(losses[:3]), losses
    assert {"test_pearson", "test_spearman", "test_kendall", "test_squared_error"} <= set(trained.best)


def test_an_untrained_network_predicts_near_the_mean_of_the_ratings(folder):
    config = config_check(values(folder), folder)
    prepared = EncoderMlpTraining().prepare(config, NO_DIALOGUES, "cpu")
    torch.manual_seed(0)
    network = EncoderMlpTraining().network(config, prepared)
    mean = np.mean([pair.score for pair in prepared.train.pairs])
    assert network.head.layers[-1].bias.item() == pytest.approx(mean)


def test_its_checkpoint_is_a_metric_of_the_networks_outputs(folder, trained):
    metric = EncoderMlp("mine", checkpoint=str(trained.checkpoint))
    assert metric.unavailable_reason() is None
    assert "a reference" not in metric.needs
    replies = [ReplyInContext(("hello 1", "what do you like"), "i like to eat"), ReplyInContext((), "i like to eat")]
    result = metric.scored(replies, TextCache())["mine_bot"]
    network = restored(checkpoint_read(trained.checkpoint))
    tokenizer = network.backbone.tokenizer
    read = tokenizer("hello 1  what do you like", "i like to eat", return_tensors="pt")
    with torch.no_grad():
        pooled = network.backbone.model(**read).pooler_output
        expected = float(network.head(pooled)[0, 0])
    assert result[0] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(result[1])


def test_a_sweep_marks_agreement_on_the_sets_it_learned_from(folder, trained, tmp_path):
    words = [" ".join(WORDS[: 1 + k % 5]) for k in range(8)]
    rows = [
        {"id": k, "source": source, "context": ["hello"], "response": text, "ratings": [{"good": 1 + k % 4}]}
        for source in ("rade/chitchat", "mine")
        for k, text in enumerate(words)
    ]
    rows = [{**row, "id": f"{row['source']}-{row['id']}"} for row in rows]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    agreements = MetricTrainee().agreements(Path(trained.checkpoint), [file], "cpu")
    assert {row["data_set"]: row["is_seen"] for row in agreements} == {"": True, "rade/chitchat": True, "mine": False}


def test_a_long_context_loses_its_oldest_words(folder, trained):
    metric = EncoderMlp("mine", checkpoint=str(trained.checkpoint))
    long = " ".join(WORDS[:8] * 12)
    contexts = [(first, long, last) for first, last in (("cats", "dogs"), ("books", "dogs"), ("cats", "books"))]
    same, as_before, other = metric.scored([ReplyInContext(c, "i like to eat") for c in contexts], TextCache())[
        "mine_bot"
    ]
    assert same == as_before
    assert same != other


def test_one_that_reads_the_reference_needs_it(folder):
    config = config_check(values(folder, "with-reference", reads_reference=True), folder)
    result = train(config, folder / "metrics" / "with-reference")
    metric = EncoderMlp("theirs", checkpoint=str(result.checkpoint))
    assert metric.needs_reference
    assert "a reference" in metric.needs
    context = ("hello 1", "what do you like")
    replies = [ReplyInContext(context, "cats", reference) for reference in ("dogs", "books and music", None)]
    first, second, missing = metric.scored(replies, TextCache())["theirs_bot"]
    assert first != second
    assert np.isnan(missing)


@pytest.mark.parametrize("name", ["bert-mlp", "roberta-mlp", "bert-mlp-reference", "bert-mlp-lite"])
def test_a_config_trains_a_step(folder, name):
    config = config_values(CONFIGS / f"{name}.yaml")
    config["backbone"]["model"] = str(folder / "bert")
    config["options"]["rated"] = ["rated.jsonl"]
    config["optimiser"]["max_batches"] = 1
    result = train(config_check(config, folder), folder / "configs" / name)
    assert result.best["step"] == 1
    assert EncoderMlp("mine", checkpoint=str(result.checkpoint)).needs_reference == (name == "bert-mlp-reference")


@pytest.mark.parametrize("n_rows", [2400, 1200, 800])
@pytest.mark.parametrize("base", ["rade", "rade-lite"])
def test_a_training_size_of_rade_trains_a_step_on_that_many_pairs(folder, base, n_rows):
    config, whole = (config_values(CONFIGS / f"{name}.yaml") for name in (f"{base}-{n_rows}", base))
    assert config["options"].pop("max_pairs") == n_rows // 2
    for values_of in (config, whole):
        for key in ("name", "title"):
            del values_of[key]
        values_of["options"]["rated"] = ["rated.jsonl"]
    assert config == whole
    config |= {"name": "sizes", "start": ""}
    config["options"] |= {"max_pairs": n_rows // 200, "axes": 2}
    config["optimiser"] |= {"max_batches": 1, "precision": "float32"}
    if base == "rade":
        config["backbone"]["model"] = str(folder / "bart")
    result = train(config_check(config, folder), folder / "configs" / f"{base}-{n_rows}")
    assert checkpoint_read(result.checkpoint).manifest.facts["pairs"]["train"] == n_rows // 200


def test_folds_hold_out_every_pair_once(folder):
    few = {**values(folder), "optimiser": {"batch_size": 16, "epochs": 1, "precision": "float32"}}
    result = folds_measured(few, folder, seeds=(1,))
    assert result.n == 32
    assert np.isfinite(result.scores).all()


def test_a_training_size_takes_part_of_the_larger_ones_pairs_and_the_test_stays(folder):
    def parts(**options):
        rade = {"rated": ["rated.jsonl"], "folds": 4, "axes": 2, **options}
        config = config_check({"name": "sizes", "metric": "rade", "options": rade}, folder)
        prepared = RadeTraining().prepare(config, NO_DIALOGUES, "cpu")
        return set(prepared.train.pairs), set(prepared.test.pairs)

    (small, small_test), (large, large_test), (whole, _) = parts(max_pairs=5), parts(max_pairs=10), parts(max_pairs=99)
    assert [len(small), len(large)] == [5, 10]
    assert small < large < whole == parts()[0]
    assert small_test == large_test
