"""Ranking of corpus situations by similarity to a conversation.

For retrieval bots and simulated participants. Similarity is the cosine of sentence vectors, or of TF-IDF vectors if
there is no sentence encoder. The last utterance has the largest weight, the two before it smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chatbots.conversation import Conversation
from chatbots.corpora.situations import Situations, greets_alone
from chatbots.encoders.emotion import vader_scores

CONTEXT_WEIGHTS = (0.65, 0.15, 0.08)
"""Weights of the last utterance and of the two before it."""
SHORT_WEIGHTS = (0.4, 0.34, 0.14)
"""Weights if the last utterance has one or two words: the meaning of "yes" depends on the question."""
REPLY_WEIGHT = 0.12
"""Weight of the similarity between the last utterance and the reply; keeps the bot on topic."""
MISSING = 0.1
"""Similarity for utterances that the corpus dialogue lacks because it has just begun. It is that of unrelated
utterances, so that starts of dialogues are neither preferred nor avoided."""
SECOND_SPEAKER = 0.02
"""Bonus for replies of a dialogue's second speaker: openers tell, responders ask."""
OTHER_MOOD = 0.05
"""Penalty if only one of the two utterances is a question."""
OTHER_SENTIMENT = 0.06
"""Penalty per unit of difference in sentiment (VADER, -1 to 1) of the utterances replied to, to avoid congratulations
on bad news."""
GREETING = 0.15
"""Bonus for replies to a greeting at the start of a conversation; later a penalty."""
NEAR = 0.025
"""Replies within this distance of the best score are considered equal; one of them is drawn."""
RANKING_PARAMS: dict[str, Any] = {
    "weights": [*CONTEXT_WEIGHTS, *SHORT_WEIGHTS, REPLY_WEIGHT],
    "corrections": [SECOND_SPEAKER, OTHER_MOOD, OTHER_SENTIMENT, GREETING, MISSING],
    "near": NEAR,
}
"""All constants above, for identities."""


class EncoderSpace:
    """Similarity by sentence vectors.

    Args:
        encode: returns the unit vectors of N texts, (N, D).
        corpus: vectors of the corpus's texts, (U, D).
    """

    def __init__(self, encode: Callable[[Sequence[str]], np.ndarray], corpus: np.ndarray) -> None:
        self._encode = encode
        self._corpus = corpus

    def similarity(self, texts: Sequence[str]) -> np.ndarray:
        """Compute cosines of N texts with the U corpus texts, (N, U)."""
        return self._encode(texts) @ self._corpus.T


class LexicalSpace:
    """Similarity by TF-IDF of words and word pairs."""

    def __init__(self, texts: list[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectoriser = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        self._corpus = self._vectoriser.fit_transform(texts)

    def similarity(self, texts: Sequence[str]) -> np.ndarray:
        """Compute cosines of N texts with the U corpus texts, (N, U)."""
        return (self._vectoriser.transform(texts) @ self._corpus.T).toarray()


def score_candidates(index: Situations, last: str, similar: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Score candidates by the recent utterances and by the last one, each (C,).

    Scores are weighted means of similarities. They are rounded, because the last bits of a matrix product depend on
    the batch.
    """
    of_reply = similar[0][index.replies]
    last_weights = CONTEXT_WEIGHTS[:1]
    mood = SECOND_SPEAKER * index.second - OTHER_MOOD * (index.answers_question != last.endswith("?"))
    mood = mood - OTHER_SENTIMENT * np.abs(index.sentiment - vader_scores([last])[0])
    if len(similar) > 2:
        mood = mood - GREETING * index.greets
    elif greets_alone(last):
        mood = mood + GREETING * index.greets

    def mean(weights: Sequence[float]) -> np.ndarray:
        total = REPLY_WEIGHT * of_reply
        used = weights[: len(similar)]
        for weight, row, numbers in zip(used, similar, index.contexts.T, strict=False):
            total = total + weight * np.where(numbers >= 0, row[numbers], MISSING)
        return total / (REPLY_WEIGHT + sum(used))

    scores = mean(CONTEXT_WEIGHTS)
    if len(last.split()) <= 2:
        scores = np.maximum(scores, mean(SHORT_WEIGHTS))
    return (
        np.round(np.asarray(scores + mood, dtype=np.float64), 5),
        np.round(np.asarray(mean(last_weights) + mood, dtype=np.float64), 5),
    )


def utterances(context: Conversation) -> list[str]:
    """Return the non-blank texts, joining consecutive turns of a speaker."""
    out: list[str] = []
    speaker = None
    for turn in context.turns:
        text = turn.text.strip()
        if not text:
            continue
        if turn.speaker == speaker:
            out[-1] = f"{out[-1]} {text}"
        else:
            out.append(text)
        speaker = turn.speaker
    return out
