"""Participants' reactions: answers to the bot, and votes.

Counts are used as logarithms or shares, so that one very long message does not dominate a mean. `emotion.py` provides
sentiment, `text_cache.py` content words. The lists of English phrases are Confab's own.

Votes: up, down or nothing per bot turn, given while chatting (fact sheet section 1.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.data.tables import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.cues import phrase_pattern, straightened
from evaluation.metrics.emotion import FEW_ANSWERS, EncoderEmotionSource, default_emotions
from evaluation.metrics.layout import Layout
from evaluation.metrics.lexical import n_words
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import BLANK, TextCache, content_words

SHORT = 3
"""Maximum number of words of a short answer."""

REACTIONS: dict[str, tuple[str, ...]] = {
    "appreciation": (
        "thank you",
        "thanks",
        "great",
        "awesome",
        "amazing",
        "cool",
        "nice",
        "wonderful",
        "fantastic",
        "lovely",
        "excellent",
        "perfect",
        "interesting",
        "love it",
        "love that",
        "like that",
        "good idea",
        "good point",
        "good to know",
        "glad to hear",
        "sounds good",
        "sounds fun",
    ),
    "negation": (
        "no",
        "nope",
        "nah",
        "not",
        "never",
        "nothing",
        "cannot",
        "can't",
        "don't",
        "doesn't",
        "didn't",
        "isn't",
        "aren't",
        "wasn't",
        "weren't",
        "won't",
        "wouldn't",
        "couldn't",
        "shouldn't",
        "haven't",
        "hasn't",
        "dont",
        "doesnt",
        "didnt",
        "cant",
        "isnt",
    ),
    "confusion": (
        "what do you mean",
        "what does that mean",
        "what are you talking about",
        "what are you saying",
        "i don't understand",
        "i dont understand",
        "i do not understand",
        "doesn't make sense",
        "does not make sense",
        "makes no sense",
        "make any sense",
        "confused",
        "confusing",
        "huh",
        "pardon",
        "come again",
        "say that again",
        "you already said",
        "you just said",
        "you said that",
        "already told you",
        "just told you",
        "i just said",
        "i asked",
        "i meant",
        "not what i",
        "that's not",
        "answer my question",
        "answer the question",
        "repeating yourself",
        "stop repeating",
        "off topic",
        "change the subject",
        "never mind",
        "nevermind",
    ),
}
"""Patterns by column name, in lower case with straight apostrophes."""

_FOUND = {kind: phrase_pattern(phrases) for kind, phrases in REACTIONS.items()}
_SHARES = {
    "question_mark": ("contains a question mark", lambda text: "?" in text),
    "short": (f"has at most {SHORT} words, separated by white space", lambda text: n_words(text) <= SHORT),
    "exclamation": ("contains an exclamation mark", lambda text: "!" in text),
    "appreciation": ("contains a word or phrase of appreciation", None),
    "negation": ("contains a word of negation", None),
    "confusion": ("shows confusion or tries to repair the conversation", None),
}
_TITLES = {
    "question_mark": "Question marks",
    "short": "Short answers",
    "exclamation": "Exclamation marks",
    "appreciation": "Appreciation",
    "negation": "Negation",
    "confusion": "Confusion and repair",
}


def sentiment_slope(scores: np.ndarray) -> float:
    """Compute the least-squares slope of the scores over positions 0, 1, ….

    NaN with fewer than two scores.

    Args:
        scores: (n,) in order, NaN if undefined; undefined scores keep their position and are skipped.
    """
    positions = np.flatnonzero(~np.isnan(scores))
    if len(positions) < 2:
        return float("nan")
    place = positions - positions.mean()
    return float(place @ scores[positions] / (place @ place))


def last_score(scores: np.ndarray) -> float:
    """Return the last defined score; NaN if there is none."""
    defined = scores[~np.isnan(scores)]
    return float(defined[-1]) if len(defined) else float("nan")


def mean_similarity(vectors: np.ndarray) -> float:
    """Compute the mean cosine over all pairs of unit vectors (n, D).

    NaN with fewer than two vectors.

    |Σ v|² is n plus twice the sum of the cosines of the pairs.
    """
    n = len(vectors)
    if n < 2:
        return float("nan")
    total = vectors.astype(float).sum(axis=0)
    return float(np.clip((total @ total - n) / (n * (n - 1)), -1.0, 1.0))


def taken_up(answer: str, before: str) -> float:
    """Return the share of an answer's content words in the previous turn.

    Each distinct word counts once; NaN for an answer without content words.
    """
    answer_words = set(content_words(answer))
    return len(answer_words & set(content_words(before))) / len(answer_words) if answer_words else float("nan")


def _share(kind: str) -> tuple[Column, Column]:
    predicate, _ = _SHARES[kind]
    return per_turn(
        f"reaction_{kind}_user",
        f"{_TITLES[kind]}, participant",
        unit="1",
        range=(0, 1),
        direction="neither",
        description=f"1 if a participant's answer to the bot {predicate}; otherwise 0. In self-play: the next "
        f"utterance.",
    )


@register_metric
class Reactions(MetricDefaults):
    """Reactions of participants to the bot, in their next turn."""

    name = "reactions"
    has_network = True
    licence = "Apache-2.0 (MiniLM, and the emotion head on it)"
    languages = ("en",)
    title = "Reactions of the participant"
    columns = (
        *per_turn(
            "reaction_log_words_user",
            "Words, participant, logarithm",
            unit="log words",
            range=(0, None),
            direction="higher",
            description="log(1 + words) of a participant's answer to the bot, natural logarithm.",
        ),
        *(column for kind in _SHARES for column in _share(kind)),
        *per_turn(
            "reaction_sentiment_user",
            "Sentiment of the answers",
            unit="1",
            range=(-1, 1),
            direction="higher",
            description="Sentiment of a participant's answer to the bot, the same number as `sentiment_user`.",
        ),
        Column(
            "reaction_sentiment_slope_user",
            "conversation",
            "Sentiment slope, participant",
            "1 per answer",
            (-2, 2),
            "higher",
            "Least-squares slope of the sentiment of the participant's answers over their order. Requires two answers.",
        ),
        Column(
            "reaction_sentiment_last_user",
            "conversation",
            "Sentiment of the last answer",
            "1",
            (-1, 1),
            "higher",
            "Sentiment of the participant's last non-blank answer to the bot.",
        ),
        Column(
            "reaction_self_similarity_user",
            "conversation",
            "Self-similarity, participant",
            "cosine",
            (-1, 1),
            "neither",
            "Mean cosine of the sentence vectors of all pairs of the participant's non-blank answers. "
            "Requires two answers.",
        ),
        *per_turn(
            "reaction_overlap_user",
            "Words taken up, participant",
            unit="1",
            range=(0, 1),
            direction="neither",
            description="Share of the distinct content words of a participant's answer that occur in the bot's turn "
            "before it. If a speaker writes several turns in a row, the last one is used. Undefined for an "
            "answer without content words.",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        return {"feelings": EncoderEmotionSource(default_emotions).identity.as_dict()}

    def unavailable_reason(self) -> str | None:
        return EncoderEmotionSource(default_emotions).unavailable_reason()

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        texts = layout.texts_at(layout.user)
        plain = [straightened(text) for text in texts]
        turns = {"reaction_log_words_user": layout.spread(layout.user, np.log1p([n_words(text) for text in texts]))}
        for kind, (_, holds) in _SHARES.items():
            values = (
                [holds(text) for text in texts]
                if holds is not None
                else [_FOUND[kind].search(text) is not None for text in plain]
            )
            turns[f"reaction_{kind}_user"] = layout.spread(layout.user, values)

        felt, _ = EncoderEmotionSource(default_emotions).read(texts, shared)
        sentiment = layout.spread(layout.user, felt)
        turns["reaction_sentiment_user"] = sentiment
        vectors = shared.encode(texts)
        place = np.full(len(layout.texts), -1)
        place[layout.user] = np.arange(len(texts))
        parts = layout.by_conversation(layout.user)
        turns_with_text = [part[~np.isnan(sentiment[part])] for part in parts]

        before, after = layout.answers.T
        overlap = [
            taken_up(layout.texts[answer], layout.texts[turn]) for turn, answer in zip(before, after, strict=True)
        ]
        turns["reaction_overlap_user"] = layout.spread(after, overlap)
        by_conversation = {
            "reaction_sentiment_slope_user": (
                np.array([sentiment_slope(sentiment[part]) for part in parts], dtype=float),
                FEW_ANSWERS,
            ),
            "reaction_sentiment_last_user": (
                np.array([last_score(sentiment[part]) for part in parts], dtype=float),
                "no non-blank answer to the bot",
            ),
            "reaction_self_similarity_user": (
                np.array([mean_similarity(vectors[place[part]]) for part in turns_with_text], dtype=float),
                FEW_ANSWERS,
            ),
        }
        return Measured(
            turns=turns,
            conversations={name: values for name, (values, _) in by_conversation.items()},
            reasons={
                "reaction_sentiment_user": missing(felt, BLANK),
                "reaction_overlap_user": missing(np.array(overlap, dtype=float), "an answer has no content word"),
                **{name: missing(values, reason) for name, (values, reason) in by_conversation.items()},
            },
        )


@register_metric
class Votes(MetricDefaults):
    """Manual votes -B."""

    name = "votes"
    languages = ()
    title = "Votes"
    columns = per_turn(
        "vote_bot",
        "Vote, bot",
        unit="1",
        range=(-1, 1),
        direction="higher",
        description="The participant's vote on the bot's turn: 1 up, -1 down, 0 none. Undefined in self-play, which "
        "has no votes.",
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        if layout.self_play:
            return Measured(
                {"vote_bot": layout.spread(layout.bot[:0], [])}, reasons={"vote_bot": ("self-play has no votes",)}
            )
        votes = [turn.vote for talk in layout.conversations for turn in talk.turns]
        return Measured({"vote_bot": layout.spread(layout.bot, [votes[i] for i in layout.bot])})
