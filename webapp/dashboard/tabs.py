"""The five tabs of a study, and the pages under each of them that a person may open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from webapp.core.rights import Right, may
from webapp.ratings.pairs import compares_pairs, rates_conversations
from webapp.studies.models import Study
from webapp.studies.selectors import chooses_things


@dataclass(frozen=True, slots=True)
class StudyPage:
    """A page of a study: its name, its address and the rights that it needs beside reading."""

    name: str
    title: Any
    route: str
    rights: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab and its pages, the first of which it opens."""

    title: Any
    pages: tuple[StudyPage, ...]


TABS = (
    Tab(
        "Overview",
        (StudyPage("overview", "Overview", "study"),),
    ),
    Tab(
        "Collect",
        (
            StudyPage("live", "Live room", "study_live"),
            StudyPage("pay", "Pay", "study_pay", (Right.PAY,)),
            StudyPage("places", "Places", "study_places"),
            StudyPage("quality", "Quality", "study_quality"),
            StudyPage("reports", "Reports", "study_reports"),
            StudyPage("links", "One-time links", "study_links", (Right.ADMINISTER,)),
        ),
    ),
    Tab(
        "Read",
        (
            StudyPage("conversations", "Conversations", "study_conversations"),
            StudyPage("notes", "Tags and notes", "study_notes"),
        ),
    ),
    Tab(
        "Results",
        (
            StudyPage("compare", "Compare bots", "study_compare"),
            StudyPage("bots", "Bots", "study_bots"),
            StudyPage("agreement", "Agreement", "study_agreement"),
            StudyPage("statistics", "Statistics", "study_statistics"),
            StudyPage("pairs", "Pairs", "study_pairs"),
            StudyPage("metrics", "Metrics", "study_metrics"),
            StudyPage("hybrid", "Hybrid metric", "study_hybrid"),
            StudyPage("fits", "Compare fits", "study_fits"),
            StudyPage("selfplay", "Self-play", "study_selfplay"),
        ),
    ),
    Tab(
        "Share",
        (
            StudyPage("export", "Export", "study_export"),
            StudyPage("package", "Data package", "study_package", (Right.PAY,)),
            StudyPage("datasheet", "Datasheet", "study_datasheet"),
            StudyPage("report", "Report", "study_report"),
        ),
    ),
)
COLLECT, RESULTS = TABS[1], TABS[3]
_OF_FITS = ("hybrid", "fits")
"""Pages that need ratings of whole conversations."""
_OF_CHOICES = ("statistics", "agreement")
"""Results of a study in which people choose things; it has no bots to compare."""


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of a navigation; `is_open` where the page shown is it or stands under it."""

    title: Any
    href: str
    is_open: bool


def pages_open_to(user: Any, tab: Tab, study: Study) -> list[StudyPage]:
    """Return the tab's pages that this user may open and the study can fill, its own results first."""
    pages = [page for page in tab.pages if may(user, *page.rights)]
    if tab is COLLECT and study.is_imported:  # nobody comes there
        return []
    if tab is RESULTS and chooses_things(study):
        by_name = {page.name: page for page in pages}
        return [by_name[name] for name in _OF_CHOICES if name in by_name]
    if tab is RESULTS and not rates_conversations(study):
        pages = [page for page in pages if page.name not in _OF_FITS]
    if tab is RESULTS and compares_pairs(study):
        pages.sort(key=lambda page: page.name != "pairs")
    return pages


def tab_links(
    user: Any, study: Study, name: str, suffix: str = ""
) -> tuple[list[Link], list[Link]]:
    """Return the tabs, and the pages of the open one; no pages where it has only one.

    Args:
        name: of the page shown.
        suffix: of every address, for what all pages keep.
    """
    tabs, below = [], []
    for tab in TABS:
        pages = pages_open_to(user, tab, study)
        if not pages:
            continue
        is_open = any(page.name == name for page in tab.pages)
        tabs.append(Link(tab.title, _address(study, pages[0]) + suffix, is_open))
        if is_open and len(pages) > 1:
            below = [Link(p.title, _address(study, p) + suffix, p.name == name) for p in pages]
    return tabs, below


def page_title(name: str) -> Any:
    """Return the title of the page with this name."""
    return next(page.title for tab in TABS for page in tab.pages if page.name == name)


def _address(study: Study, page: StudyPage) -> str:
    return reverse(f"dashboard:{page.route}", args=[study.key])
