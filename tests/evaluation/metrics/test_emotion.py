"""Sentiment, emotion and people's reactions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from chatbots import Conversation, Identity
from chatbots.encoders.emotion import emotion_encoder, vader_scores
from evaluation.metrics.emotion import (
    FLOOR,
    EncoderEmotionSource,
    Sentiment,
    SentimentFamily,
    VaderSentiment,
    sentiment_columns,
    slope_min_max,
    variance,
)
from evaluation.metrics.reactions import last_score, mean_similarity, sentiment_slope, taken_up
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache

TEXTS = ["Hello", "I love talking to you", "You are awful", "Why?", "This is great!", "ok", "bad"]


class MadeUp:
    """Three emotions of weights 1, -1 and 0 that depend on a text's length; an encoder by its protocol."""

    identity = Identity("made_up", "1")
    labels = ("good", "bad", "none")
    weights = np.array([1.0, -1.0, 0.0], dtype=np.float32)

    def __init__(self):
        self.asked = []

    def unavailable_reason(self):
        return None

    def encode(self, texts):
        self.asked.extend(texts)
        return np.array([made_up(text) for text in texts], dtype=np.float32).reshape(-1, 3)

    def sentiment(self, p):
        return p @ self.weights


def made_up(text):
    good, bad = 1.0 + len(text) % 4, 1.0 + len(text) % 3
    return [good / (good + bad + 1), bad / (good + bad + 1), 1 / (good + bad + 1)]


class MadeUpSentiment(SentimentFamily):
    name = prefix = "made_up"
    columns = sentiment_columns("made_up", "Made up", "", "made up")

    def __init__(self, encoder):
        self.feelings = EncoderEmotionSource(lambda: encoder)


@pytest.mark.parametrize(
    ("scores", "slope"),
    [
        ([0.0, 1.0], 1.0),  # lowest first: positive
        ([1.0, 0.0], -1.0),
        ([0.5, -0.5, 0.2, 1.0], 0.75),  # (-.5 - 1) / (1 - 3)
        ([0.0, 0.0, 0.0], 0.0),
        ([0.0, 1.0, 1.0], 0.5),  # of equal highest the last: (0 - 1) / (0 - 2)
        ([0.0, 0.0, 1.0], 0.5),  # of equal lowest the first
        ([0.0, np.nan, 1.0], 0.5),  # an undefined score keeps its place
        ([0.3], np.nan),
        ([np.nan, 0.3], np.nan),
        ([], np.nan),
    ],
)
def test_slope_min_max(scores, slope):
    np.testing.assert_allclose(slope_min_max(np.array(scores)), slope)


def test_variance_is_of_the_population():
    assert variance(np.array([1.0, np.nan, 0.0, 0.5])) == pytest.approx(1 / 6)
    assert math.isnan(variance(np.array([1.0])))


@pytest.mark.parametrize("self_play", [False, True])
def test_columns_of_any_encoder_against_plain_python(self_play):
    found = MadeUpSentiment(MadeUp()).compute([Conversation.from_texts(TEXTS, id="c")], self_play=self_play)
    p = [made_up(text) for text in TEXTS]
    s = [good - bad for good, bad, _ in p]

    def cos(a, b):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))

    user = [1, 2, 3, 4, 5, 6] if self_play else [2, 4, 6]
    pairs = [(i, i + 1) for i in range(6)] if self_play else [(0, 1), (2, 3), (4, 5)]
    steps = pairs if self_play else [(0, 2), (2, 4), (4, 6)]
    turns = found.turns.loc["c"]
    expected = {
        "made_up_user": {i: s[i] for i in user},
        "made_up_bot": {i: s[i] for i in (user if self_play else [1, 3, 5])},
        "made_up_transition": {b: s[b] - s[a] for a, b in steps},
        "made_up_coherence_user_bot": {b: cos(p[a], p[b]) for a, b in pairs},
    }
    for column, values in expected.items():
        np.testing.assert_allclose(turns[column], [values.get(i, np.nan) for i in range(7)], atol=1e-6)
        whole = found.conversations.loc["c", column]
        assert whole == pytest.approx(sum(values.values()) / len(values), abs=1e-6)
    answers = [s[i] for i in user]
    mean = sum(answers) / len(answers)
    whole = found.conversations.loc["c"]
    assert whole["made_up_variance_user"] == pytest.approx(
        sum((x - mean) ** 2 for x in answers) / len(answers), abs=1e-6
    )
    assert whole["made_up_auc_user"] == pytest.approx(sum(s[b] - s[a] for a, b in steps), abs=1e-6)
    low = min(range(len(user)), key=lambda i: (answers[i], i))
    high = max(range(len(user)), key=lambda i: (answers[i], i))
    assert whole["made_up_minmax"] == pytest.approx((answers[low] - answers[high]) / (low - high), abs=1e-6)


