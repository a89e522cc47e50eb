"""PONE's training data: augmented responses, label filter and inputs.

Augmented responses (section 4) are slightly changed true responses or a bot's replies. Easy data augmentation (Wei and
Zou 2019, "EDA", EMNLP) replaces words by synonyms, inserts synonyms, swaps words or deletes words; each copy uses one
of the four. Synonyms are WordNet's (origin and licence: `evaluation/shipped/wordnet/README.md`). Without synonyms,
replacement is skipped and insertion repeats words of the response.

Label filter (section 5): a frozen copy of the scorer scores all augmented pairs. Certain scores, ≤ θ or ≥ 1 − θ,
determine the label (score > ½); other pairs are dropped or stay positive. Training continues with these labels, and the
filter is reapplied until few labels change.

Inputs are vectors of a frozen encoder, cached on disk, or words for RUBER's encoder.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from chatbots import Conversation
from chatbots.bots.base import Bot
from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.sentence import encoder_get
from chatbots.identity import Identity, canonical_json, derive_seed
from chatbots.serving import reply
from evaluation.metrics.text_cache import QUESTION_WORDS, STOPWORDS
from evaluation.models.pone import WordTexts
from evaluation.training.config import MetricTrainingConfig

Synonyms = Callable[[str], Sequence[str]]
Operation = Callable[[list[str], int, np.random.Generator, Synonyms | None], list[str]]
ALPHA = 0.1


def replace_words(words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None) -> list[str]:
    """Replace all occurrences of up to n words by synonyms."""
    assert synonyms is not None, "replacing words requires synonyms"
    changed = list(words)
    n_left = n
    for word in rng.permutation(sorted(set(words))).tolist():
        known = synonyms(word) if n_left else ()
        if known:
            synonym = str(rng.choice(list(known)))
            changed = [synonym if old_word == word else old_word for old_word in changed]
            n_left -= 1
    return changed


def insert_words(words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None) -> list[str]:
    """Insert synonyms of n random words at random positions.

    Words without synonyms are repeated.
    """
    changed = list(words)
    for _ in range(n):
        word = words[rng.integers(len(words))]
        known = (synonyms(word) if synonyms else ()) or (word,)
        changed.insert(int(rng.integers(len(changed) + 1)), str(rng.choice(list(known))))
    return changed


def swap_words(words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None) -> list[str]:
    """Swap two random words, n times."""
    changed = list(words)
    if len(changed) > 1:
        for _ in range(n):
            i, j = rng.choice(len(changed), size=2, replace=False)
            changed[i], changed[j] = changed[j], changed[i]
    return changed


def delete_words(words: list[str], n: int, rng: np.random.Generator, synonyms: Synonyms | None) -> list[str]:
    """Delete each word with probability n / (number of words), keeping at least one."""
    remaining = [word for word, u in zip(words, rng.random(len(words)), strict=True) if u >= n / len(words)]
    return remaining or [words[rng.integers(len(words))]]


def augmented(
    text: str, k: int, rng: np.random.Generator, *, synonyms: Synonyms | None = None, alpha: float = ALPHA
) -> list[str]:
    """Return up to k distinct variations of a text.

    Args:
        synonyms: function that returns a word's synonyms, if any.
        alpha: share of words to change, at least one word.
    """
    operations: list[Operation] = [insert_words, swap_words, delete_words]
    if synonyms is not None:
        operations.insert(0, replace_words)
    words = text.split()
    if not words:
        return []
    n = max(1, round(alpha * len(words)))
    copies: dict[str, None] = {}
    for _ in range(4 * k):  # short texts have few variations
        if len(copies) == k:
            break
        changed = " ".join(operations[rng.integers(len(operations))](words, n, rng, synonyms))
        if changed != " ".join(words):
            copies[changed] = None
    return list(copies)


def generated(bot: Bot, contexts: Sequence[Sequence[str]], k: int, *, seed: int = 0) -> list[list[str]]:
    """Generate up to k distinct bot replies per context, in one batch.

    Args:
        bot: any bot; greedy decoding gives one reply per context.
        seed: base seed; every reply has a seed derived from it.
    """
    replies_by_context: list[dict[str, None]] = [{} for _ in contexts]
    for n in range(k):
        conversations = [
            Conversation.from_texts(
                list(context),
                id=f"{number}",
                first="human" if len(context) % 2 else "bot",
                seed=derive_seed(seed, number, n),
            )
            for number, context in enumerate(contexts)
        ]
        for replies, answer in zip(replies_by_context, reply(bot, conversations), strict=True):
            if answer.text and answer.text.strip():
                replies[answer.text] = None
    return [list(replies) for replies in replies_by_context]


SLICE = Path(__file__).parent.parent / "shipped" / "wordnet" / "synonyms.tsv.gz"
_WORD = re.compile(r"(\W*)([^\W\d_]+)(\W*)")


@cache
def wordnet_synonyms(path: Path = SLICE) -> Synonyms:
    """Return a function that looks up synonyms of a word in its text.

    Synonyms keep the word's punctuation and capitalisation. Function words have none, as in Wei and Zou's code;
    otherwise "a" and "i" would become vitamin A and iodine.

    Raises:
        FileNotFoundError: if the slice is missing.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        known = dict(line.rstrip("\n").split("\t") for line in file)

    def synonyms(word: str) -> list[str]:
        match = _WORD.fullmatch(word)
        if match is None:
            return []
        before, letters, after = match.groups()
        plain = letters.lower()
        if plain in STOPWORDS or plain in QUESTION_WORDS:
            return []
        alternatives = known.get(plain, "").split()
        if letters[0].isupper():
            alternatives = [alternative.capitalize() for alternative in alternatives]
        return [f"{before}{alternative}{after}" for alternative in alternatives]

    return synonyms


