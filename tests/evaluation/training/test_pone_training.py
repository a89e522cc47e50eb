"""PONE trained on a few dialogues, and the metrics that its checkpoint gives."""

import json

import numpy as np
import pytest
import torch

from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from chatbots.validation import ValuesError
from evaluation.data.items import ReplyInContext
from evaluation.metrics.registry import metric_get
from evaluation.metrics.ruber import Pone, PonePmi
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import SHIPPED
from evaluation.training.config import config_check
from evaluation.training.contract import dialogues_read
from evaluation.training.loop import train
from evaluation.training.metrics.pone import PoneTraining
from tests.tiny_models import save_model

OPTIONS = {"hidden": [16], "dropout": 0.1, "pool": 8, "temperature": 0.1}
REPLIES = [
    ReplyInContext(("Do you like tea?",), "Yes, with milk."),
    ReplyInContext(("Old news.", "Do you like tea?"), "Yes, with milk."),
    ReplyInContext(("Do you like tea?",), "My car has four doors."),
    ReplyInContext((), "My car has four doors."),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pone")
    lines = [json.dumps({"turns": list(dialogue.turns)}) for dialogue in corpus_read(EVERYDAY).dialogues[:12]]
    (place / "small.jsonl").write_text("\n".join(lines))
    return place


def config(folder, name="pone-tiny", epochs=4, start="", lr=0.005, **options):
    return config_check(
        {
            "name": name,
            "metric": "pone",
            "data": {"corpora": [{"path": "small.jsonl", "licence": "MIT"}]},
            "options": {**OPTIONS, **options},
            "optimiser": {"batch_size": 32, "lr": lr, "epochs": epochs, "schedule": "constant"},
            "start": start,
        },
        folder,
    )


@pytest.fixture(scope="module")
def trained(folder):
    """Train the first stage, on augmented positives that all count, and the second, which filters them."""
    first = config(folder, positives="eda", copies=2)
    second = config(
        folder, "pone-filtered", 2, "pone-tiny",
        positives="eda", copies=2, filter="drop", theta=0.3, refilter_every=1,
    )  # fmt: skip
    return [train(one, folder / "metrics" / one.name) for one in (first, second)]


def test_its_loss_falls_and_what_is_best_is_chosen_by_accuracy(folder, trained):
    log = folder / "metrics" / "pone-tiny" / "log.jsonl"
    documents = [json.loads(line) for line in log.read_text().splitlines()]
    losses = [line["loss"] for line in documents if "loss" in line]
    assert losses[-1] < losses[0]
    best = trained[0].best
    assert best["validation_loss"] <= 1 - best["test_accuracy"] + 0.5
    assert {"test_accuracy", "test_cross_entropy"} <= set(best)


def test_the_second_stage_learns_from_what_the_first_believes(folder, trained):
    chosen = config(folder, positives="eda", copies=2, filter="drop", theta=0.3)
    prepared = PoneTraining().prepare(chosen, dialogues_read(chosen), "cpu")
    examples = prepared.train
    n = len(examples.augmented)
    assert n > examples.n
    plain = config(folder, positives="eda", copies=2)
    assert PoneTraining().prepare(plain, dialogues_read(plain), "cpu").train.n == examples.n + n

    class Sure(torch.nn.Module):
        def forward(self, query, said):
            return torch.where(
                torch.arange(len(said)) % 3 == 0, 3.0, torch.where(torch.arange(len(said)) % 3 == 1, -3.0, 0.1)
            )

    examples.begin_epoch(Sure(), 0)
    assert examples.labels.kept_share == pytest.approx(2 / 3, abs=0.01)
    batches = list(examples.batches(16, seed=1, epoch=0))
    assert len(batches) == examples.n_batches(16) == -(-n // 16)
    assert sum(len(batch.labels) for batch in batches) == examples.labels.is_kept.sum()
    assert sum(batch.labels.sum().item() for batch in batches) == -(-n // 3)
    kept = examples.remember()
    examples.begin_epoch(Sure(), 1)  # not in this epoch
    examples.recall(kept)
    assert examples.labels.kept_share == pytest.approx(2 / 3, abs=0.01)
    again = list(examples.batches(16, seed=1, epoch=0, start=2))
    torch.testing.assert_close(again[0].negative, batches[2].negative)


def test_training_ends_where_the_filter_changes_hardly_a_label(folder, trained):
    """Where every label is kept and the network hardly moves, the second look changes none."""
    rests = config(
        folder, "pone-rests", 6, "pone-tiny", lr=1e-9,
        positives="eda", copies=2, filter="drop", theta=0.5, refilter_every=2,
    )  # fmt: skip
    result = train(rests, folder / "metrics" / rests.name)
    assert result.epochs == 2
    assert np.isfinite(result.best["test_accuracy"])
    assert train(rests, folder / "metrics" / rests.name).epochs == 2, "it is finished"
    log = (folder / "metrics" / rests.name / "log.jsonl").read_text().splitlines()
    told = [line for line in map(json.loads, log) if line["kind"] == "train"]
    assert {line["kept_share"] for line in told} == {1}  # a half keeps everything


def test_augmented_responses_are_no_negatives_of_their_own_query(folder):
    chosen = config(folder, positives="eda", copies=2, negatives="weighted", temperature=0.001)
    examples = PoneTraining().prepare(chosen, dialogues_read(chosen), "cpu").train
    drawn = np.array([examples.negatives(5, epoch) for epoch in range(2)])
    own = {k: set(examples.response[examples.owners == k].tolist()) for k in set(examples.owners)}
    taken = [set(column) & own[k] for column, k in zip(drawn.T.tolist(), examples.owners, strict=True)]
    assert not any(taken)


def test_negatives_are_random_in_every_third_epoch_and_never_the_response(folder):
    chosen = config(folder, negatives="weighted", temperature=0.001, pool=400)
    examples = PoneTraining().prepare(chosen, dialogues_read(chosen), "cpu").train
    unit = examples.vectors
    alike = []
    for epoch in range(3):
        drawn = examples.negatives(5, epoch)
        assert (drawn != examples.response).all()
        alike.append(float(np.einsum("nd,nd->n", unit[drawn], unit[examples.response]).mean()))
    assert min(alike[:2]) > alike[2] + 0.1


def test_ruber_learns_its_sentences_and_scores_replies_whatever_stands_beside_them(folder):
    options = {"sentences": "recurrent", "sentence_width": 16, "loss": "hinge", "window": 2}
    chosen = config(folder, "ruber-tiny", 10, lr=0.03, negatives="random", **options)
    begun = PoneTraining().network(chosen, PoneTraining().prepare(chosen, dialogues_read(chosen), "cpu"))
    assert begun.scorer.bilinear.shape == (16, 16)
    place = folder / "metrics" / "ruber-tiny"
    metric = Pone("mine", checkpoint=str(train(chosen, place).checkpoint))
    log = [json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if line["kind"] == "train"]
    assert losses[-1] < losses[0] - 0.02
    together = metric.scored(REPLIES, TextCache())["mine_bot"]
    alone = [metric.scored([reply], TextCache())["mine_bot"][0] for reply in REPLIES]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert together[0] != together[1]  # the older utterance is read too
    assert metric.scored([ReplyInContext(("?",), "zxqv!")], TextCache())["mine_bot"][0] > 0
    with pytest.raises(ValuesError, match="use negatives: random or bm25"):
        config(folder, **options)
    with pytest.raises(ValuesError, match="15 is odd"):
        config(folder, negatives="bm25", **{**options, "sentence_width": 15})


def test_options_that_cannot_be_are_told(folder):
    with pytest.raises(ValuesError, match="no augmented responses to filter"):
        config(folder, filter="drop")
    with pytest.raises(ValuesError, match="nobody"):
        config(folder, positives="bot", bot="nobody")


def test_checkpoints_are_metrics(trained, tmp_path_factory):
    metric = Pone("mine", checkpoint=str(trained[1].checkpoint))
    assert metric.unavailable_reason() is None
    assert metric.licence == "of the training text: MIT"
    result = metric.scored(REPLIES, TextCache())["mine_bot"]
    assert result[0] == result[1]  # the query is the last utterance
    assert 0 < result[2] < 1
    assert np.isnan(result[3])

    language_model = save_model(tmp_path_factory.mktemp("gpt2"), "gpt2", width=16, n_layers=1)
    both = PonePmi(checkpoint=str(trained[1].checkpoint), model=str(language_model), pmi_level=0.1, pmi_spread=2)
    shared = TextCache()
    level, spread = (float(one.detach()) for one in (both.restored("cpu").level, both.restored("cpu").spread))
    assert spread != 1
    logit = np.log(result[:3] / (1 - result[:3]))
    pmi = both._pmi.scored(REPLIES, shared)["reply_pmi_bot"][:3]
    expected = ((logit - level) / spread + (pmi - 0.1) / 2) / 2
    np.testing.assert_allclose(both.scored(REPLIES, shared)["pone_pmi_bot"][:3], expected, atol=1e-4)


def test_what_comes_with_confab_is_small_and_scores():
    metric = metric_get("pone_lite")
    assert metric.unavailable_reason() is None
    assert metric.licence == "of the training text: BSD-3-Clause, CDLA-Sharing-1.0, MIT (own)"
    folder = metric.checkpoint.folder
    assert folder.is_relative_to(SHIPPED)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000
    assert ".250 ± .006" in (folder / "CARD.md").read_text()
    pone_lite_bot = metric.scored(REPLIES, TextCache())["pone_lite_bot"]
    assert pone_lite_bot[0] > pone_lite_bot[2]
    assert np.isnan(pone_lite_bot[3])
