"""The languages in which a study can speak to its participants: those that pages have a catalogue of."""

from __future__ import annotations

from typing import Literal

from django.utils.translation import get_supported_language_variant

Language = Literal["en", "de", "ar"]
"""A code of BCP 47."""
LANGUAGES: dict[str, str] = {"en": "English", "de": "Deutsch", "ar": "العربية"}
"""What each is called by those who speak it. `settings.LANGUAGES` has the same ones."""


def locale_of(language: str) -> str:
    """Return the locale that Django activates for a language: `en-gb` for `en`, as texts are in British English."""
    return get_supported_language_variant(language)
