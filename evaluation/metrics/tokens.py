"""Word tokens as NLTK splits them, each text once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import metadata

from evaluation.metrics.shared import Shared

TOKENIZER = f"NLTKWordTokenizer {metadata.version('nltk')}"
"""What a metric's identity says of them."""


def tokens(texts: Sequence[str], shared: Shared) -> list[tuple[str, ...]]:
    """Return the word tokens of each text, case kept.

    `nltk.word_tokenize` splits sentences first, with data that must be downloaded; the tokenizer beneath it
    needs none. They differ only in a full stop before another sentence of the same text.
    """
    return shared.once("word tokens", texts, tokenised)


def lower_tokens(texts: Sequence[str], shared: Shared) -> list[tuple[str, ...]]:
    """Return the word tokens of each text in lower case.

    NLTK's rules look at no capital, so the order of the two steps is no matter.
    """
    return shared.once(
        "word tokens in lower case", texts, lambda new: _lowered(tokens(new, shared))
    )


def tokens_of(shared: Shared) -> Callable[[str], tuple[str, ...]]:
    """Return the function from a text to its word tokens, case kept."""
    return lambda text: tokens([text], shared)[0]


def tokenised(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the word tokens of each text, case kept; nothing is remembered."""
    from nltk.tokenize import NLTKWordTokenizer

    tokenise = NLTKWordTokenizer().tokenize
    return (tuple(tokenise(text)) for text in texts)


def _lowered(found: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    return (tuple(token.lower() for token in words) for words in found)
