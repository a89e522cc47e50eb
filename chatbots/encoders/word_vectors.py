"""Static word vectors distilled from the sentence encoder, and word-based similarity.

Word-level measures (average, extrema and greedy coherence) need one vector per word, independent of its context.
model2vec (Tulkens and van Dongen 2024, "Model2Vec: Fast State-of-the-Art Static Embeddings") computes them in seconds:
each word is encoded alone, its token vectors are averaged, a PCA to 256 dimensions removes the component common to all
words, and smooth inverse frequency weights (Arora et al. 2017, ICLR) shorten the vectors of frequent words, as
word2vec's training does. The result is cached (`chatbots/encoders/cache.py`), so it is computed once per machine.

The vocabulary consists of the encoder's whole words, the words of the everyday corpus, and the clitics into which
tokenizers split contractions ("n't", "'re").

Similarity of two texts, average, extrema and greedy matching: Liu et al. (2016), "How NOT to evaluate your dialogue
system"; Ghandeharioun et al. (2019), fact sheet section 1.4. Tokens without a vector are dropped first; if a side has
none left, all measures are NaN (0 in the released code).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np

from chatbots.corpora.dialogues import EVERYDAY, CorpusError, corpus_read
from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.sentence import MINILM, LocalSentenceEncoder, Provenance, encoder_folder, encoder_get
from chatbots.huggingface import import_lock, quiet_loading, transformers_module
from chatbots.identity import Identity
from chatbots.installation import package_version

WORD_DIMENSION = 256
SIF = 1e-4
CLITICS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m")

_WORD = re.compile(r"[a-zß-öø-ÿ]+(?:['-][a-zß-öø-ÿ]+)*")
_NO_WORD = r"(?!(?:[a-zß-öø-ÿ]+|\[[A-Z]+\])$)"
"""Tokens dropped before the PCA: word pieces, digits, signs, other scripts. Special tokens must stay."""
_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


class WordVectors:
    """Word vectors of one encoder, loaded on first use from any thread.

    Args:
        encoder: the sentence encoder they are distilled from.
    """

    def __init__(self, encoder: LocalSentenceEncoder) -> None:
        self._encoder = encoder
        self._rows: dict[str, int] | None = None
        self._vectors = np.zeros((0, WORD_DIMENSION), dtype=np.float32)
        self._lock = threading.RLock()

    @property
    def identity(self) -> Identity:
        """Identity of encoder, distillation and vocabulary, known without loading."""
        return Identity(
            "word_vectors",
            "1",
            {
                "encoder": self._encoder.identity.as_dict(),
                "model2vec": package_version("model2vec"),
                "dimension": WORD_DIMENSION,
                "sif": SIF,
                "corpus": _corpus_vocabulary()[0],
            },
        )

    @property
    def provenance(self) -> Provenance:
        """Provenance of the encoder, from which this machine computes the vectors."""
        return self._encoder.provenance

    def unavailable_reason(self) -> str | None:
        """Explain why the vectors cannot be made here, or return None.

        Cheap: loads nothing.
        """
        return self._encoder.unavailable_reason()

    def load(self) -> None:
        """Read the vectors from the cache or distil them (a few seconds).

        Raises:
            EncoderError: the encoder's files are missing.
        """
        with self._lock:
            if self._rows is not None:
                return
            arrays = arrays_cached(self.identity, self._distil)
            self._vectors = arrays["vectors"].astype(np.float32)
            self._rows = {str(word): i for i, word in enumerate(arrays["words"])}

    def _distil(self) -> Mapping[str, np.ndarray]:
        folder = encoder_folder(self._encoder.source)
        transformers = transformers_module()
        with import_lock:
            from model2vec.distill import distill_from_model

        with quiet_loading("model2vec", "skeletoken"), _bar_on_terminals():
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            # MiniLM's tokenizer pads every text to 128 tokens, and model2vec would average the padding
            # into the vector of each word that has more than one token.
            tokenizer.backend_tokenizer.no_padding()
            model = distill_from_model(
                transformers.AutoModel.from_pretrained(folder, local_files_only=True),
                tokenizer,
                vocabulary=sorted(set(_corpus_vocabulary()[1]) - set(tokenizer.get_vocab())),
                device="cpu",
                pca_dims=WORD_DIMENSION,
                sif_coefficient=SIF,
                token_remove_pattern=_NO_WORD,
                quantize_to="float32",
            )
        rows = model.tokenizer.get_vocab()
        words = sorted(word for word in rows if _WORD.fullmatch(word) or word in CLITICS)
        vectors = np.asarray(model.embedding, dtype=np.float32)[[rows[word] for word in words]]
        # Half precision halves the file; its three digits are precise enough for word vectors.
        return {"words": np.array(words), "vectors": vectors.astype(np.float16)}

    def lookup(self, token: str) -> np.ndarray | None:
        """Return the vector of a token, or None for an unknown word.

        Case and curly apostrophes are ignored; punctuation has no vector.

        Returns:
            (256,) float32, not normalised; must not be modified.
        """
        self.load()
        rows = self._rows or {}
        row = rows.get(token)
        if row is None:
            row = rows.get(token.lower().translate(_CURLY))
        return None if row is None else self._vectors[row]

    def vectors(self, tokens: Sequence[str]) -> list[np.ndarray | None]:
        """Return `lookup` of each token."""
        return [self.lookup(token) for token in tokens]

    def matrix(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the vectors of the known tokens, in order: (n_known, 256) float32."""
        known = [vector for vector in self.vectors(tokens) if vector is not None]
        return np.stack(known) if known else np.zeros((0, WORD_DIMENSION), dtype=np.float32)

    def __len__(self) -> int:
        self.load()
        return len(self._rows or {})

    def __contains__(self, token: str) -> bool:
        return self.lookup(token) is not None


