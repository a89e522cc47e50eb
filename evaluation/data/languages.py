"""Language identification of conversations, for metrics that support only some languages.

py3langid (Lui and Baldwin 2012, "langid.py", ACL; Barbaresi's fork) identifies 139 languages from short byte sequences.
It is unreliable for single short turns, so a conversation is classified as a whole, and only if the result is certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from evaluation.findings import Reason

MIN_LETTERS = 60
"""Minimum length of text for identifying its language."""
MAX_CHARACTERS = 1000
"""Maximum length of text read from a conversation."""
MIN_PROBABILITY = 0.9


def language_of(texts: Sequence[str]) -> str | None:
    """Return the ISO 639-1 code of the turns' language, or None.

    None if uncertain.
    """
    text = "\n".join(texts)[:MAX_CHARACTERS]
    if sum(character.isalpha() for character in text) < MIN_LETTERS:
        return None
    code, probability = _identifier().classify(text)
    return str(code) if probability >= MIN_PROBABILITY else None


def languages_of_sets(replies: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """Return the most frequent reply language of each data set.

    Sets without a certain language are omitted.

    Args:
        replies: (data set, context and reply).
    """
    counts_by_source: dict[str, Counter[str]] = {}
    for source, texts in replies:
        if language := language_of(texts):
            counts_by_source.setdefault(source, Counter())[language] += 1
    return {source: counts.most_common(1)[0][0] for source, counts in counts_by_source.items()}


def holds_for(languages: Sequence[str] | None, language: str) -> bool:
    """Return True if a metric supports a language.

    Args:
        languages: languages of the metric (`MetricDefaults.languages`); empty or None for any.
        language: code of ISO 639-1, or a longer one of BCP 47.
    """
    return not languages or language.partition("-")[0] in languages


def other_language(language: str, languages: Sequence[str]) -> Reason:
    """Return the reason for skipping a conversation in another language.

    Args:
        language: language of the conversation.
        languages: languages that the metric supports.
    """
    holds = list(languages)
    text = f"the conversation is in {language}; the metric supports only {', '.join(holds)}"
    return Reason("other_language", text, language=language, holds=holds)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Return the identifier; loading takes about a second and 120 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
