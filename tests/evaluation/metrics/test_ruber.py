"""RUBER and BERT-RUBER against their formulas, and metrics that compare a reply with references."""

import gzip
import json
import os
import stat

import numpy as np
import pytest
from nltk.translate.bleu_score import sentence_bleu as nltk_bleu

from chatbots import Conversation
from chatbots.encoders.word_vectors import word_vectors
from chatbots.training.engine import training_folder
from evaluation.agreement.metric_agreement import judge, judgements_of
from evaluation.data.items import JudgedItem, ReplyInContext
from evaluation.metrics import reference_based
from evaluation.metrics.reference_based import rouge_l, sentence_bleu
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
    result = item_scores(BertRuber("mine", checkpoint=place), REPLIES, shared)
    assert next(iter(result)) == "mine_bot", "the main column needs no reference"
    alone = Pone("alone", checkpoint=place).scored(REPLIES, shared)["alone_bot"]
    np.testing.assert_allclose(result["mine_bot"], alone, atol=1e-6)
    for k, reply in enumerate(REPLIES[:3]):
        expected = cosine(*shared.encode([reply.response, reply.reference]))
        assert result["mine_referenced_bot"][k] == pytest.approx(expected, abs=1e-5)
    both = np.minimum(scaled(alone[:3]), scaled(result["mine_referenced_bot"][:3]))
    np.testing.assert_allclose(result["mine_blend_bot"][:3], both, atol=1e-5)
    assert np.isnan(result["mine_blend_bot"][3])
    higher = item_scores(BertRuber("mine", checkpoint=place, blend="max"), REPLIES, shared)
    assert np.nanmin(higher["mine_blend_bot"]) > 0


def test_ruber_compares_the_greatest_and_smallest_values_of_word_vectors(trainings):
    metric = Ruber("mine", checkpoint=str(trainings / "by-words"))
    result = item_scores(metric, [*REPLIES, REPLIES[0]._replace(response="zxqv")], TextCache())
    assert next(iter(result)) == "mine_blend_bot", "RUBER is both parts"

    def pooled(text):
        words = np.stack([word_vectors().lookup(word) for word in text])
        return np.concatenate([words.max(axis=0), words.min(axis=0)])

    expected = cosine(pooled(["yes", "i", "love", "the", "sea"]), pooled(["i", "swim", "there", "every", "summer"]))
    assert result["mine_referenced_bot"][0] == pytest.approx(expected, abs=1e-5)
    assert result["mine_referenced_bot"][4] == 0
    assert metric.remarks(result) == {NO_WORD: 1}


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
    document = judge(judgements_of(items), [metric])["mine"].to_json()
    assert document["n"] == 4
    assert document["skipped"] == {BLANK: 1, NO_CONTEXT: 1}
    blend = document["columns"]["mine_blend_bot"]
    assert blend["n"] == 3
    assert blend["skipped"] == {NO_REFERENCE: 1, BLANK: 1, NO_CONTEXT: 1}


