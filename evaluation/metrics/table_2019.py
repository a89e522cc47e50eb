"""Table of the 2019 code, and every quantity computed from it.

Normalisers and rewards as in the released code (fact sheet section 1.6). They depend on all rows of all bots, so they
belong to the analysis of one table. A stored metric's value must not depend on other rows.

A row is a message, the bot's response and the message that follows; self-play is written as T rows with Message = m_t,
Response = m_{t+1}, the last response empty (Ghandeharioun et al. 2019, fact sheet sections 0, 1.2–1.6 and 2). Quirks
that the other metric modules do not share: the last row of a conversation is included with an empty text (encoded as
"_") or a forced 0; an undefined slope and a pair without word vectors count as 0; words are split at single spaces and
counted up to 30, laughter up to 4; greedy matching runs in one direction only.

Substitutes for models that cannot be shipped: the default emotion encoder for DeepMoji, the default sentence encoder
for InferSent, its static word vectors for word2vec. Callers can pass the originals instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import regex

from chatbots import Conversation
from chatbots.encoders.word_vectors import pair_similarities
from evaluation.metrics.cues import PHRASES, QUESTION_WORDS, laughs_substring, question_score
from evaluation.metrics.emotion import EmotionSource, EncoderEmotionSource, cosine, default_emotions, slope_min_max
from evaluation.metrics.layout import Layout
from evaluation.metrics.lexical import n_words_spoken
from evaluation.metrics.repetition import conversation_repetition, utterance_repetition, word_similarity
from evaluation.metrics.text_cache import TextCache, blank, content_words, lower_tokens, tokens_of

if TYPE_CHECKING:
    import pandas as pd

    from chatbots.encoders.word_vectors import StaticWordVectors


def zscore(values: np.ndarray, *, epsilon: float = 0.0) -> np.ndarray:
    """Compute (x − mean) / (std + ε) over defined values; NaN for 0/0.

    std is the population standard deviation.
    """
    defined = values[~np.isnan(values)]
    if not len(defined):
        return np.full(len(values), np.nan)
    spread = float(np.std(defined)) + epsilon
    # A constant column has no z-score, and rounding errors must not create one.
    if np.ptp(defined) == 0 and epsilon == 0:
        return np.full(len(values), np.nan)
    return (values - float(np.mean(defined))) / spread


def min_max(values: np.ndarray) -> np.ndarray:
    """Compute (x − min) / (max − min) over the defined values.

    NaN for a constant column.
    """
    defined = values[~np.isnan(values)]
    if not len(defined) or np.ptp(defined) == 0:
        return np.full(len(values), np.nan)
    low = float(defined.min())
    return (values - low) / (float(defined.max()) - low)


def length_reward(n_rows: int, gamma: float = 0.95) -> np.ndarray:
    """Compute the rewards (n,) for a conversation's length.

    n·γ^(n−2−t) for row t, counted from 0; 0 for the last row.
    """
    rewards = n_rows * gamma ** (n_rows - 2.0 - np.arange(n_rows))
    rewards[-1:] = 0.0
    return rewards


EMPTY_TEXT = "_"
"""Replacement for empty texts before encoding."""

_EMOJI = regex.compile(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\u200d\ufe0f\u20e3]")


@dataclass(frozen=True, slots=True)
class TableRows2019:
    """Concatenated rows of all conversations, R in total.

    Attributes:
        conversation_of: (R,) conversation of each row.
        position: (R,) position in the conversation, from 0.
        is_last: (R,) True for the last row of a conversation.
        message, response, following: the texts; `following` is the next row's message, "" in the last.
        vote: (R,) the vote on the response.
    """

    conversation_of: np.ndarray
    position: np.ndarray
    is_last: np.ndarray
    message: list[str]
    response: list[str]
    following: list[str]
    vote: np.ndarray

    @classmethod
    def from_conversations(cls, conversations: Sequence[Conversation], *, self_play: bool = False) -> TableRows2019:
        """Convert conversations to rows, using the last turn of a speaker's run.

        Final messages without a bot reply have no row, as in the released table.
        """
        layout = Layout.of(conversations, self_play=self_play)
        votes = [turn.vote for talk in conversations for turn in talk.turns]
        owner: list[int] = []
        texts: list[tuple[str, str, str]] = []
        vote: list[int] = []
        by_conversation = layout.by_conversation(layout.exchanges[:, 1])
        message_of = {reply: message for message, reply in layout.exchanges.tolist()}
        everything = layout.by_conversation(np.arange(len(layout.texts)))
        for number, replies in enumerate(by_conversation):
            pairs = [(message_of[reply], reply) for reply in replies.tolist()]
            rows = [(layout.texts[m], cleaned(layout.texts[r])) for m, r in pairs]
            marks = [0 if self_play else votes[reply] for _, reply in pairs]
            if self_play and len(everything[number]):
                rows.append((layout.texts[everything[number][-1]], ""))
                marks.append(0)
            after = [message for message, _ in rows[1:]] + [""]
            owner.extend([number] * len(rows))
            texts.extend((q, r, u) for (q, r), u in zip(rows, after, strict=False))
            vote.extend(marks)
        conversation_of = np.array(owner, dtype=int)
        n_rows = np.bincount(conversation_of, minlength=len(conversations))
        position = np.concatenate([np.arange(n) for n in n_rows] or [np.zeros(0, dtype=int)])
        return cls(
            conversation_of=conversation_of,
            position=position,
            is_last=position == n_rows[conversation_of] - 1,
            message=[q for q, _, _ in texts],
            response=[r for _, r, _ in texts],
            following=[u for _, _, u in texts],
            vote=np.array(vote, dtype=float),
        )

    def __len__(self) -> int:
        return len(self.message)


def cleaned(response: str) -> str:
    """Remove emoji and the space before them, like the released code."""
    return _EMOJI.sub("", response).lstrip()


def row_values(
    rows: TableRows2019,
    shared: TextCache,
    *,
    feelings: EmotionSource | None = None,
    vectors: StaticWordVectors | None = None,
) -> dict[str, np.ndarray]:
    """Compute each row's raw quantities (R,) by name, never NaN.

    The order is that of the fact sheet.

    Args:
        feelings: source of the sentiment; the default emotion encoder if None.
        vectors: vectors of the word coherences; the default word vectors if None.
    """
    from chatbots.encoders.word_vectors import word_vectors

    feelings = feelings or EncoderEmotionSource(default_emotions)
    vectors = vectors or word_vectors()
    q, r, u = (
        [EMPTY_TEXT if blank(text) else text for text in texts]
        for texts in (rows.message, rows.response, rows.following)
    )
    score_q, share_q = feelings.read(q, shared)
    score_r, share_r = feelings.read(r, shared)
    score_u, _ = feelings.read(u, shared)
    unknown = np.array(["<unk>" in text for text in rows.response], dtype=bool)
    embedded = shared.encode(q), shared.encode(r)
    words = np.array([len(text.split(" ")) for text in rows.following], dtype=float)
    words[rows.is_last] = 0.0
    coherence = cosine(share_q, share_r)
    values = {
        "sentiment_user": np.where(rows.is_last, 0.0, score_u),
        "sentiment_bot": score_r,
        "sentiment_unk_bot": np.where(unknown, -0.5, score_r),
        "sentiment_coherence_user_bot": coherence,
        "sentiment_coherence_centred_user_bot": coherence - 0.5,
        "sentiment_transition": score_u - score_q,
        "laughter_user": np.clip(_each(laughs_substring, rows.following), 0, 4),
        "semantic_similarity_user_bot": cosine(*embedded),
        **_coherences("user_bot", rows.message, rows.response, vectors, tokens_of(shared)),
        **_coherences("bot_next", rows.response, rows.following, vectors, str.split),
        "question_bot": list(map(question_score, rows.response, lower_tokens(rows.response, shared))),
        "question_substring_bot": _each(question_substring, rows.response),
        "words_user": words,
        "words_clipped_user": np.clip(words, 0, 30),
        "words_bot": _each(lambda text: len(text.split(" ")) if text else 0, rows.response),
        "characters_user": _each(len, rows.following),
        "length_reward": np.concatenate(
            [length_reward(n) for n in np.bincount(rows.conversation_of) if n] or [np.zeros(0)]
        ),
        "vote_bot": rows.vote,
        "debugging_bot": _each(lambda text: "you" in text, rows.response),
        **{f"{kind}_bot": _each(partial(_has_letters, phrases), rows.response) for kind, phrases in PHRASES.items()},
        "conversation_repetition_bot": _conversation_repetitions(rows),
        "utterance_repetition_bot": _each(utterance_repetition, rows.response),
        "response_length_bot": _each(n_words_spoken, rows.response),
        "word_similarity_bot_user": np.nan_to_num(
            [word_similarity(*pair) for pair in zip(rows.response, rows.following, strict=True)]
        ),
    }
    return {name: np.asarray(scores, dtype=float).reshape(len(rows)) for name, scores in values.items()}


def conversation_values(
    rows: TableRows2019, values: dict[str, np.ndarray], n_conversations: int
) -> dict[str, np.ndarray]:
    """Compute quantities of whole conversations, (C,) each by name.

    NaN for one without rows.
    """
    rows_by_conversation = np.split(
        np.arange(len(rows)), np.searchsorted(rows.conversation_of, np.arange(1, n_conversations))
    )
    statistics = np.full((3, n_conversations), np.nan)
    for number, indices in enumerate(rows_by_conversation[:n_conversations]):
        if len(indices):
            scores = values["sentiment_user"][indices]
            slope = slope_min_max(scores)
            statistics[:, number] = (
                0.0 if np.isnan(slope) else slope,
                np.var(scores),
                values["sentiment_transition"][indices].sum(),
            )
    n_rows = np.bincount(rows.conversation_of, minlength=n_conversations).astype(float)
    return {
        "sentiment_minmax": statistics[0],
        "sentiment_variance_user": statistics[1],
        "sentiment_auc_user": statistics[2],
        "n_rows": n_rows,
    }


NORMALISED = {
    "sentiment_user": zscore,
    "semantic_similarity_user_bot": zscore,
    "laughter_user": zscore,
    "words_clipped_user": zscore,
    "length_reward": zscore,
    "vote_bot": zscore,
}
"""Columns normalised over the whole table in the released code, besides `words_minmax_user`."""


def table_2019(
    conversations: Sequence[Conversation],
    *,
    self_play: bool = False,
    feelings: EmotionSource | None = None,
    vectors: StaticWordVectors | None = None,
    shared: TextCache | None = None,
) -> pd.DataFrame:
    """Build the 2019 table of these conversations.

    The columns `…_z` and `…_minmax` are normalised over all its rows.

    Returns:
        One row per row of the released table, with `chat_id`, `message`, `response` and all quantities; those of a
        conversation are repeated in each of its rows.
    """
    import pandas as pd

    rows = TableRows2019.from_conversations(conversations, self_play=self_play)
    values = row_values(rows, shared or TextCache(), feelings=feelings, vectors=vectors)
    conversation_scores = conversation_values(rows, values, len(conversations))
    normalised = {f"{name}_z": normalise(values[name]) for name, normalise in NORMALISED.items()}
    normalised["words_user_minmax"] = min_max(values["words_clipped_user"])
    return pd.DataFrame(
        {
            "chat_id": [conversations[number].id for number in rows.conversation_of],
            "message": rows.message,
            "response": rows.response,
            **values,
            **{name: scores[rows.conversation_of] for name, scores in conversation_scores.items()},
            **normalised,
        }
    )


def question_substring(text: str) -> float:
    """Return 1 for a question mark plus a question word as substring.

    Otherwise 0; a later variant of the released code.
    """
    return float("?" in text and any(word in text.lower() for word in QUESTION_WORDS))


def _has_letters(phrases: Sequence[str], text: str) -> bool:
    return any(phrase in text.lower() for phrase in phrases)


def _each(measure: Callable[[str], float], texts: Sequence[str]) -> np.ndarray:
    return np.array([measure(text) for text in texts], dtype=float)


def _coherences(
    name: str,
    references: Sequence[str],
    samples: Sequence[str],
    vectors: StaticWordVectors,
    tokenise: Callable[[str], Sequence[str]],
) -> dict[str, np.ndarray]:
    """Compute average, extrema and one-directional greedy coherence.

    0 if a text has no known word.
    """
    similarities = pair_similarities(list(zip(references, samples, strict=True)), vectors, tokenise)
    similarities = np.nan_to_num(similarities)
    return {
        f"word_coherence_{kind}_{name}": similarities[:, column]
        for column, kind in ((0, "average"), (1, "extrema"), (3, "greedy"))
    }


def _conversation_repetitions(rows: TableRows2019) -> np.ndarray:
    repetitions = np.zeros(len(rows))
    used: set[str] = set()
    for row, text in enumerate(rows.response):
        if rows.position[row] == 0:
            used = set()
        repetitions[row] = conversation_repetition(used, text)
        used.update(content_words(text))
    return repetitions