def test_each_text_goes_through_an_encoder_once_a_run_and_a_blank_one_never():
    encoder, shared = MadeUp(), TextCache()
    metric = MadeUpSentiment(encoder)
    talk = [Conversation.from_texts([*TEXTS, " ", TEXTS[0]], id=id) for id in "ab"]
    metric.compute(talk, shared=shared)
    metric.compute(talk, shared=shared)
    assert sorted(encoder.asked) == sorted(TEXTS)


def test_the_default_is_the_shipped_head_on_the_sentence_vectors_of_the_run(encoded_texts):
    shared = TextCache()
    found = Sentiment().compute([Conversation.from_texts(TEXTS, id="c")], shared=shared)
    shared.encode(TEXTS)
    assert sorted(encoded_texts) == sorted(TEXTS)
    head = emotion_encoder()
    p = head.encode(TEXTS)
    s = np.asarray(p, dtype=float) @ np.asarray(head.weights, dtype=float)
    np.testing.assert_allclose(found.turns.loc["c", "sentiment_bot"].dropna(), s[[1, 3, 5]], atol=1e-4)
    assert s[1] > 0.3 > -0.3 > s[2]


def test_columns_against_vader():
    found = VaderSentiment().compute([Conversation.from_texts(TEXTS, id="c")])
    vader = SentimentIntensityAnalyzer()
    s = [vader.polarity_scores(text)["compound"] for text in TEXTS]
    nan = np.nan
    turns = found.turns.loc["c"]
    np.testing.assert_allclose(turns["vader_user"], [nan, nan, s[2], nan, s[4], nan, s[6]])
    np.testing.assert_allclose(turns["vader_bot"], [nan, s[1], nan, s[3], nan, s[5], nan])
    shares = [np.array([vader.polarity_scores(t)[k] for k in ("neg", "neu", "pos")]) for t in TEXTS[:2]]
    a, b = shares
    expected = a @ b / np.sqrt((a @ a) * (b @ b))
    assert turns.loc[1, "vader_coherence_user_bot"] == pytest.approx(expected)


def test_vader_of_a_long_text_is_vaders_own():
    words = "never so this good bad without doubt kind of sort great! hate least at very but isn't"
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words.split(), size=n)) for n in (3, 10, 40, 200)]
    own = SentimentIntensityAnalyzer()
    expected = [own.polarity_scores(text)["compound"] for text in texts]
    np.testing.assert_array_equal(vader_scores(texts), expected)


def test_a_blank_message_has_no_sentiment_and_says_why():
    found = VaderSentiment().compute([Conversation.from_texts(["hi", "hello", "  "], id="c")])
    assert np.isnan(found.turns.loc[("c", 2), "vader_user"])
    assert "blank" in found.reasons["vader_user"]


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
        "overlap": (taken_up("Dogs are great, and dogs don't bite!", "Do you like dogs?") + 0 + 0) / 3,
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