@lru_cache(maxsize=8)
def word_vectors(source: str = MINILM) -> WordVectors:
    """Return the word vectors of a sentence encoder, shared within this process."""
    return WordVectors(encoder_get(source))


@lru_cache(maxsize=1)
def _corpus_vocabulary() -> tuple[str, tuple[str, ...]]:
    """Return the everyday corpus's digest and sorted words, including clitics."""
    try:
        corpus = corpus_read(EVERYDAY)
    except CorpusError:
        return "", CLITICS
    words = set(CLITICS)
    for dialogue in corpus.dialogues:
        for turn in dialogue.turns:
            words.update(_WORD.findall(turn.lower().translate(_CURLY)))
    return corpus.digest, tuple(sorted(words))


@contextmanager
def _bar_on_terminals() -> Iterator[None]:
    """Show model2vec's progress bar only on a terminal."""
    from model2vec.distill import inference

    bar = inference.tqdm
    inference.tqdm = partial(bar, disable=None)  # None: tqdm checks for a terminal
    try:
        yield
    finally:
        inference.tqdm = bar


_CHUNK = 1_000_000  # block size of cosine matrices, so that turns of 10,000 words do not need a gigabyte


class StaticWordVectors(Protocol):
    """Protocol of static word vectors, distilled or read from a file."""

    def vectors(self, tokens: Sequence[str]) -> list[np.ndarray | None]:
        """Return the vector of each token; None if it has none."""
        ...


def average_vector(x: np.ndarray) -> np.ndarray:
    """Return the mean of the word vectors: (n, D) to (D,)."""
    return x.mean(axis=0)


