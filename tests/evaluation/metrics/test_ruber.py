"""RUBER and BERT-RUBER: parts against their formulas, the blend over a set, and the message without a reference."""

import gzip
import json

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.encoders.word_vectors import word_vectors
from chatbots.training.engine import training_folder
from evaluation.items import JudgedItem, ReplyInContext
from evaluation.metric_agreement import judge, judgements_of
from evaluation.metrics.reference_vectors import NO_WORD
from evaluation.metrics.registry import metric_get, metrics
from evaluation.metrics.replies import NO_CONTEXT, NO_REFERENCE, item_scores
from evaluation.metrics.ruber import BertRuber, Pone, Ruber
from evaluation.metrics.text_cache import BLANK, TextCache
from evaluation.metrics.trained import trained_register
from tests.documents import blocks_tested
from tests.evaluation.training.checkpoints import pone_checkpoint

CONTEXT = ("Do you like the sea?",)
REPLIES = [
    ReplyInContext(CONTEXT, "Yes, I love the sea.", "I swim there every summer."),
    ReplyInContext(CONTEXT, "My bank raised its rates.", "I swim there every summer."),
    ReplyInContext(CONTEXT, "I swim there every day.", "I swim there every summer."),
    ReplyInContext(CONTEXT, "Yes, I love the sea.", None),
]


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    pone_checkpoint(folder / "by-bert", negatives="random")
    pone_checkpoint(folder / "by-words", negatives="random", sentences="recurrent", sentence_width=4)
    pone_checkpoint(folder / "of-pone")
    pone_checkpoint(folder / "pone")
    return folder


def scaled(values):
    return (values - values.min()) / np.ptp(values)


def cosine(x, y):
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def test_bert_ruber_is_pones_score_the_encoders_cosine_and_the_lower_of_both(trainings):
    shared = TextCache()
    place = str(trainings / "by-bert")
    found = item_scores(BertRuber("mine", checkpoint=place), REPLIES, shared)
    assert next(iter(found)) == "mine_bot", "the main column needs no reference"
    alone = Pone("alone", checkpoint=place).scored(REPLIES, shared)["alone_bot"]
    np.testing.assert_allclose(found["mine_bot"], alone, atol=1e-6)
    for k, reply in enumerate(REPLIES[:3]):
        wanted = cosine(*shared.encode([reply.response, reply.reference]))
        assert found["mine_referenced_bot"][k] == pytest.approx(wanted, abs=1e-5)
    both = np.minimum(scaled(alone[:3]), scaled(found["mine_referenced_bot"][:3]))
    np.testing.assert_allclose(found["mine_blend_bot"][:3], both, atol=1e-5)
    assert np.isnan(found["mine_blend_bot"][3])
    higher = item_scores(BertRuber("mine", checkpoint=place, blend="max"), REPLIES, shared)
    assert np.nanmin(higher["mine_blend_bot"]) > 0


def test_ruber_compares_the_greatest_and_smallest_values_of_word_vectors(trainings):
    metric = Ruber("mine", checkpoint=str(trainings / "by-words"))
    found = item_scores(metric, [*REPLIES, REPLIES[0]._replace(response="zxqv")], TextCache())
    assert next(iter(found)) == "mine_blend_bot", "RUBER is both parts"

    def pooled(text):
        words = np.stack([word_vectors().lookup(word) for word in text])
        return np.concatenate([words.max(axis=0), words.min(axis=0)])

    wanted = cosine(pooled(["yes", "i", "love", "the", "sea"]), pooled(["i", "swim", "there", "every", "summer"]))
    assert found["mine_referenced_bot"][0] == pytest.approx(wanted, abs=1e-5)
    assert found["mine_referenced_bot"][4] == 0
    assert metric.remarks(found) == {NO_WORD: 1}


def test_what_is_missing_is_counted_by_part(trainings):
    metric = BertRuber("mine", checkpoint=str(trainings / "by-bert"))
    items = [
        JudgedItem(
            id=str(k),
            context=list(reply.context),
            response=reply.response,
            reference=reply.reference,
            ratings=[{"good": k % 5}],
        )
        for k, reply in enumerate([*REPLIES, REPLIES[0]._replace(response=" "), REPLIES[1]._replace(context=())])
    ]
    told = judge(judgements_of(items), [metric])["mine"].to_json()
    assert told["n"] == 4
    assert told["skipped"] == {BLANK: 1, NO_CONTEXT: 1}
    blend = told["columns"]["mine_blend_bot"]
    assert blend["n"] == 3
    assert blend["skipped"] == {NO_REFERENCE: 1, BLANK: 1, NO_CONTEXT: 1}


def test_a_notebook_judges_by_it(trainings, tmp_path, monkeypatch):
    items = [
        {"id": k, "context": CONTEXT, "response": one.response, "reference": one.reference, "ratings": [{"good": k}]}
        for k, one in enumerate(REPLIES)
    ]  # fmt: skip
    with gzip.open(tmp_path / "judged_replies.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, items)))
    [block] = blocks_tested("tests/evaluation/metrics/test_ruber.py::test_a_notebook_judges_by_it")
    shown = block.text.replace("path/to/bert-ruber-lite", str(trainings / "by-bert"))
    *cells, last = shown.strip().splitlines()
    monkeypatch.chdir(tmp_path)
    notebook: dict = {}
    exec("\n".join(cells), notebook)
    found = eval(last, notebook)
    assert {name: one["n"] for name, one in found.items()} == {
        "ours_bot": 4,
        "ours_referenced_bot": 3,
        "ours_blend_bot": 3,
    }


def test_conversations_have_the_unreferenced_part_alone(trainings):
    metric = BertRuber("mine", checkpoint=str(trainings / "by-bert"))
    table = metric.compute([Conversation.from_texts(["Hello", "Hi!", "Well?", "Fine."], id="c")])
    assert table.conversations["mine_bot"].notna().all()
    for column in ("mine_blend_bot", "mine_referenced_bot"):
        assert table.conversations[column].isna().all()
        assert NO_REFERENCE in table.reasons[column]
    assert NO_REFERENCE not in table.reasons["mine_bot"]


def test_trainings_get_the_name_of_what_they_are_and_no_other(trainings):
    made = trained_register(trainings)
    try:
        assert {one.name: type(one) for one in made} == {
            "by_bert": BertRuber,
            "by_words": Ruber,
            "of_pone": Pone,
            "pone": Pone,
        }
        assert metric_get("pone").unavailable_reason() is None, "it was there without a checkpoint"
        assert trained_register(trainings) == []
    finally:
        for one in made:
            metrics.discard(one.name)
        metrics.add(Pone())
    wrong = BertRuber(checkpoint=str(trainings / "of-pone")).unavailable_reason()
    assert "name it under kind: pone" in wrong
    assert "recurrent" in Ruber(checkpoint=str(trainings / "by-bert")).unavailable_reason()
    assert "kind: ruber" in Ruber().unavailable_reason()


def test_only_what_is_no_training_under_way_is_warned_of(tmp_path, caplog):
    for name in ("begun", "other"):
        (tmp_path / name).mkdir()
    caplog.set_level("INFO")  # as commands and servers write it down
    with training_folder(tmp_path / "begun", "cpu", restart=False):
        assert trained_register(tmp_path) == []
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert "other is left out" in told.getMessage()
