"""Languages of pages: the study's, else the one the browser requests.

A study can speak the languages that participants' pages have a catalogue of. Researchers' pages are in English.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

LANGUAGES: dict[str, str] = {
    "en" if code == settings.LANGUAGE_CODE else code: name for code, name in settings.LANGUAGES
}
"""Code of BCP 47 to the language's own name."""
if TYPE_CHECKING:
    Language = str
else:
    Language = Literal[tuple(LANGUAGES)]


def locale_of(language: str) -> str:
    """Return the locale that Django activates for a language: `en-gb` for `en`, as texts are in British English."""
    return get_supported_language_variant(language)


_RESEARCHERS = ("/dashboard/", "/admin/", "/login/", "/logout/", "/hooks/")
"""Pages at these addresses speak English."""


@contextmanager
def activate_language(request: HttpRequest, locale: str) -> Iterator[None]:
    """Make what is written inside speak this language, and the error page of the request, too, if one follows."""
    request.locale = locale  # type: ignore[attr-defined]
    with translation.override(locale):
        yield


def locale_for(request: HttpRequest) -> str:
    """Return the language that pages of this request have spoken so far; without one, what the browser asks for."""
    page_locale: str | None = getattr(request, "locale", None)
    accepted = request.headers.get("Accept-Language", "")
    return page_locale or requested_locale(request.path_info, accepted)


def requested_locale(path: str, accepted: str) -> str:
    """Return the language for a page of no study: researchers' English, else the first of these that pages have.

    Args:
        accepted: the header Accept-Language.
    """
    if path.startswith(_RESEARCHERS):
        return settings.LANGUAGE_CODE
    for code, _weight in parse_accept_lang_header(accepted.lower()[:500]):
        try:
            return translation.get_supported_language_variant(code)
        except LookupError:  # also of "*"
            continue
    return settings.LANGUAGE_CODE


def plural(n: float, singular: str, plural_form: str) -> str:
    """Return `singular` if n is 1, else `plural_form`: the plural of English, which researchers' pages are in."""
    return singular if n == 1 else plural_form
