"""In which language a conversation is: metrics that read words hold for some languages only.

py3langid (Lui and Baldwin 2012, "langid.py", ACL; Barbaresi's fork) tells 139 languages by short sequences of
bytes. It errs on single short turns, so a conversation is told as a whole, and only where it is sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

MIN_LETTERS = 60
"""In less text than this languages are not told apart."""
MAX_CHARACTERS = 1000
"""As much of a conversation as is read."""
MIN_PROBABILITY = 0.9


def language_of(texts: Sequence[str]) -> str | None:
    """Return the code (ISO 639-1) of the language the turns are in; None where it cannot be told."""
    text = "\n".join(texts)[:MAX_CHARACTERS]
    if sum(character.isalpha() for character in text) < MIN_LETTERS:
        return None
    code, probability = _identifier().classify(text)
    return str(code) if probability >= MIN_PROBABILITY else None


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Return the identifier, which takes about a second to load and 120 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
