"""Samplers of wrong responses on cases worked by hand."""

import math

import numpy as np
import pytest

from evaluation.training.negatives import (
    Bm25,
    WordNegatives,
    draw_columns,
    pool_probabilities,
    random_responses,
    text_numbers,
    weighted_responses,
)

TEXTS = ["a b", "c d", "A  b", "e f", "g h"]
NUMBERS = text_numbers(TEXTS)
# The first response is most like the fourth, then the second; the third is the same text.
VECTORS = np.array([[1, 0], [0.6, 0.8], [1, 0], [0.8, 0.6], [-1, 0]])


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_equal_texts_have_one_number():
    assert NUMBERS.tolist() == [0, 1, 0, 2, 3]


def test_weights_are_the_softmax_over_the_pool_without_the_response_itself():
    found = pool_probabilities(np.array([[1.0, 0.6, 0.8]]), np.array([[True, False, False]]), 0.1)
    e6, e8 = math.exp(6), math.exp(8)
    assert found[0].tolist() == pytest.approx([0, e6 / (e6 + e8), e8 / (e6 + e8)])


def test_a_high_temperature_draws_uniformly_and_a_low_one_takes_the_most_similar():
    alike, same = np.array([[1.0, 0.6, 0.8]]), np.zeros((1, 3), bool)
    assert pool_probabilities(alike, same, 1e9)[0].tolist() == pytest.approx([1 / 3] * 3)
    assert pool_probabilities(alike, same, 1e-6)[0].tolist() == [1, 0, 0]
    assert pool_probabilities(alike, np.ones((1, 3), bool), 0.1)[0].tolist() == pytest.approx(
        [1 / 3] * 3
    )


def test_draws_follow_the_probabilities(rng):
    p = np.repeat([[0.2, 0.0, 0.5, 0.3]], 4000, axis=0)
    shares = np.bincount(draw_columns(p, rng), minlength=4) / 4000
    assert shares == pytest.approx([0.2, 0, 0.5, 0.3], abs=0.03)


def test_a_negative_is_never_the_response_itself(rng):
    for _ in range(50):
        for drawn in (
            random_responses(NUMBERS, rng),
            weighted_responses(VECTORS, NUMBERS, rng, temperature=0.05, pool=2),
        ):
            assert (NUMBERS[drawn] != NUMBERS).all()


def test_a_negative_is_no_other_fitting_response_to_the_same_utterance(rng):
    """Response 1 is made of 0, and the most like it."""
    texts = text_numbers(["a b", "a b c", "a d", "e"])
    vectors = np.array([[1.0, 0], [1, 0], [0.6, 0.8], [-1, 0]])
    owners = np.array([0, 0, 1, 2])
    cold = weighted_responses(vectors, texts, rng, temperature=1e-4, pool=200, owners=owners)
    assert cold[:2].tolist() == [2, 2]
    words = WordNegatives(["a b", "a b c", "a d", "e"], rng, owners, best=1).draw(rng)
    assert words[:2].tolist() == [2, 2]
    for _ in range(50):
        assert (owners[random_responses(texts, rng, owners)] != owners).all()
    one_owner = random_responses(texts, rng, np.zeros(4, int))  # then only the text counts
    assert (texts[one_owner] != texts).all()


def test_random_negatives_are_uniform(rng):
    drawn = [random_responses(NUMBERS, rng)[0] for _ in range(3000)]
    assert np.bincount(drawn, minlength=5) / 3000 == pytest.approx(
        [0, 1 / 3, 0, 1 / 3, 1 / 3], abs=0.04
    )


def test_a_cold_sampler_takes_the_most_similar_other_text(rng):
    drawn = weighted_responses(VECTORS, NUMBERS, rng, temperature=1e-4, pool=200)
    assert drawn[0] == 3
    assert drawn[2] == 3
    assert drawn[1] == 3
    assert drawn[4] == 1  # of cosines −1, −0.6, −1 and −0.8


def test_one_text_only_is_refused(rng):
    with pytest.raises(ValueError, match="two different responses"):
        random_responses(text_numbers(["a", "A "]), rng)


def test_bm25_by_hand():
    index = Bm25(["a dog", "a cat sat", "a dog and a dog"])
    # k1 1.2, b .75, mean length 10 / 3; "dog" is in two texts of three, once in the first and twice in the third.
    idf = math.log(1 + 1.5 / 2.5)

    def score(count, length):
        return idf * count / (count + 1.2 * (0.25 + 0.75 * length / (10 / 3)))

    found = index.scores("Dog bird")
    assert found.tolist() == pytest.approx([score(1, 2), 0, score(2, 5)])
    assert index.scores("dog DOG") == pytest.approx(2 * found)
    assert index.best(["dog", "bird"], 2).tolist() == [[2, 0], [0, 1]]
    assert Bm25(["!", "?"]).best(["dog"], 1).tolist() == [[0]]


def test_word_negatives_share_words_with_the_response(rng):
    texts = ["the red car", "a red car", "blue sky", "blue sea", "The red  car"]
    for _ in range(10):
        drawn = WordNegatives(texts, rng, best=1).draw(rng)
        assert drawn[[0, 2, 3, 4]].tolist() == [1, 3, 2, 1]
        assert drawn[1] in (0, 4)
