"""Prefix cache of keys and values between the turns of a conversation.

A language model reads its whole context at every turn, although it read nearly all of it a turn ago. The keys and
values of a reply's context are stored here, and the next prompt continues after the common prefix. Prefixes are found
by comparing tokens. So a conversation that was cut, edited or continued elsewhere is recomputed from the first
difference, and conversations with the same system prompt share it.

All bots of a process share one cache (`PREFIX_CACHE`) with a limit in bytes; the least recently used rows are removed
first. Bots do not depend on it: missing prefixes are recomputed. `EagerPrefill` fills it while no request waits.
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
    """Keys and values of a sequence of tokens.

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
        """Return the length of the common prefix."""
        import numpy as np  # imported late, because bot hosts import this module at startup

        n = min(len(tokens), len(self.tokens))
        differing = np.flatnonzero(self.tokens[:n] != tokens[:n])
        return int(differing[0]) if len(differing) else n


@dataclass(frozen=True)
class CachedPrefix:
    """Cached beginning of a prompt: the first `n_tokens` tokens of `row`."""

    row: CachedRow
    n_tokens: int


class PrefixCache:
    """Thread-safe cache of rows by owner and place, shared by all models.

    Args:
        limit_bytes: maximum size; 0 for no caching.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rows: OrderedDict[tuple[int, Hashable], CachedRow] = OrderedDict()
        # Re-entrant, because garbage collection of an owner drops its rows, possibly while the lock is held.
        self._lock = threading.RLock()
        self._numbers = itertools.count()

    @property
    def limit_bytes(self) -> int:
        """Maximum size in bytes."""
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"limit_bytes is {limit}; it must be 0 or more")
        with self._lock:
            self._limit_bytes = limit
            self._shrink()

    def owner(self) -> int:
        """Return a new owner number; an owner sees only its own rows."""
        return next(self._numbers)

    def n_bytes(self, owner: int | None = None) -> int:
        """Return the bytes used by an owner, or by all."""
        with self._lock:
            return sum(row.n_bytes for (whose, _), row in self._rows.items() if owner in (None, whose))

    def put(self, owner: int, place: Hashable, row: CachedRow) -> None:
        """Store or replace a row, unless it alone exceeds the limit."""
        with self._lock:
            self._rows.pop((owner, place), None)
            if row.n_bytes <= self._limit_bytes:
                self._rows[owner, place] = row
                self._shrink()

    def longest(self, owner: int, tokens: Sequence[int]) -> CachedPrefix | None:
        """Return the longest cached prefix of a prompt, excluding its last token."""
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
"""The cache of this process."""
