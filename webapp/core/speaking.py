"""In which language a page speaks: that of its study. What a browser would like to read changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation


@contextmanager
def speaking(request: HttpRequest, locale: str) -> Iterator[None]:
    """Make what is written inside speak this language, and the error page of the request, too, if one follows."""
    request.locale = locale  # type: ignore[attr-defined]
    with translation.override(locale):
        yield


def locale_for(request: HttpRequest) -> str:
    """Return the language that pages of this request have spoken so far; that of researchers' pages without one."""
    return getattr(request, "locale", settings.LANGUAGE_CODE)
