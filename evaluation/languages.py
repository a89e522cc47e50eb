"""In which language a conversation is: metrics that read words hold for some languages only.

py3langid (Lui and Baldwin 2012, "langid.py", ACL; Barbaresi's fork) tells 139 languages by short sequences of
bytes. It errs on single short turns, so a conversation is told as a whole, and only where it is sure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from evaluation.findings import Reason

MIN_LETTERS = 60
"""In less text than this languages are not distinguished."""
MAX_CHARACTERS = 1000
"""As much of a conversation as is read."""
MIN_PROBABILITY = 0.9


def language_of(texts: Sequence[str]) -> str | None:
    """Return the code (ISO 639-1) of the language the turns are in; None where it cannot be determined."""
    text = "\n".join(texts)[:MAX_CHARACTERS]
    if sum(character.isalpha() for character in text) < MIN_LETTERS:
        return None
    code, probability = _identifier().classify(text)
    return str(code) if probability >= MIN_PROBABILITY else None


def languages_of_sets(replies: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """Return the language that most replies of each data set are in; without those where it cannot be determined.

    Args:
        replies: (data set, what was said before and the reply).
    """
    counts_by_source: dict[str, Counter[str]] = {}
    for source, texts in replies:
        if language := language_of(texts):
            counts_by_source.setdefault(source, Counter())[language] += 1
    return {source: counts.most_common(1)[0][0] for source, counts in counts_by_source.items()}


def holds_for(languages: Sequence[str] | None, language: str) -> bool:
    """Return True if a metric is valid for a language.

    Args:
        languages: of the metric (`MetricDefaults.languages`): empty or None stands for any.
        language: a code of ISO 639-1, or of BCP 47 with more behind it.
    """
    return not languages or language.partition("-")[0] in languages


def other_language(language: str, languages: Sequence[str]) -> Reason:
    """Return the reason why a metric was not computed for a conversation in another language.

    Args:
        language: of the conversation.
        languages: that the metric is valid for.
    """
    holds = list(languages)
    text = f"the conversation is in {language}; the metric holds for {', '.join(holds)} only"
    return Reason("other_language", text, language=language, holds=holds)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Return the identifier, which takes about a second to load and 120 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