def extrema_vector(x: np.ndarray) -> np.ndarray:
    """Return the value of largest magnitude per dimension: (n, D) to (D,)."""
    high, low = x.max(axis=0), x.min(axis=0)
    return np.where(np.abs(low) <= high, high, low)


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Scale the rows of (n, D) to length 1.

    Zero rows are dropped.
    """
    norms = np.linalg.norm(x, axis=1)
    return x[norms > 0] / norms[norms > 0, None]


def greedy_matching(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return G(X→Y) and G(Y→X).

    G averages each word's largest cosine with the words of the other text.

    Args:
        x: (n, D) rows of length 1, n > 0.
        y: (m, D) rows of length 1, m > 0.
    """
    step = max(1, _CHUNK // len(y))
    total = 0.0
    best_y = np.full(len(y), -np.inf)
    for start in range(0, len(x), step):
        block = x[start : start + step] @ y.T  # (step, m)
        total += float(block.max(axis=1).sum(dtype=float))
        np.maximum(best_y, block.max(axis=0), out=best_y)
    return total / len(x), float(best_y.mean(dtype=float))


@dataclass(frozen=True, slots=True)
class WordSimilarity:
    """The four measures of one pair of texts; NaN if undefined."""

    average: float
    extrema: float
    greedy: float
    greedy_ref: float


UNDEFINED_SIMILARITY = WordSimilarity(float("nan"), float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True, slots=True)
class TextWords:
    """Precomputed values of one text, used by all its pairs."""

    average: np.ndarray
    extrema: np.ndarray
    rows: np.ndarray

    @classmethod
    def from_vectors(cls, x: np.ndarray) -> TextWords | None:
        """Build a summary from a text's word vectors, (n, D).

        Returns None if all are zero.
        """
        rows = unit_rows(x)
        if not len(rows):
            return None
        return cls(_unit(average_vector(x)), _unit(extrema_vector(x)), rows)


def word_similarity(x: TextWords | None, y: TextWords | None) -> WordSimilarity:
    """Compute all four measures of two texts.

    `greedy` is symmetric, ½ (G(X→Y) + G(Y→X)). `greedy_ref` is G(X→Y), as in the released code: each word of the
    first text is matched with its best match in the second.
    """
    if x is None or y is None:
        return UNDEFINED_SIMILARITY
    forth, back = greedy_matching(x.rows, y.rows)
    values = (x.average @ y.average, x.extrema @ y.extrema, (forth + back) / 2, forth)
    return WordSimilarity(*(float(np.clip(value, -1.0, 1.0)) for value in values))


SIMILARITY_KINDS = ("average", "extrema", "greedy", "greedy_ref")
"""The measures, in the order of `WordSimilarity`."""


def pair_similarities(
    pairs: Sequence[tuple[str, str]], vectors: StaticWordVectors, tokenise: Callable[[str], Sequence[str]]
) -> np.ndarray:
    """Compute the four measures of K pairs of texts.

    Returns:
    (K, 4), in the order of `KINDS`; NaN if undefined.
    """
    texts = dict.fromkeys(text for pair in pairs for text in pair)
    tokens = {text: tokenise(text) for text in texts}
    vocabulary = list(dict.fromkeys(token for text_tokens in tokens.values() for token in text_tokens))
    # Look up each distinct token once; a text is then a selection of rows.
    token_vectors = vectors.vectors(vocabulary)
    row = {
        token: k for k, token in enumerate(t for t, v in zip(vocabulary, token_vectors, strict=True) if v is not None)
    }
    table = np.stack([v for v in token_vectors if v is not None]) if row else np.zeros((0, 1))
    words = {
        text: TextWords.from_vectors(table[[row[token] for token in tokens[text] if token in row]]) for text in texts
    }
    values = np.full((len(pairs), len(SIMILARITY_KINDS)), np.nan)
    for k, (first, second) in enumerate(pairs):
        values[k] = astuple(word_similarity(words[first], words[second]))
    return values


def _unit(vector: np.ndarray) -> np.ndarray:
    """Scale a vector to length 1; a zero vector becomes all NaN."""
    wide = vector.astype(float)
    norm = float(np.linalg.norm(wide))
    return wide / norm if norm > 0 else np.full(len(wide), np.nan)
