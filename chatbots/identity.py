"""Identity of a bot, metric, protocol or fit: name, version and parameters, and a key made of them.

Every number Confab shows points at identities, so that it is known years later what made it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def canonical_json(value: Any) -> str:
    """Write JSON with sorted keys and no blanks, so that equal values give equal text. NaN is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """Name, version and parameters. Raise `version` whenever an output could change.

    `params` must be JSON-serialisable and hold everything that decides the output: checkpoint digest,
    decoding settings, encoder. Secrets never belong here.
    """

    name: str
    version: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """16 hexadecimal digits: a SHA-256 digest of the canonical JSON of all three fields."""
        text = canonical_json(self.as_dict())
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        """Return the three fields as plain JSON values."""
        return {"name": self.name, "version": self.version, "params": dict(self.params)}

    def __hash__(self) -> int:
        return hash(self.key)


def derive_seed(seed: int, *path: str | int) -> int:
    """Derive an independent seed (0 … 2^63 − 1) from a seed and a path of labels.

    The same arguments always give the same seed, on every machine and in every batch.
    """
    text = canonical_json([seed, *path])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
