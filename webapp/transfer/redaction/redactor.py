"""Application of redaction decisions to exported values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.utils.crypto import salted_hmac

from webapp.studies.models import Study
from webapp.transfer.models import RedactionHit, RedactionReview
from webapp.transfer.redaction.rules import Hit, Rules

_KEEP = RedactionHit.Decision.KEEP
_ID_KEYS = frozenset({"rater", "code", "codes", "model", "speaker", "conversation", "id", "key", "bot"})
"""Keys of exported JSON whose values are Confab's own ids and names."""


def text_digest(study: Study, text: str) -> str:
    """Return a text's digest, keyed with the server's secret and the study."""
    return salted_hmac("confab.redaction.text", f"{study.pk}\n{text}", algorithm="sha256").hexdigest()[:32]


def value_digest(study: Study, kind: str, value: str) -> str:
    """Return the digest of a normalised value."""
    return salted_hmac("confab.redaction.value", f"{study.pk}\n{kind}\n{value}", algorithm="sha256").hexdigest()[:32]


def strings_in(value: Any) -> Iterator[str]:
    """Yield the texts within a JSON value, without keys and ids."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            if key not in _ID_KEYS:
                yield from strings_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings_in(part)


def rules_of(study: Study, review: RedactionReview | None) -> Rules:
    """Return the rules for a study's texts; an imported study has no known language."""
    names = review.names.splitlines() if review is not None else ()
    return Rules(names, "" if study.is_imported else study.values.texts.language)


class Redactor:
    """Replaces personal data in a study's texts.

    Texts are searched again, so that a text that is new or has changed since the review is redacted, too. A hit that
    nobody decided about is replaced. All decisions are kept in memory, about 300 bytes each.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        review = RedactionReview.objects.filter(study=study).first()
        self._rules = rules_of(study, review)
        self._hits: dict[str, dict[tuple[int, int], RedactionHit]] = defaultdict(dict)
        self._numbers: dict[str, int] = {}
        self._kept_values: dict[str, bool] = {}
        for hit in RedactionHit.objects.filter(study=study).iterator(chunk_size=2000):
            span = (hit.start, hit.end)
            earlier = self._hits[hit.text_digest].get(span)
            if earlier is None or earlier.decision == _KEEP:  # of equal texts, one replacement counts for all
                self._hits[hit.text_digest][span] = hit
            self._numbers[hit.value_digest] = hit.number
            is_kept = hit.decision == _KEEP
            self._kept_values[hit.value_digest] = self._kept_values.get(hit.value_digest, True) and is_kept

    def redact_text(self, text: str) -> str:
        """Return the text with placeholders."""
        stored = self._hits.get(text_digest(self.study, text), {}) if self._hits else {}
        spans = {span: (hit.placeholder, hit.decision == _KEEP) for span, hit in stored.items()}
        for hit in self._rules.find_hits(text):
            if not any(hit.start < end and start < hit.end for start, end in spans):
                spans[hit.start, hit.end] = self._decide(hit)
        parts, position = [], 0
        for (start, end), (placeholder, is_kept) in sorted(spans.items()):
            if not is_kept and start >= position:
                parts += [text[position:start], placeholder]
                position = end
        return "".join([*parts, text[position:]])

    def redact_value(self, value: Any) -> Any:
        """Return a JSON value with redacted texts."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {key: part if key in _ID_KEYS else self.redact_value(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(part) for part in value]
        return value

    def _decide(self, hit: Hit) -> tuple[str, bool]:
        """Return placeholder and decision of a hit in a text that was not reviewed: those of its value."""
        digest = value_digest(self.study, hit.kind, hit.value)
        number = self._numbers.get(digest)
        placeholder = f"[{hit.kind.upper()}_{number}]" if number else f"[{hit.kind.upper()}]"
        return placeholder, self._kept_values.get(digest, False)
