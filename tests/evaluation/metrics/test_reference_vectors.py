"""Replies against references by vectors: hand-worked token vectors, and MiniLM's own."""

import math

import numpy as np
import pytest

from evaluation.items import ReplyInContext
from evaluation.metrics.bert_score import bert_score
from evaluation.metrics.registry import metric_get
from evaluation.metrics.shared import Shared

E1, E2, HALF = [1.0, 0.0], [0.0, 1.0], [math.sqrt(0.5), math.sqrt(0.5)]


def test_marks_at_the_ends_are_matched_but_not_averaged_over():
    reply = np.array([HALF, E1, E2]), np.array([False, True, True])
    reference = np.array([HALF, E1]), np.array([False, True])
    precision, recall, f = bert_score(reply, reference)
    assert precision == pytest.approx((1 + math.sqrt(0.5)) / 2)  # the second is nearest to a mark
    assert recall == pytest.approx(1)
    assert f == pytest.approx(2 * precision / (1 + precision))
    assert all(map(math.isnan, bert_score((reply[0], np.zeros(3, bool)), reference)))


@pytest.mark.parametrize("name", ["bert_score", "embedding_match"])
def test_equal_texts_match_wholly_and_others_less(name):
    metric = metric_get(name)
    if reason := metric.unavailable_reason():
        pytest.skip(reason)
    replies = [
        ReplyInContext((), "I like cats", "I like cats"),
        ReplyInContext((), "I like cats", "She adores dogs"),
        ReplyInContext((), "I like cats", "The bank raised interest rates"),
        ReplyInContext((), "I like cats", None),
    ]
    for values in metric.scored(replies, Shared()).values():
        assert values[0] == pytest.approx(1, abs=1e-5)
        assert 1 > values[1] > values[2]
        assert math.isnan(values[3])
