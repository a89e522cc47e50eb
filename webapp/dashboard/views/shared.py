"""A report that was shared by a link, for people without an account."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.dashboard.reporting.document import Document, document_load
from webapp.dashboard.reporting.pages import body_html
from webapp.transfer.sharing import share_document, share_find, share_is_over

_PRIVATE = {
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    # The address is the key, so it goes to no other site and stays in no cache.
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


@require_safe
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """Show the report as it was when it was shared; 404 for no such link, 410 for one that has ended."""
    share = share_find(token)
    if share is None:
        return _closed(request, "Check the link you were given: perhaps a part of it is missing.")
    if why := share_is_over(share):
        return _closed(request, why, status=410)
    document = _document(share.digest)
    if document is None:
        return _closed(
            request, "It was made by an earlier Confab, which this one cannot read.", status=410
        )
    context = {"name": document.name, "body": body_html(document, (), 1), "share": share}
    return _answer(request, "shared_report.html", context, 200)


@lru_cache(maxsize=4)
def _document(digest: str) -> Document | None:
    """Return the document of a link, which never changes; None if it cannot be read."""
    try:
        return document_load(share_document(digest))
    except ValueError:
        return None


def _closed(request: HttpRequest, why: str, status: int = 404) -> HttpResponse:
    return _answer(request, "shared_closed.html", {"why": why}, status)


def _answer(
    request: HttpRequest, template: str, context: dict[str, Any], status: int
) -> HttpResponse:
    answer = render(request, f"dashboard/{template}", context, status=status)
    for name, value in _PRIVATE.items():
        answer[name] = value
    return answer