Uncertain = Literal["drop", "change"]
THETA = 0.05
SETTLED = 0.001
"""Relabelling ends when less than this share of labels changes (the paper's rule)."""


@dataclass(frozen=True)
class Labels:
    """Labels of augmented pairs.

    Attributes:
        positive: (N,) bool.
        is_kept: (N,) bool, True for pairs used in training.
    """

    positive: np.ndarray
    is_kept: np.ndarray

    @property
    def kept_share(self) -> float:
        """Share of pairs used in training."""
        return float(self.is_kept.mean()) if len(self.is_kept) else float("nan")

    def changed(self, before: Labels) -> float:
        """Return the share of pairs with a changed label or `is_kept`."""
        if not len(self.is_kept):
            return 0.0
        same = (self.is_kept == before.is_kept) & ((self.positive == before.positive) | ~self.is_kept)
        return float((~same).mean())


def all_positive(n: int) -> Labels:
    """Return the initial labels, all positive."""
    return Labels(np.ones(n, dtype=bool), np.ones(n, dtype=bool))


def relabelled(scores: np.ndarray, theta: float = THETA, uncertain: Uncertain = "drop") -> Labels:
    """Compute labels from (N,) scores between 0 and 1.

    Args:
        theta: maximum distance of certain scores from 0 or 1; ½ keeps all.
        uncertain: "drop" uncertain pairs, or "change" to keep them as positive.

    Raises:
        ValueError: if theta is not in 0 … ½.
    """
    if not 0 <= theta <= 0.5:
        raise ValueError(f"theta is {theta}; it must be in 0 … 0.5")
    sure = (scores <= theta) | (scores >= 1 - theta)
    if uncertain == "drop":
        return Labels(scores > 0.5, sure)
    return Labels((scores > 0.5) | ~sure, np.ones(len(scores), dtype=bool))


def labels_are_stable(now: Labels, before: Labels | None) -> bool:
    """Return True if few enough labels changed to stop."""
    return before is not None and now.changed(before) < SETTLED


def inputs_of(
    queries: Sequence[tuple[str, ...]], responses: Sequence[str], config: MetricTrainingConfig, device: str
) -> tuple[np.ndarray | WordTexts, list[str], dict[tuple[str, ...], int]]:
    """Return the network's inputs: vectors or words, texts, and row numbers by query."""
    options = config.metric_options
    distinct = list(dict.fromkeys(queries))
    if options.sentences == "recurrent":
        joined = [" ".join(query) for query in distinct]
        texts = list(dict.fromkeys([*responses, *joined]))
        place = {text: k for k, text in enumerate(texts)}
        return (WordTexts(texts), texts, {query: place[text] for query, text in zip(distinct, joined, strict=True)})
    texts = list(dict.fromkeys([*responses, *(text for query in distinct for text in query)]))
    place = {text: k for k, text in enumerate(texts)}
    vectors = _vectors(texts, config.backbone.model, device)
    if options.window == 1:
        return vectors, texts, {query: place[query[0]] for query in distinct}
    means = np.stack([vectors[[place[t] for t in query]].mean(axis=0) for query in distinct])
    inputs = np.concatenate([vectors, means.astype(np.float32)])
    return inputs, texts, {query: len(texts) + k for k, query in enumerate(distinct)}


def _vectors(texts: Sequence[str], model: str, device: str) -> np.ndarray:
    """Return (T, d) sentence vectors of length 1, cached on disk."""
    encoder = encoder_get(model, device)
    digest = hashlib.sha256(canonical_json(list(texts)).encode()).hexdigest()
    identity = Identity("metric_training_vectors", "1", {"encoder": encoder.identity.as_dict(), "texts": digest})
    return arrays_cached(identity, lambda: {"vectors": encoder.encode(texts)})["vectors"]
