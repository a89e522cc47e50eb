"""Languages of pages: the study's, else the browser's.

A study can use every language that participants' pages are translated into. Researchers' pages are in English.
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
"""Languages' own names by BCP 47 code."""
if TYPE_CHECKING:
    Language = str
else:
    Language = Literal[tuple(LANGUAGES)]


def locale_of(language: str) -> str:
    """Return the locale that Django activates for a language.

    It is `en-gb` for `en`, as texts are in British English.
    """
    return get_supported_language_variant(language)


_RESEARCHERS = ("/dashboard/", "/admin/", "/login/", "/logout/", "/hooks/")
"""Addresses of pages in English."""


@contextmanager
def activate_language(request: HttpRequest, locale: str) -> Iterator[None]:
    """Use this language within the block.

    A following error page of the request uses it, too.
    """
    request.locale = locale  # type: ignore[attr-defined]
    with translation.override(locale):
        yield


def locale_for(request: HttpRequest) -> str:
    """Return the language of this request's pages so far.

    If there is none, the one that the browser requests.
    """
    page_locale: str | None = getattr(request, "locale", None)
    accepted = request.headers.get("Accept-Language", "")
    return page_locale or requested_locale(request.path_info, accepted)


def requested_locale(path: str, accepted: str) -> str:
    """Return the language of a page without a study.

    English for researchers, else the first accepted language that pages have.

    Args:
        accepted: value of the header Accept-Language.
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
    """Return `singular` if n is 1, else `plural_form`.

    These are the plurals of English, the language of researchers' pages.
    """
    return singular if n == 1 else plural_form
