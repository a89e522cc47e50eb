"""A filter of the study's own phrases."""

from __future__ import annotations

import hashlib

from django.utils.translation import gettext as _

from chatbots import Identity
from webapp.studies.reply_filters.base import Asked, Found, distinct, register_filter
from webapp.studies.reply_filters.matching import any_of
from webapp.studies.values import StudyValues


@register_filter
class Phrases:
    """Finds the phrases that the study lists, literally."""

    name = "phrases"
    title = "Your phrases"
    description = "Finds the words and phrases that you list below."

    def identity(self, values: StudyValues) -> Identity:
        """Return its name with a digest of the phrases: versions of the study hold the phrases themselves."""
        said = "\n".join(sorted(values.filtering.filter_phrases))
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        return Identity(self.name, "1", {"phrases": digest})

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Say that no phrase is listed, if none is."""
        if values.filtering.filter_phrases:
            return None
        return _("no phrase is listed; write one a line, or switch the filter off")

    def find(self, text: str, asked: Asked) -> Found | None:
        """Return the listed phrases that stand in the reply."""
        pattern = any_of(asked.values.filtering.filter_phrases)
        words = distinct(pattern.findall(text)) if pattern else ()
        return Found(_("It says what your list has."), words) if words else None
