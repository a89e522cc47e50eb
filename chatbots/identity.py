"""Identity of a bot, metric, protocol or fit: name, version, params and a key.

Every number in Confab refers to identities, so that its origin is known years later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces; equal values give equal text.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """Name, version and parameters. Raise `version` when an output could change.

    `params` must be JSON-serialisable and contain everything that affects the output: checkpoint digest, decoding
    settings, encoder. It must not contain secrets.
    """

    name: str
    version: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of all three fields' canonical JSON."""
        text = canonical_json(self.as_dict())
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        """Return the three fields as JSON values."""
        return {"name": self.name, "version": self.version, "params": dict(self.params)}

    def __hash__(self) -> int:
        return hash(self.key)


def derive_seed(seed: int, *path: str | int) -> int:
    """Derive an independent seed, 0 … 2^63 − 1, from a seed and labels.

    Equal arguments give equal seeds on every machine and in every batch.
    """
    text = canonical_json([seed, *path])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
