"""Metrics that compare a reply with references, against other programs."""

import os
import stat

import numpy as np
import pytest
from nltk.translate.bleu_score import sentence_bleu as nltk_bleu

from evaluation.items import ReplyInContext
from evaluation.metrics import reference_based
from evaluation.metrics.reference_based import rouge_l, sentence_bleu
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache

REFERENCE = "the cat sat on the mat today"


def test_bleu_counts_clipped_runs_and_punishes_short_replies():
    said = ["the", "the", "cat", "sat"]
    # 1: the ×2, cat, sat: 4 of 4; 2: "the cat", "cat sat": 2 of 3; 3: "the cat sat": 1 of 2; 4: 0 of 1.
    brevity = np.exp(1 - 7 / 4)
    found = sentence_bleu(said, REFERENCE.split())
    assert found[:3] == pytest.approx([brevity, (2 / 3) ** 0.5 * brevity, (2 / 3 / 2) ** (1 / 3) * brevity], rel=1e-6)
    assert 0 < found[3] < 1e-3  # never exactly 0


def test_a_reply_too_short_for_four_words_outranks_a_long_one_without_a_match():
    short = sentence_bleu(["dog"], REFERENCE.split())[3]
    long = sentence_bleu(["a", "dog", "ran", "off", "with", "her", "old", "shoe"], REFERENCE.split())[3]
    assert short > long > 0


@pytest.mark.parametrize(
    "said", ["the cat sat on a mat", "The cat sat on the mat today", "today the cat sat on the mat and slept"]
)
def test_bleu_is_nltks_where_every_order_matches(said):
    wanted = nltk_bleu([REFERENCE.split()], said.split())
    assert sentence_bleu(said.split(), REFERENCE.split())[3] == pytest.approx(wanted, abs=1e-6)


def test_bleu_clips_by_the_most_of_several_references_and_takes_the_length_of_the_nearest():
    said = ["a", "a", "b", "c"]
    one, other = ["a", "b"], ["a", "a", "c", "x", "y", "z"]
    # 1: a ×2 and c of the other, b of the one: 4 of 4; 2: "a a" and "a b" of 3; both lengths are 2 off: the shorter
    found = sentence_bleu(said, one, other)
    assert found[:2] == pytest.approx([1, (2 / 3) ** 0.5], rel=1e-6)
    assert found[1] > max(sentence_bleu(said, one)[1], sentence_bleu(said, other)[1])
    assert sentence_bleu(said, other, one) == found
    longer = sentence_bleu(said, ["a"] * 5, ["a"])  # 5 is nearer to 4 than 1
    assert longer[0] == pytest.approx(2 / 4 * np.exp(1 - 5 / 4))
    bleu = metric_get("bleu")
    replies = [ReplyInContext((), " ".join(said), " ".join(ref)) for ref in (one, other)]
    assert bleu.together(replies)["bleu_2"] == found[1]


def test_rouge_l_weighs_recall():
    # common: the cat sat mat, of 5 said and 7 wanted
    precision, recall = 4 / 5, 4 / 7
    wanted = (1 + 1.44) * precision * recall / (recall + 1.44 * precision)
    assert rouge_l(["the", "cat", "sat", "mat", "cat"], REFERENCE.split()) == pytest.approx(wanted)
    assert rouge_l(["dog"], REFERENCE.split()) == 0


def test_rouge_l_takes_the_best_precision_and_the_best_recall_of_different_references():
    response = ["a", "b", "c", "d"]
    long, short = (["a", "b", "c", "x", "y", "z"], ["a", "b"])  # P = 3/4, R = 3/6; and P = 2/4, R = 2/2
    wanted = (1 + 1.44) * 0.75 * 1 / (1 + 1.44 * 0.75)
    assert rouge_l(response, long, short) == pytest.approx(wanted)
    assert wanted > max(rouge_l(response, long), rouge_l(response, short))
    assert rouge_l(["dog"], long, short) == 0


def test_rouge_by_its_package():
    reply = ReplyInContext((), "The cat, sat.", REFERENCE)
    found = metric_get("rouge").scored([reply, reply._replace(reference=None)], TextCache())
    assert found["rouge_1"][0] == pytest.approx(2 * 1 * (3 / 7) / (1 + 3 / 7))
    assert found["rouge_2"][0] == pytest.approx(2 * 1 * (2 / 6) / (1 + 2 / 6))
    assert np.isnan(found["rouge_1"][1])


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
    found = program.score(replies(("ab", "abcd"), ("a\n||| b", "abcd")), TextCache())
    assert found["meteor"].tolist() == [2 / 4, 3 / 4]


def test_a_program_that_ends_is_started_again(program):
    found = program.score(replies(("ab", "abcd"), ("end", "abcdef")), TextCache())
    assert found["meteor"].tolist() == [0.5, 0.5]


def test_without_it_says_what_would_help(monkeypatch):
    monkeypatch.setattr(reference_based, "meteor_jar", lambda: None)
    assert "pip install --no-deps pycocoevalcap" in reference_based.Meteor().unavailable_reason()


def test_the_real_program_knows_equal_and_different_texts():
    metric = metric_get("meteor")
    if reason := metric.unavailable_reason():
        pytest.skip(reason)
    found = metric.score(
        replies(("the cat sat on the mat", "the cat sat on the mat"), ("dogs ran", "we like tea")), TextCache()
    )["meteor"]
    assert found[0] == pytest.approx(1.0)
    assert found[1] < 0.1
    assert np.isfinite(found).all()
