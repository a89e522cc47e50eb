"""Cache of a run's texts with their tokens and content words.

Metrics of one run share it, so that nothing is computed twice for the same text.

NLTK provides the tokens.

Content words serve the repetition measures. Fact sheet section 1.6: tokens at white space without stopwords (question
words stay), punctuation and the endings of contractions. The stopwords are Confab's own list of English function words.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from chatbots.encoders.cache import TextStore
    from chatbots.encoders.sentence import SentenceEncoder

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")

BLANK = "the text is blank"
MOST_TEXTS = 200_000
"""Maximum number of cached texts per kind of input; their sentence vectors take 300 MB."""


def blank(text: str) -> bool:
    """Return True for a text without any visible character."""
    return not text.strip()


class TextCache:
    """Cache of results about single texts. Thread-safe.

    Metrics call `once` for results that another metric or a later batch may need.

    Args:
        device: device of the default sentence encoder ("cpu", "cuda", "cuda:1").
        store: keeps encoder results between runs; None to keep them in memory only.
        most_texts: number of cached texts per key; beyond it the cache is cleared.
    """

    def __init__(self, device: str = "cpu", *, store: TextStore | None = None, most_texts: int = MOST_TEXTS) -> None:
        self.device = device
        self._store = store
        self._most_texts = most_texts
        self._known: dict[str, dict[Any, Any]] = {}
        self._lock = threading.RLock()

    def once(
        self, key: str, texts: Sequence[T], compute: Callable[[list[T]], Iterable[R]], *, keep: bool = False
    ) -> list[R]:
        """Return the result of each text, computing only uncached ones.

        Args:
            key: identity of the computation, such as an identity's key.
            texts: texts, pairs of texts, or anything else hashable.
            compute: called at most once, with distinct new texts; returns one result each, in order.
            keep: True if the results are rows of float32 that are expensive to compute; they are then read from and
                written to the store, if there is one. `key` must then be an identity's key, and `texts` strings.
        """
        store = self._store if keep else None
        with self._lock:
            known = self._known.setdefault(key, {})
            new = [text for text in dict.fromkeys(texts) if text not in known]
            if len(known) + len(new) > self._most_texts:
                known.clear()
                new = list(dict.fromkeys(texts))
            if store is not None:
                known.update(store.get(key, new))  # type: ignore[arg-type]
                new = [text for text in new if text not in known]
            if new:
                computed = dict(zip(new, compute(new), strict=True))
                known.update(computed)
                if store is not None:
                    store.put(key, computed)  # type: ignore[arg-type]
            return [known[text] for text in texts]

    @property
    def encoder(self) -> SentenceEncoder:
        """The default sentence encoder on this device, loaded on first use."""
        from chatbots.encoders.sentence import sentence_encoder

        return sentence_encoder(self.device)

    def encode(self, texts: Sequence[str], encoder: SentenceEncoder | None = None) -> np.ndarray:
        """Return sentence vectors, (N, D) float32, encoding each distinct text once.

        Args:
            encoder: None for the default one, whose rows have length 1.
        """
        encoder = encoder or self.encoder
        if not texts:
            return encoder.encode([])
        return np.stack(self.once(encoder.identity.key, texts, encoder.encode, keep=True))


TOKENIZER = f"NLTKWordTokenizer {metadata.version('nltk')}"
"""Description of the word tokens in a metric's identity."""


def tokens(texts: Sequence[str], shared: TextCache) -> list[tuple[str, ...]]:
    """Return the word tokens of each text, case kept.

    `nltk.word_tokenize` splits sentences first, with data that must be downloaded; the underlying tokenizer needs none.
    The results differ only at a full stop that another sentence of the text follows.
    """
    return shared.once("word tokens", texts, tokenised)


def lower_tokens(texts: Sequence[str], shared: TextCache) -> list[tuple[str, ...]]:
    """Return the word tokens of each text in lower case.

    NLTK's rules ignore capitals, so the order of the two steps does not matter.
    """
    return shared.once("word tokens in lower case", texts, lambda new: _lowered(tokens(new, shared)))


def tokens_of(shared: TextCache) -> Callable[[str], tuple[str, ...]]:
    """Return the function from a text to its word tokens, case kept."""
    return lambda text: tokens([text], shared)[0]


def tokenised(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the word tokens of each text, case-sensitive, without caching."""
    from nltk.tokenize import NLTKWordTokenizer

    tokenise = NLTKWordTokenizer().tokenize
    return (tuple(tokenise(text)) for text in texts)


def _lowered(token_lists: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    return (tuple(token.lower() for token in words) for words in token_lists)


QUESTION_WORDS = frozenset({"who", "what", "why", "where", "how", "when"})

UNKNOWN = frozenset({"<unk>", "<unknown>"})
"""Text that bots show for an unknown word."""

_STOPWORDS = """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    am is are was were be been being do does did doing done have has had having
    can could will would shall should may might must ought ca wo sha ai
    and or but nor so if then than because while although though unless until whether as
    of at by for with about against between into through during before after above below to from up down in
    out on off over under again once upon onto
    which whom whose there here all any both each few more most other some such no not only own same too very
    just also
"""
STOPWORDS = frozenset(_STOPWORDS.split())

_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_ENDING = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m|t))$")
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def content_words(text: str) -> list[str]:
    """Return the lower-case content words of a text, in order.

    Repeats are kept.
    """
    words = []
    for token in text.lower().translate(_CURLY).split():
        if token not in UNKNOWN:
            token = _AROUND.sub("", _ENDING.sub("", token.rstrip(".,!?;:\"')…")))
        if token and token not in STOPWORDS:
            words.append(token)
    return words
