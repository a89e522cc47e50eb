"""Keys for addresses and files, derived from names."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from itertools import count

from django.utils.text import slugify

# Letters that lose their sound where only their marks are removed.
_SPELLED_OUT = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "oe",
        "å": "aa",
        "ı": "i",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ł": "l",
    }
)


def lower_ascii(name: str) -> str:
    """Return the name in lower-case ASCII: umlauts spelled out, other marks and letters removed."""
    plain = unicodedata.normalize("NFKC", name).lower().translate(_SPELLED_OUT)
    return unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()


def key_from_name(name: str, longest: int) -> str:
    """Return a key of lower-case letters, digits, hyphens and underscores; empty if the name has no such letter."""
    return slugify(lower_ascii(name))[:longest].strip("-_")


def first_free_key(key: str, taken: Collection[str]) -> str:
    """Return the key, with the lowest number that is not taken if it is itself."""
    return key if key not in taken else next(free for n in count(2) if (free := f"{key}-{n}") not in taken)
