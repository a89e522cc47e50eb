"""Prefix cache: keys and values kept from turn to turn of a conversation.

A language model reads its whole context at every turn, and nearly all of that context it read a turn ago. What
it computed of those tokens is kept here after a reply, and the next prompt goes on behind the tokens that both
have in common. That is found by comparing tokens, so a conversation that was cut, edited or continued elsewhere
is read again from where it differs, and conversations that begin with the same system prompt share it.

One store for all bots of a process (`PREFIX_CACHE`), with a limit in bytes; the least recently used row goes first.
Bots do not depend on it: whatever is missing is read again. `EagerPrefill` adds to it while no request waits.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

DEFAULT_LIMIT_BYTES = 512_000_000


@dataclass(frozen=True, eq=False)
class CachedRow:
    """Keys and values that a model has computed of some tokens.

    Attributes:
        tokens: (L,), the ids that were read.
        layers: keys and values of each layer, (H, L, D); never changed in place.
    """

    tokens: np.ndarray
    layers: tuple[tuple[Tensor, Tensor], ...]
    n_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        sizes = (t.numel() * t.element_size() for pair in self.layers for t in pair)
        object.__setattr__(self, "n_bytes", sum(sizes) + self.tokens.nbytes)

    def n_shared(self, tokens: np.ndarray) -> int:
        """Count the tokens that both begin with."""
        import numpy as np  # a bot host imports this module before it needs any of it

        n = min(len(tokens), len(self.tokens))
        differing = np.flatnonzero(self.tokens[:n] != tokens[:n])
        return int(differing[0]) if len(differing) else n


@dataclass(frozen=True)
class CachedPrefix:
    """The beginning of a prompt that need not be read again: the first `n_tokens` of `row`."""

    row: CachedRow
    n_tokens: int


class PrefixCache:
    """Rows of all models of a process by owner and place. May be used from several threads.

    Args:
        limit_bytes: the most that is kept; 0: nothing.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rows: OrderedDict[tuple[int, Hashable], CachedRow] = OrderedDict()
        # Re-entrant: the owner of rows may be collected, which drops them, while the lock is held.
        self._lock = threading.RLock()
        self._numbers = itertools.count()

    @property
    def limit_bytes(self) -> int:
        """The most that is kept."""
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"limit_bytes is {limit}; it must be 0 or more")
        with self._lock:
            self._limit_bytes = limit
            self._shrink()

    def owner(self) -> int:
        """Return a number for one loaded model; only its own rows will be found for it."""
        return next(self._numbers)

    def n_bytes(self, owner: int | None = None) -> int:
        """Count the bytes kept for an owner, or for all."""
        with self._lock:
            return sum(row.n_bytes for (whose, _), row in self._rows.items() if owner in (None, whose))

    def put(self, owner: int, place: Hashable, row: CachedRow) -> None:
        """Keep a row in the place of the one that is there, unless it alone is larger than the limit."""
        with self._lock:
            self._rows.pop((owner, place), None)
            if row.n_bytes <= self._limit_bytes:
                self._rows[owner, place] = row
                self._shrink()

    def longest(self, owner: int, tokens: Sequence[int]) -> CachedPrefix | None:
        """Return the longest known beginning of a prompt; its last token is always left to be read."""
        import numpy as np

        sought = np.asarray(tokens[:-1], dtype=np.int32)
        with self._lock:
            best, n_best = None, 0
            for key, row in self._rows.items():
                if key[0] == owner and (n := row.n_shared(sought)) > n_best:
                    best, n_best = key, n
            if best is None:
                return None
            self._rows.move_to_end(best)
            return CachedPrefix(self._rows[best], n_best)

    def drop(self, owner: int) -> None:
        """Forget all rows of an owner."""
        with self._lock:
            for key in [key for key in self._rows if key[0] == owner]:
                del self._rows[key]

    def _shrink(self) -> None:
        total = sum(row.n_bytes for row in self._rows.values())
        while total > self._limit_bytes:
            _, row = self._rows.popitem(last=False)
            total -= row.n_bytes


PREFIX_CACHE = PrefixCache()
"""That of this process."""
