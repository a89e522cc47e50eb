"""What participants write back, against pairs and lines computed one by one."""

from itertools import combinations

import numpy as np
import pytest

from chatbots import Conversation
from evaluation.metrics.emotion import FLOOR
from evaluation.metrics.reactions import last_score, mean_similarity, sentiment_slope, taken_up
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache

TALK = Conversation.from_texts(
    [
        "Hello",
        "Do you like dogs?",
        "Dogs are great, and dogs don't bite!",
        "I am a doctor.",
        "",
        "I am a doctor.",
        "What do you mean?",
        "Cats.",
        "Thanks.",
    ],
    id="talk",
)


def test_slope_and_last_pass_over_what_is_undefined() -> None:
    scores = np.array([0.1, np.nan, -0.4, 0.3])
    assert sentiment_slope(scores) == pytest.approx(np.polyfit([0, 2, 3], [0.1, -0.4, 0.3], 1)[0])
    assert last_score(np.array([0.2, np.nan])) == 0.2
    assert np.isnan(sentiment_slope(scores[:2]))
    assert np.isnan(last_score(scores[1:2]))


def test_similarity_is_the_mean_over_pairs() -> None:
    vectors = np.random.default_rng(0).normal(size=(5, 7))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [vectors[i] @ vectors[j] for i, j in combinations(range(5), 2)]
    assert mean_similarity(vectors) == pytest.approx(np.mean(pairs))
    assert np.isnan(mean_similarity(vectors[:1]))


def test_reactions_of_a_talk_counted_by_hand() -> None:
    shared = TextCache()
    found = metric_get("reactions").compute([TALK], shared=shared).conversations.loc["talk"]
    # Four answers: seven words, none, four, one.
    expected = {
        "log_words": np.log([8, 1, 5, 2]).mean(),
        "question_mark": 1 / 4,
        "short": 2 / 4,
        "exclamation": 1 / 4,
        "appreciation": 2 / 4,
        "negation": 1 / 4,
        "confusion": 1 / 4,
        # dogs of {dogs, great, bite}; the blank answer has no word; none of {mean}; none of {thanks}
        "overlap": (taken_up("Dogs are great, and dogs don't bite!", "Do you like dogs?") + 0 + 0)
        / 3,
    }
    for name, value in expected.items():
        assert found[f"reaction_{name}_user"] == pytest.approx(value), name
    assert taken_up("dogs bite", "Do you like dogs?") == pytest.approx(1 / 2)
    sentiment = metric_get("sentiment").compute([TALK], shared=shared).conversations.loc["talk"]
    assert found["reaction_sentiment_user"] == pytest.approx(sentiment["sentiment_user"])


def test_emotions_are_logarithms_of_mean_shares() -> None:
    found = metric_get("emotions").compute([TALK]).conversations.loc["talk"]
    assert len(found) == 28
    assert (np.exp(found) - FLOOR).sum() == pytest.approx(1, abs=1e-5)
    assert found["emotion_gratitude_user"] > found["emotion_grief_user"]
