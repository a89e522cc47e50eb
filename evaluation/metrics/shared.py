"""Cache that the metrics of one run share, so that nothing is computed twice for the same text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from chatbots.encoders.sentence import SentenceEncoder
    from chatbots.encoders.text_store import TextStore

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")

BLANK = "the text is blank"
MOST_TEXTS = 200_000
"""Texts of one kind of input that are remembered; their sentence vectors take 300 MB."""


def blank(text: str) -> bool:
    """Return True if a text is only white space, which no metric could describe."""
    return not text.strip()


class Shared:
    """Results about single texts, remembered as long as it lives. May be used from any thread.

    A metric asks `once` for whatever it makes of a text that another metric, or a later batch, may want too.

    Args:
        device: where the default sentence encoder computes ("cpu", "cuda", "cuda:1").
        store: keeps what encoders make of texts between runs; None: only this object does.
        most_texts: how many texts of one key are remembered; more make it begin again.
    """

    def __init__(
        self, device: str = "cpu", *, store: TextStore | None = None, most_texts: int = MOST_TEXTS
    ) -> None:
        self.device = device
        self._store = store
        self._most_texts = most_texts
        self._known: dict[str, dict[Any, Any]] = {}
        self._lock = threading.RLock()

    def once(
        self,
        key: str,
        texts: Sequence[T],
        compute: Callable[[list[T]], Iterable[R]],
        *,
        keep: bool = False,
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
                made = dict(zip(new, compute(new), strict=True))
                known.update(made)
                if store is not None:
                    store.put(key, made)  # type: ignore[arg-type]
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
