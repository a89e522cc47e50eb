"""The report as a page: written by the app that has the templates, requested by any front end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webapp.insights.report_document import Document

_writers: list[Callable[[Document], str]] = []


def register_report_page(write: Callable[[Document], str]) -> None:
    """Register the function that writes a report as one HTML file.

    Called once, by the app that has the templates.
    """
    _writers[:] = [write]


def report_page(document: Document) -> str:
    """Return the report as one HTML file that loads nothing.

    Raises:
        LookupError: no app has registered a page of reports.
    """
    if not _writers:
        raise LookupError("no installed app writes reports as pages; add webapp.dashboard to INSTALLED_APPS")
    return _writers[0](document)
