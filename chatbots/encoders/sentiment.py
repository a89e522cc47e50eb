"""Sentiment of an utterance from a lexicon: VADER's compound score.

Hutto and Gilbert (2014), "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media
Text", ICWSM, by their own package `vaderSentiment`. One deviation: VADER knows its negations with a
straight apostrophe only ("don't"), phones type a curly one ("don’t"), so the curly one is straightened
first; without that "I don’t like it" would count as praise.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from chatbots.identity import Identity
from chatbots.release import package_version

_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _analyser() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    class Analyser(SentimentIntensityAnalyzer):  # type: ignore[misc]
        """VADER, with the two rules that lower the whole text for each word shown its neighbours only.

        They look at most three words back and two ahead, so the scores are the same, and a text of 10,000
        words takes a moment instead of seconds.
        """

        @staticmethod
        def _negation_check(valence: float, words: list[str], start_i: int, i: int) -> float:
            first = max(0, i - 3)
            found = SentimentIntensityAnalyzer._negation_check(
                valence, words[first : i + 1], start_i, i - first
            )
            return float(found)

        @staticmethod
        def _special_idioms_check(valence: float, words: list[str], i: int) -> float:
            first = max(0, i - 3)
            found = SentimentIntensityAnalyzer._special_idioms_check(
                valence, words[first : i + 3], i - first
            )
            return float(found)

    return Analyser()


def vader_identity() -> Identity:
    """Return the identity of what makes the scores: the package's version and how apostrophes are treated."""
    return Identity(
        "vader",
        "1",
        {"vaderSentiment": package_version("vaderSentiment"), "apostrophes": "straight"},
    )


def vader_scores(texts: Sequence[str]) -> np.ndarray:
    """Compute VADER's compound sentiment of each text.

    Returns:
        (N,) float64 in [-1, 1]; negative, neutral (0: also a text with no word in it) or positive.
        A text that stands in `texts` several times is scored once.
    """
    return vader_details(texts)[:, 0]


def vader_details(texts: Sequence[str]) -> np.ndarray:
    """Compute VADER's compound sentiment and how much of each text is negative, neutral and positive.

    Returns:
        (N, 4) float64: compound in [-1, 1] as `vader_scores` gives it, then the three proportions, which
        sum to about 1 (VADER rounds to three digits), or are all 0 for a text with no word in it.
    """
    with _lock:
        analyser = _analyser()
    found: dict[str, tuple[float, float, float, float]] = {}
    for text in texts:
        if text not in found:
            scores = analyser.polarity_scores(text.translate(_CURLY))
            found[text] = (scores["compound"], scores["neg"], scores["neu"], scores["pos"])
    return np.array([found[text] for text in texts], dtype=np.float64).reshape(-1, 4)
