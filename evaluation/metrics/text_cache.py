"""Cache of the texts of a run, their tokens and content words.

Metrics of one run share it, so that nothing is computed twice for the same text.

Tokens are those of NLTK.

Content words, which the repetition measures count. Fact sheet section 1.6: tokens at white space without stopwords
(question words stay), punctuation and the endings of contractions. The list of stopwords is our own: the words of
English grammar.
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
"""Texts of one kind of input that are remembered; their sentence vectors take 300 MB."""


def blank(text: str) -> bool:
    """Return True if a text is only white space, which no metric could describe."""
    return not text.strip()


class TextCache:
    """Results about single texts, remembered as long as it lives. May be used from any thread.

    A metric asks `once` for whatever it makes of a text that another metric, or a later batch, may want too.

    Args:
        device: where the default sentence encoder computes ("cpu", "cuda", "cuda:1").
        store: keeps what encoders make of texts between runs; None: only this object does.
        most_texts: how many texts of one key are remembered; more make it begin again.
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
        """Return the result of each text, computing only those that are not known under this key.

        Args:
            key: of what is computed and all that decides it, as an identity's key.
            texts: or pairs of texts, or anything else that can be the key of a dictionary.
            compute: called with distinct new texts, at most once; gives a result for each, in their order.
            keep: the results are rows of float32 numbers that cost much: they go to the store, where
                there is one, and come from it. `key` must then be an identity's and `texts` strings.
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
        """The default sentence encoder, on this device; it loads at its first use."""
        from chatbots.encoders.sentence import sentence_encoder

        return sentence_encoder(self.device)

    def encode(self, texts: Sequence[str], encoder: SentenceEncoder | None = None) -> np.ndarray:
        """Return sentence vectors, (N, D) float32, each text encoded once.

        Args:
            encoder: None: the default one, whose rows have length 1.
        """
        encoder = encoder or self.encoder
        if not texts:
            return encoder.encode([])
        return np.stack(self.once(encoder.identity.key, texts, encoder.encode, keep=True))


TOKENIZER = f"NLTKWordTokenizer {metadata.version('nltk')}"
"""What a metric's identity says of them."""


def tokens(texts: Sequence[str], shared: TextCache) -> list[tuple[str, ...]]:
    """Return the word tokens of each text, case kept.

    `nltk.word_tokenize` splits sentences first, with data that must be downloaded; the tokenizer beneath it
    needs none. They differ only in a full stop before another sentence of the same text.
    """
    return shared.once("word tokens", texts, tokenised)


def lower_tokens(texts: Sequence[str], shared: TextCache) -> list[tuple[str, ...]]:
    """Return the word tokens of each text in lower case.

    NLTK's rules look at no capital, so the order of the two steps is no matter.
    """
    return shared.once("word tokens in lower case", texts, lambda new: _lowered(tokens(new, shared)))


def tokens_of(shared: TextCache) -> Callable[[str], tuple[str, ...]]:
    """Return the function from a text to its word tokens, case kept."""
    return lambda text: tokens([text], shared)[0]


def tokenised(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the word tokens of each text, case kept; nothing is remembered."""
    from nltk.tokenize import NLTKWordTokenizer

    tokenise = NLTKWordTokenizer().tokenize
    return (tuple(tokenise(text)) for text in texts)


def _lowered(token_lists: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    return (tuple(token.lower() for token in words) for words in token_lists)


QUESTION_WORDS = frozenset({"who", "what", "why", "where", "how", "when"})

UNKNOWN = frozenset({"<unk>", "<unknown>"})
"""How a bot shows a word it does not know."""

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
    """Return the content words of a text, in lower case, in order and with repeats."""
    words = []
    for token in text.lower().translate(_CURLY).split():
        if token not in UNKNOWN:
            token = _AROUND.sub("", _ENDING.sub("", token.rstrip(".,!?;:\"')…")))
        if token and token not in STOPWORDS:
            words.append(token)
    return words
