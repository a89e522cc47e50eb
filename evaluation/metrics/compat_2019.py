"""Quantities of the 2019 code with its quirks.

They are means over the rows of that code's table (`table_2019.py`).

Each has the name of the recommended column with the prefix `compat_`. Normalised copies (min-max, z-scores) depend on
all conversations and are therefore not metrics: see `table_2019.table_2019`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evaluation.data.tables import Column
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.emotion import default_emotions
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.table_2019 import TableRows2019, conversation_values, row_values
from evaluation.metrics.text_cache import TOKENIZER, TextCache

_ONE = ("1", (None, None))
_SCORE, _SHARE = ("1", (-1, 1)), ("1", (0, 1))
_COSINE, _WORDS, _MINUS = ("cosine", (-1, 1)), ("words", (0, None)), ("words", (None, 0))

_WORDS_MATCHED = {"average": "Average", "extrema": "Extrema", "greedy": "One-way greedy"}

# Name without `compat_`: unit and range, title, description of the 2019 code's computation.
_ROWS: dict[str, tuple[tuple[str, tuple[float | None, float | None]], str, str]] = {
    "sentiment_user": (_SCORE, "Sentiment, participant", "Sentiment of the next message; 0 in the last row"),
    "sentiment_bot": (_SCORE, "Sentiment, bot", "Sentiment of the response; an empty one is read as '_'"),
    "sentiment_unk_bot": (
        _SCORE,
        "Sentiment, bot, unknown words",
        "Sentiment of the response; −0.5 if it contains <unk>",
    ),
    "sentiment_coherence_user_bot": (
        _SHARE,
        "Sentiment coherence",
        "Cosine of the emotions of message and response; an empty one is read as '_'",
    ),
    "sentiment_coherence_centred_user_bot": (
        ("1", (-0.5, 0.5)),
        "Sentiment coherence, centred",
        "The sentiment coherence minus 0.5",
    ),
    "sentiment_transition": (
        ("1", (-2, 2)),
        "Sentiment transition",
        "Sentiment of the next message minus that of the message; in the last row the next message is read as '_'",
    ),
    "laughter_user": (
        ("occurrences", (0, 4)),
        "Laughter, participant",
        "Number of letter pairs 'ha' in the next message, at most 4; 0 in the last row",
    ),
    "semantic_similarity_user_bot": (
        _COSINE,
        "Semantic similarity",
        "Cosine of the sentence embeddings of message and response; an empty one is read as '_'",
    ),
    **{
        f"word_coherence_{kind}_{name}": (
            _COSINE,
            f"{_WORDS_MATCHED[kind]} word coherence, {title}",
            f"{_WORDS_MATCHED[kind]} word coherence of {description}; 0 if one side has no known word{extra}",
        )
        for name, title, description in (
            ("user_bot", "message and response", "message and response"),
            (
                "bot_next",
                "response and next message",
                "response and next message, split at white space (the later variant)",
            ),
        )
        for kind, extra in (
            ("average", ""),
            ("extrema", ""),
            ("greedy", "; in one direction only, from the first text to the second"),
        )
    },
    "question_bot": (_SHARE, "Question score, bot", "Question score of the response; 0 if it is empty"),
    "question_substring_bot": (
        _SHARE,
        "Question score, bot, later variant",
        "1 if the response has a question mark and the letters of a question word",
    ),
    "words_user": (
        _WORDS,
        "Words, participant",
        "Words of the next message, split at single spaces; 0 in the last row",
    ),
    "words_clipped_user": (
        ("words", (0, 30)),
        "Words, participant, at most 30",
        "Words of the next message, split at single spaces, at most 30; 0 in the last row",
    ),
    "words_bot": (_WORDS, "Words, bot", "Words of the response, split at single spaces"),
    "characters_user": (("characters", (0, None)), "Characters, participant", "Characters of the next message"),
    "length_reward": (
        ("rows", (0, None)),
        "Length as a reward",
        "n·0.95^(n−2−t) for row t of n, from 0; 0 in the last row",
    ),
    "vote_bot": (_SCORE, "Vote", "Vote on the response; 0 in self-play"),
    "debugging_bot": (_SHARE, "Contains the letters 'you'", "1 if the response contains the letters 'you'"),
    **{
        f"{kind}_bot": (_SHARE, title, f"1 if the lower-cased response contains the letters of a {phrases} phrase")
        for kind, title, phrases in (
            ("compliment", "Compliment, bot", "complimenting"),
            ("politeness", "Politeness, bot", "polite"),
            ("support", "Supportiveness, bot", "supportive"),
            ("cheer", "Cheerfulness, bot", "cheerful"),
        )
    },
    "conversation_repetition_bot": (
        _MINUS,
        "Conversation repetition, bot",
        "Minus the number of distinct content words of the response that occur in earlier responses",
    ),
    "utterance_repetition_bot": (
        _MINUS,
        "Utterance repetition, bot",
        "Number of distinct words minus number of words of the response",
    ),
    "response_length_bot": (_WORDS, "Response length", "Words of the response, without punctuation"),
    "word_similarity_bot_user": (
        _SHARE,
        "Word similarity",
        "Content words of the response that also occur in the next message, divided by the number of words of "
        "the response; 0 without any",
    ),
}
_WHOLE: dict[str, tuple[tuple[str, tuple[float | None, float | None]], str, str]] = {
    "sentiment_minmax": (
        ("1 per exchange", (-2, 2)),
        "Sentiment min-max slope",
        "Slope from lowest to highest sentiment of the next message; the last row counts as 0, and an "
        "undefined slope is 0",
    ),
    "sentiment_variance_user": (_SHARE, "Sentiment variance", "Variance of the sentiment, including the last row's 0"),
    "sentiment_auc_user": (_ONE, "Sentiment gained", "Sum of the sentiment transitions, including the last row"),
    "n_rows": (("rows", (0, None)), "Rows", "Rows of the table"),
}


def _columns() -> tuple[Column, ...]:
    return tuple(
        Column(
            f"compat_{name}",
            "conversation",
            f"{title} (2019 code)",
            unit,
            range,
            "neither",
            f"{description} (2019 code{', mean over its rows' if name in _ROWS else ''}).",
        )
        for name, ((unit, range), title, description) in {**_ROWS, **_WHOLE}.items()
    )


@register_metric
class Compat2019(MetricDefaults):
    """Quantities of the 2019 code, computed exactly as there; on request."""

    has_network = True
    licence = "Apache-2.0 (MiniLM, and the emotion head on it)"
    name = "compat_2019"
    languages = ("en",)
    title = "As the 2019 code"
    default = False
    columns = _columns()

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.sentence import sentence_encoder
        from chatbots.encoders.word_vectors import word_vectors

        return {
            "feelings": default_emotions().identity.as_dict(),
            "encoder": sentence_encoder().identity.as_dict(),
            "vectors": word_vectors().identity.as_dict(),
            "tokenizer": TOKENIZER,
        }

    def unavailable_reason(self) -> str | None:
        return default_emotions().unavailable_reason()

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        n = len(layout.conversations)
        rows = TableRows2019.from_conversations(layout.conversations, self_play=layout.self_play)
        values = row_values(rows, shared)
        conversation_scores = conversation_values(rows, values, n)
        count = np.bincount(rows.conversation_of, minlength=n)
        for name, scores in values.items():
            total = np.bincount(rows.conversation_of, weights=scores, minlength=n)
            conversation_scores[name] = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
        return Measured(
            turns={},
            conversations={f"compat_{name}": scores for name, scores in conversation_scores.items()},
            reasons={
                f"compat_{name}": missing(scores, "no message with a reply")
                for name, scores in conversation_scores.items()
            },
        )
