"""The five tabs of a study, and the pages under them."""

from __future__ import annotations

import re

from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from tests.builders import make_participant, make_study
from webapp.core.rights import Right
from webapp.dashboard.navigation import TABS
from webapp.dashboard.urls import urlpatterns
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store

ALL = [page for tab in TABS for page in tab.pages]


def open_links(html: str, kind: str) -> list[str]:
    """Return the words of a navigation's links, the open one marked."""
    found = re.search(rf'<nav class="{kind}".*?</nav>', html, re.DOTALL)
    if found is None:
        return []
    links = re.findall(r"<a href=\"[^\"]+\"([^>]*)>([^<]+)</a>", found.group())
    shown = [(mark, words.strip()) for mark, words in links]
    return [f"*{words}" if "aria-current" in mark else words for mark, words in shown]


def test_every_page_of_a_study_stands_under_one_of_five_tabs(staff: Client, rated: Study) -> None:
    assert len({page.name for page in ALL}) == len(ALL)
    for tab in TABS:
        for page in tab.pages:
            html = staff.get(reverse(f"dashboard:{page.route}", args=["rated"])).content.decode()
            shown = open_links(html, "tabs")
            assert [words.lstrip("*") for words in shown] == [str(one.title) for one in TABS]
            assert [words for words in shown if "*" in words] == [f"*{tab.title}"]
            below = open_links(html, "subnav")
            assert below == (
                [f"*{p.title}" if p == page else str(p.title) for p in tab.pages] if len(tab.pages) > 1 else []
            )
            assert f"<title>{page.title} – rated – Confab" in html


def test_a_tab_shows_the_pages_that_its_reader_may_open() -> None:
    declared = {pattern.name: pattern.callback.rights["GET"] for pattern in urlpatterns}
    for page in ALL:
        assert declared[page.route] == (Right.READ, *page.rights), page.name


def test_pages_say_by_which_test_bots_are_told_apart(staff: Client, rated: Study) -> None:
    address = reverse("dashboard:study_results", args=["rated"])
    assert "always valid while the study collects" in staff.get(address).content.decode()
    study_edit(study=rated, state="ended")
    html = staff.get(address).content.decode()
    assert "always valid while the study collects" not in html
    assert "Holm, p &lt; .10" in html


def test_an_imported_study_hides_pages_about_people_who_come(staff: Client) -> None:
    study = make_study("there")
    Study.objects.update(is_imported=True)
    study.refresh_from_db()
    records_store(study=study, records=conversations_sample())
    make_participant(study, platform="import")
    page = BeautifulSoup(staff.get(_address(study, "study_conversations")).content, "html.parser")
    shown = {link.get_text(strip=True) for link in page.select("nav.tabs a")}
    assert shown == {"Overview", "Conversations", "Results", "Report"}
    assert staff.get(_address(study, "study_people"))["Location"] == _address(study, "study")


def _address(study: Study, route: str) -> str:
    return reverse(f"dashboard:{route}", args=[study.key])
