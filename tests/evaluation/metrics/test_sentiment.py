"""Sentiment family: against VADER itself, and slopes worked out by hand."""

import numpy as np
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from chatbots import Conversation
from evaluation.metrics.sentiment import Sentiment, slope_min_max

TEXTS = ["Hello", "I love talking to you", "You are awful", "Why?", "This is great!", "ok", "bad"]


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


def test_columns_against_vader():
    found = Sentiment().compute([Conversation.from_texts(TEXTS, id="c")])
    vader = SentimentIntensityAnalyzer()
    s = [vader.polarity_scores(text)["compound"] for text in TEXTS]
    nan = np.nan
    turns = found.turns.loc["c"]
    np.testing.assert_allclose(turns["sentiment_user"], [nan, nan, s[2], nan, s[4], nan, s[6]])
    np.testing.assert_allclose(turns["sentiment_bot"], [nan, s[1], nan, s[3], nan, s[5], nan])
    np.testing.assert_allclose(
        turns["sentiment_transition"],
        [nan, nan, s[2] - s[0], nan, s[4] - s[2], nan, s[6] - s[4]],
    )
    whole = found.conversations.loc["c"]
    assert whole["sentiment_user"] == pytest.approx(np.mean([s[2], s[4], s[6]]))
    # answers 0, 1, 2 of the participant: awful, great, bad
    lowest, highest = int(np.argmin([s[2], s[4], s[6]])), 1
    assert whole["sentiment_minmax"] == pytest.approx((min(s[2], s[6]) - s[4]) / (lowest - highest))


def test_coherence_is_the_cosine_of_vaders_shares():
    found = Sentiment().compute([Conversation.from_texts(TEXTS[:2], id="c")])
    vader = SentimentIntensityAnalyzer()
    a, b = (
        np.array([vader.polarity_scores(t)[k] for k in ("neg", "neu", "pos")]) for t in TEXTS[:2]
    )
    expected = a @ b / np.sqrt((a @ a) * (b @ b))
    assert found.turns.loc[("c", 1), "sentiment_coherence_user_bot"] == pytest.approx(expected)


def test_self_play_describes_the_next_utterance():
    found = Sentiment().compute([Conversation.from_texts(TEXTS[:3], id="c")], self_play=True)
    turns = found.turns.loc["c"]
    np.testing.assert_array_equal(turns["sentiment_user"], turns["sentiment_bot"])
    assert np.isnan(turns["sentiment_bot"][0])
    assert turns["sentiment_transition"][1:].notna().all()


def test_a_blank_message_has_no_sentiment_and_says_why():
    found = Sentiment().compute([Conversation.from_texts(["hi", "hello", "  "], id="c")])
    assert np.isnan(found.turns.loc[("c", 2), "sentiment_user"])
    assert np.isnan(found.conversations.loc["c", "sentiment_user"])
    assert "blank" in found.reasons["sentiment_user"]
    assert "fewer than two" in found.reasons["sentiment_minmax"]
