"""Likeness of two texts by their words, against loops over numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chatbots.encoders import word_similarity as subject
from chatbots.encoders.word_similarity import (
    TextWords,
    extrema,
    greedy_both,
    unit_rows,
    word_similarity,
)


def cosine(a, b):
    dot = sum(p * q for p, q in zip(a, b, strict=True))
    return dot / math.sqrt(sum(p * p for p in a)) / math.sqrt(sum(q * q for q in b))


def by_hand(x, y):
    def mean(rows):
        return [sum(column) / len(column) for column in zip(*rows, strict=True)]

    def extreme(rows):
        return [max(c) if abs(min(c)) <= max(c) else min(c) for c in zip(*rows, strict=True)]

    def greedy(one, other):
        return sum(max(cosine(a, b) for b in other) for a in one) / len(one)

    forth, back = greedy(x, y), greedy(y, x)
    return cosine(mean(x), mean(y)), cosine(extreme(x), extreme(y)), (forth + back) / 2, forth


@pytest.mark.parametrize("seed", range(5))
def test_against_loops(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(rng.integers(1, 7), 4)), rng.normal(size=(rng.integers(1, 7), 4))
    found = word_similarity(TextWords.of(x), TextWords.of(y))
    values = (found.average, found.extrema, found.greedy, found.greedy_ref)
    np.testing.assert_allclose(values, by_hand(x.tolist(), y.tolist()), atol=1e-9)


def test_extrema_takes_the_positive_of_equal_sizes():
    np.testing.assert_array_equal(extrema(np.array([[1.0, -3.0], [-1.0, 2.0]])), [1.0, -3.0])


def test_without_words_nothing_is_defined():
    words = TextWords.of(np.ones((1, 3)))
    assert TextWords.of(np.zeros((2, 3))) is None
    assert TextWords.of(np.zeros((0, 3))) is None
    for one, other in ((words, None), (None, words)):
        assert math.isnan(word_similarity(one, other).average)


def test_blocks_do_not_change_greedy(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = unit_rows(rng.normal(size=(57, 8))), unit_rows(rng.normal(size=(31, 8)))
    whole = greedy_both(x, y)
    monkeypatch.setattr(subject, "_CHUNK", 100)
    np.testing.assert_allclose(greedy_both(x, y), whole)
