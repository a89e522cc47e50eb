"""Features that `RadeLite` reads next to sentence vectors: lengths, shared words, marks, cosines, feelings.

All features are of a context, a reference and a response. They were fixed before any of them was scored; none is chosen
by data. "Last" is the utterance before the response.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from evaluation.items import ReplyInContext
from evaluation.metrics.overlap import rouge_l
from evaluation.metrics.shared import Shared
from evaluation.untokenised import untokenised

_WORD = re.compile(r"\w+(?:'\w+)?")
_I = frozenset({"i", "i'm", "i've", "i'd", "i'll", "me", "my", "mine"})
_YOU = frozenset({"you", "you're", "you've", "you'd", "you'll", "your", "yours"})
_ASKING = frozenset(
    {
        "what",
        "who",
        "where",
        "when",
        "why",
        "how",
        "which",
        "do",
        "does",
        "did",
        "are",
        "is",
        "have",
    }
)
_OF_TEXT = (
    "words",
    "log_words",
    "characters_per_word",
    "different_words",
    "repeated_pairs",
    "sentences",
    "question_marks",
    "exclamation_marks",
    "commas",
    "capitals",
    "digits",
    "says_i",
    "says_you",
    "asks",
)
_OF_PAIR = ("shared_words", "shared_words_back", "shared_pairs", "longest_common")
NAMES: tuple[str, ...] = (
    *(f"response_{name}" for name in _OF_TEXT),
    *(f"reference_{name}" for name in _OF_TEXT),
    *(f"response_reference_{name}" for name in _OF_PAIR),
    *(f"response_last_{name}" for name in _OF_PAIR),
    *(f"response_context_{name}" for name in _OF_PAIR),
    "longer_than_reference",
    "context_turns",
    "last_log_words",
    "last_asks",
    "cosine_response_reference",
    "cosine_response_last",
    "cosine_response_context",
    "cosine_response_first",
    "cosine_reference_last",
    "cosine_reference_context",
    "valence_response",
    "valence_reference",
    "valence_last",
    "neutral_response",
    "feelings_response_last",
    "feelings_response_reference",
)
VECTORS = ("last", "context", "reference", "response")


def vectors_and_surface(
    replies: Sequence[ReplyInContext], shared: Shared
) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, 4, d) sentence vectors, in the order of `VECTORS`, and (N, S) features, in that of `NAMES`.

    Args:
        replies: each with a reference and at least one utterance before it.
        shared: encodes every distinct text once.
    """
    texts = list(
        dict.fromkeys(
            untokenised(text)
            for r in replies
            for text in (*r.context, r.reference or "", r.response)
        )
    )
    place = {text: k for k, text in enumerate(texts)}
    encoded = shared.encode(texts)
    feelings, valence = _feelings(encoded)
    vectors = np.zeros((len(replies), len(VECTORS), encoded.shape[1]), dtype=np.float32)
    surface = np.zeros((len(replies), len(NAMES)), dtype=np.float32)
    for k, reply in enumerate(replies):
        context = [untokenised(text) for text in reply.context]
        response, reference, last = (
            untokenised(reply.response),
            untokenised(reply.reference or ""),
            context[-1],
        )
        a, h, q = place[response], place[reference], place[last]
        said = encoded[[place[text] for text in context]]
        whole = said.mean(axis=0)
        vectors[k] = encoded[q], whole, encoded[h], encoded[a]
        words = {text: _words(text) for text in {response, reference, last}}
        heard = [word for text in context for word in _words(text)]
        surface[k] = [
            *_of_text(response, words[response]),
            *_of_text(reference, words[reference]),
            *_of_pair(words[response], words[reference]),
            *_of_pair(words[response], words[last]),
            *_of_pair(words[response], heard),
            float(np.log1p(len(words[response])) - np.log1p(len(words[reference]))),
            len(context),
            np.log1p(len(words[last])),
            float("?" in last),
            encoded[a] @ encoded[h],
            encoded[a] @ encoded[q],
            _cosine(encoded[a], whole),
            encoded[a] @ said[0],
            encoded[h] @ encoded[q],
            _cosine(encoded[h], whole),
            valence[a],
            valence[h],
            valence[q],
            feelings[a, -1],
            _cosine(feelings[a], feelings[q]),
            _cosine(feelings[a], feelings[h]),
        ]
    return vectors, surface


def _feelings(encoded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, 28) shares of emotions, neutral last, and (N,) how pleasant they are, from MiniLM's vectors."""
    from chatbots.encoders.emotion import emotion_encoder

    head = emotion_encoder()
    shares = head.from_embeddings(encoded)
    neutral = head.labels.index("neutral")
    order = [*(k for k in range(len(head.labels)) if k != neutral), neutral]
    return shares[:, order], head.sentiment(shares)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("’", "'"))


def _of_text(text: str, words: Sequence[str]) -> list[float]:
    n = max(len(words), 1)
    pairs = Counter(itertools.pairwise(words))
    letters = sum(map(str.isalpha, text)) or 1
    return [
        float(len(words)),
        float(np.log1p(len(words))),
        sum(map(len, words)) / n,
        len(set(words)) / n,
        sum(count - 1 for count in pairs.values()) / n,
        float(len(re.findall(r"[.!?]+", text))),
        float(text.count("?")),
        float(text.count("!")),
        text.count(",") / n,
        sum(map(str.isupper, text)) / letters,
        sum(map(str.isdigit, text)) / n,
        sum(word in _I for word in words) / n,
        sum(word in _YOU for word in words) / n,
        float(bool(words) and words[0] in _ASKING),
    ]


def _of_pair(words: Sequence[str], others: Sequence[str]) -> list[float]:
    mine, theirs = set(words), set(others)
    both = len(mine & theirs)
    pairs = set(itertools.pairwise(words))
    shared = len(pairs & set(itertools.pairwise(others)))
    return [
        both / max(len(mine), 1),
        both / max(len(theirs), 1),
        shared / max(len(pairs), 1),
        rouge_l(words, others) if words and others else 0.0,
    ]


def _cosine(x: np.ndarray, y: np.ndarray) -> float:
    length = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / length if length > 0 else 0.0
