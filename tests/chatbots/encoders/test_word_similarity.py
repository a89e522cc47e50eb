"""Likeness of two texts by their words against plain loops, after Liu et al. (2016) and fact sheet section 1.4."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chatbots.encoders import word_vectors as subject
from chatbots.encoders.word_vectors import TextWords, extrema_vector, greedy_matching, unit_rows, word_similarity

D = 4


def likeness(x, y):
    return word_similarity(TextWords.of(x), TextWords.of(y))


def plain_cosine(a, b):
    dot = sum(p * q for p, q in zip(a, b, strict=True))
    size = math.sqrt(sum(p * p for p in a)) * math.sqrt(sum(q * q for q in b))
    return dot / size if size > 0 else math.nan


def plain_average(x, y):
    def mean(rows):
        return [sum(row[d] for row in rows) / len(rows) for d in range(D)]

    return plain_cosine(mean(x), mean(y))


def plain_extrema(x, y):
    def extreme(rows):
        out = []
        for d in range(D):
            column = [row[d] for row in rows]
            out.append(max(column) if abs(min(column)) <= max(column) else min(column))
        return out

    return plain_cosine(extreme(x), extreme(y))


def plain_greedy(x, y):
    total = 0.0
    for a in x:
        total += max(plain_cosine(a, b) for b in y)
    return total / len(x)


# Multiples of 1/8 keep sums exact, so that a mean that is zero is zero in both ways of adding.
numbers = st.integers(-40, 40).map(lambda k: k / 8)
texts = st.integers(1, 6).flatmap(lambda n: arrays(float, (n, D), elements=numbers))


@settings(max_examples=150, deadline=None)
@given(texts, texts)
def test_against_plain_loops(x, y):
    x = np.array([row for row in x if np.any(row)])
    y = np.array([row for row in y if np.any(row)])
    found = likeness(x.reshape(-1, D), y.reshape(-1, D))
    if not len(x) or not len(y):
        assert all(math.isnan(v) for v in (found.average, found.extrema, found.greedy))
        return
    forth, back = plain_greedy(x, y), plain_greedy(y, x)
    expected = (plain_average(x, y), plain_extrema(x, y), (forth + back) / 2, forth)
    np.testing.assert_allclose((found.average, found.extrema, found.greedy, found.greedy_ref), expected, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(texts, texts)
def test_greedy_is_symmetric_and_all_are_cosines(x, y):
    one, other = likeness(x, y), likeness(y, x)
    np.testing.assert_allclose(one.greedy, other.greedy, atol=1e-12)
    for value in (one.average, one.extrema, one.greedy, one.greedy_ref):
        assert math.isnan(value) or -1 <= value <= 1


def test_extrema_takes_the_positive_of_equal_sizes():
    np.testing.assert_array_equal(extrema_vector(np.array([[1.0, -3.0], [-1.0, 2.0]])), [1.0, -3.0])


def test_blocks_do_not_change_greedy(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = unit_rows(rng.normal(size=(57, 8))), unit_rows(rng.normal(size=(31, 8)))
    whole = greedy_matching(x, y)
    monkeypatch.setattr(subject, "_CHUNK", 100)
    np.testing.assert_allclose(greedy_matching(x, y), whole)
