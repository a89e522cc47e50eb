"""distinct-1 and distinct-2 by hand (Li et al. 2016)."""

import math

import numpy as np
import pytest

from chatbots import Conversation
from evaluation.metrics.lexical import Distinct, distinct


def test_by_hand():
    # words: a b a | b a → 2 of 5; pairs: ab ba | ba → 2 of 3, none across the border
    assert distinct([["a", "b", "a"], ["b", "a"]]) == (2 / 5, 2 / 3)


@pytest.mark.parametrize("utterances", [[], [[]], [[], []]])
def test_without_a_word_it_is_undefined(utterances):
    assert all(math.isnan(share) for share in distinct(utterances))


def test_each_side_over_its_conversation():
    first = Conversation.from_texts(["hi hi", "Yes yes", "no no no", "YES"], id="a")
    second = Conversation.from_texts(["x", "😀"], id="b")
    found = Distinct().compute([first, second])
    assert found.conversations.loc["a"].tolist() == [1 / 3, 1.0, 1 / 3, 1 / 2]
    # One word has no pair; the participant of b has answered nothing.
    np.testing.assert_array_equal(found.conversations.loc["b"], [1, np.nan, np.nan, np.nan])
    assert "pair" in found.reasons["distinct_2_bot"]
