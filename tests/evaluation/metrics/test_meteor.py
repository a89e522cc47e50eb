"""METEOR's program: what it is asked, that a batch survives its end, and the real one where it is here."""

import os
import stat

import numpy as np
import pytest

from evaluation.items import ReplyInContext
from evaluation.metrics import reference_based
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache

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
        replies(("the cat sat on the mat", "the cat sat on the mat"), ("dogs ran", "we like tea")),
        TextCache(),
    )["meteor"]
    assert found[0] == pytest.approx(1.0)
    assert found[1] < 0.1
    assert np.isfinite(found).all()
