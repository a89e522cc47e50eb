"""Readability: syllables of words counted by ear, formulas worked out by hand."""

import math

import numpy as np
import pytest

from chatbots import Conversation
from evaluation.metrics.lexical import Readability, counts, n_syllables, reading_ease, reading_grade

BY_EAR = {
    1: "the be make makes hoped real great you see friend one asked used pleased tea sea free names loved",
    2: "table wanted people every boxes changes little puzzled science social being agree coffee movie "
    "something lonely careful diet quiet okay lion create question houses hundred before called_out",
    3: "creation idea beautiful family video radio area piano violin opinion vacation favourite animals",
    4: "interesting society reality experience",
    5: "university",
}


@pytest.mark.parametrize("n", BY_EAR)
def test_syllables(n):
    words = [word for word in BY_EAR[n].split() if "_" not in word]
    assert {word: n_syllables(word) for word in words} == dict.fromkeys(words, n)


def test_counts():
    assert counts("I like it. Do you?\nYes!!! ...") == (6, 3, 6)
    assert counts("No full stop at 3.5 pm") == (5, 1, 5)
    assert counts("😀 ... 42") == (0, 0, 0)


def test_formulas():
    # The example sentence of Kincaid's formula: 6 words, 1 sentence, 6 syllables.
    assert counts("The cat sat on the mat.") == (6, 1, 6)
    assert reading_ease(6, 1, 6) == pytest.approx(116.145)
    assert reading_grade(6, 1, 6) == pytest.approx(-1.45)
    assert math.isnan(reading_ease(0, 0, 0))
    assert math.isnan(reading_grade(0, 0, 0))


def test_columns():
    texts = ["Hi", "The cat sat on the mat.", "I like it. Do you?", "😀"]
    found = Readability().compute([Conversation.from_texts(texts, id="c")])
    turns = found.turns.loc["c"]
    np.testing.assert_allclose(turns["reading_ease_bot"], [np.nan, 116.145, np.nan, np.nan])
    grade = 0.39 * 5 / 2 + 11.8 * 5 / 5 - 15.59
    np.testing.assert_allclose(turns["reading_grade_user"], [np.nan, np.nan, grade, np.nan])
    assert "no word" in found.reasons["reading_ease_bot"]