def test_a_notebook_judges_by_it(trainings, tmp_path, monkeypatch):
    items = [
        {
            "id": k,
            "context": CONTEXT,
            "response": reply.response,
            "reference": reply.reference,
            "ratings": [{"good": k}],
        }
        for k, reply in enumerate(REPLIES)
    ]  # fmt: skip
    with gzip.open(tmp_path / "judged_replies.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, items)))
    [block] = blocks_tested("tests/evaluation/metrics/test_ruber.py::test_a_notebook_judges_by_it")
    shown = block.text.replace("path/to/bert-ruber-lite", str(trainings / "by-bert"))
    *cells, last = shown.strip().splitlines()
    monkeypatch.chdir(tmp_path)
    notebook: dict = {}
    exec("\n".join(cells), notebook)
    result = eval(last, notebook)
    assert {name: one["n"] for name, one in result.items()} == {
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
    assert "use it with kind: pone" in wrong
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
    assert "other is skipped" in told.getMessage()


REFERENCE = "the cat sat on the mat today"


def test_bleu_counts_clipped_runs_and_punishes_short_replies():
    said = ["the", "the", "cat", "sat"]
    # 1: the ×2, cat, sat: 4 of 4; 2: "the cat", "cat sat": 2 of 3; 3: "the cat sat": 1 of 2; 4: 0 of 1.
    brevity = np.exp(1 - 7 / 4)
    result = sentence_bleu(said, REFERENCE.split())
    assert result[:3] == pytest.approx([brevity, (2 / 3) ** 0.5 * brevity, (2 / 3 / 2) ** (1 / 3) * brevity], rel=1e-6)
    assert 0 < result[3] < 1e-3  # never exactly 0


def test_a_reply_too_short_for_four_words_outranks_a_long_one_without_a_match():
    short = sentence_bleu(["dog"], REFERENCE.split())[3]
    long = sentence_bleu(["a", "dog", "ran", "off", "with", "her", "old", "shoe"], REFERENCE.split())[3]
    assert short > long > 0


@pytest.mark.parametrize(
    "said", ["the cat sat on a mat", "The cat sat on the mat today", "today the cat sat on the mat and slept"]
)
def test_bleu_is_nltks_where_every_order_matches(said):
    expected = nltk_bleu([REFERENCE.split()], said.split())
    assert sentence_bleu(said.split(), REFERENCE.split())[3] == pytest.approx(expected, abs=1e-6)


def test_bleu_clips_by_the_most_of_several_references_and_takes_the_length_of_the_nearest():
    said = ["a", "a", "b", "c"]
    one, other = ["a", "b"], ["a", "a", "c", "x", "y", "z"]
    # 1: a ×2 and c of the other, b of the one: 4 of 4; 2: "a a" and "a b" of 3; both lengths are 2 off: the shorter
    result = sentence_bleu(said, one, other)
    assert result[:2] == pytest.approx([1, (2 / 3) ** 0.5], rel=1e-6)
    assert result[1] > max(sentence_bleu(said, one)[1], sentence_bleu(said, other)[1])
    assert sentence_bleu(said, other, one) == result
    longer = sentence_bleu(said, ["a"] * 5, ["a"])  # 5 is nearer to 4 than 1
    assert longer[0] == pytest.approx(2 / 4 * np.exp(1 - 5 / 4))
    bleu = metric_get("bleu")
    replies = [ReplyInContext((), " ".join(said), " ".join(ref)) for ref in (one, other)]
    assert bleu.together(replies)["bleu_2"] == result[1]


def test_rouge_l_weighs_recall():
    # common: the cat sat mat, of 5 said and 7 wanted
    precision, recall = 4 / 5, 4 / 7
    expected = (1 + 1.44) * precision * recall / (recall + 1.44 * precision)
    assert rouge_l(["the", "cat", "sat", "mat", "cat"], REFERENCE.split()) == pytest.approx(expected)
    assert rouge_l(["dog"], REFERENCE.split()) == 0


def test_rouge_l_takes_the_best_precision_and_the_best_recall_of_different_references():
    response = ["a", "b", "c", "d"]
    long, short = (["a", "b", "c", "x", "y", "z"], ["a", "b"])  # P = 3/4, R = 3/6; and P = 2/4, R = 2/2
    expected = (1 + 1.44) * 0.75 * 1 / (1 + 1.44 * 0.75)
    assert rouge_l(response, long, short) == pytest.approx(expected)
    assert expected > max(rouge_l(response, long), rouge_l(response, short))
    assert rouge_l(["dog"], long, short) == 0


def test_rouge_by_its_package():
    reply = ReplyInContext((), "The cat, sat.", REFERENCE)
    result = metric_get("rouge").scored([reply, reply._replace(reference=None)], TextCache())
    assert result["rouge_1"][0] == pytest.approx(2 * 1 * (3 / 7) / (1 + 3 / 7))
    assert result["rouge_2"][0] == pytest.approx(2 * 1 * (2 / 6) / (1 + 2 / 6))
    assert np.isnan(result["rouge_1"][1])


PROGRAM = """#!/usr/bin/env python3
import pathlib, sys
runs = pathlib.Path(__file__).with_name("runs")
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
for line in sys.stdin:
    what, *parts = line.rstrip("\\n").split(" ||| ")
    if what == "SCORE":
        if parts[1] == "end" and runs.read_text() == "x":
            sys.exit(1)
        print(len(parts[0]), len(parts[1]), flush=True)
    else:
        scores = [int(part.split()[1]) / int(part.split()[0]) for part in parts]
        print(*scores, sum(scores), sep="\\n", flush=True)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    java = tmp_path / "java"
    java.write_text(PROGRAM)
    java.chmod(java.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(reference_based, "meteor_jar", lambda: tmp_path / reference_based.JAR)
    return reference_based.Meteor()


def replies(*pairs):
    return [ReplyInContext((), said, wanted) for said, wanted in pairs]


def test_each_reply_gets_its_own_score_and_odd_texts_keep_to_one_line(program):
    result = program.score(replies(("ab", "abcd"), ("a\n||| b", "abcd")), TextCache())
    assert result["meteor"].tolist() == [2 / 4, 3 / 4]


def test_a_program_that_ends_is_started_again(program):
    result = program.score(replies(("ab", "abcd"), ("end", "abcdef")), TextCache())
    assert result["meteor"].tolist() == [0.5, 0.5]


def test_without_it_says_what_would_help(monkeypatch):
    monkeypatch.setattr(reference_based, "meteor_jar", lambda: None)
    assert "pip install --no-deps pycocoevalcap" in reference_based.Meteor().unavailable_reason()


def test_the_real_program_knows_equal_and_different_texts():
    metric = metric_get("meteor")
    if reason := metric.unavailable_reason():
        pytest.skip(reason)
    meteor = metric.score(
        replies(("the cat sat on the mat", "the cat sat on the mat"), ("dogs ran", "we like tea")), TextCache()
    )["meteor"]
    assert meteor[0] == pytest.approx(1.0)
    assert meteor[1] < 0.1
    assert np.isfinite(meteor).all()
