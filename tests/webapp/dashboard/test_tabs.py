"""The five tabs of a study, the pages under them, and the page of places."""

from __future__ import annotations

import re
from datetime import timedelta

from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.builders import (
    make_annotated,
    make_conversation,
    make_participant,
    make_rating,
    make_staff,
    make_study,
)
from webapp.core.rights import Right
from webapp.dashboard.navigation import TABS, pages_open_to
from webapp.dashboard.recruitment import reservations_of
from webapp.dashboard.urls import urlpatterns
from webapp.studies.models import Study, Task
from webapp.studies.services import task_open
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


def test_collect_opens_its_first_page(rated: Study) -> None:
    client = Client()
    user = make_staff(Right.READ)
    client.force_login(user)
    answer = client.get(reverse("dashboard:study_collect", args=["rated"]))
    first = pages_open_to(user, TABS[1], rated)[0]
    assert answer["Location"] == reverse(f"dashboard:{first.route}", args=["rated"])


def test_a_place_is_held_until_its_time_is_over(staff: Client, rated: Study) -> None:
    held, lapsed = make_conversation(rated), make_conversation(rated)
    make_conversation(rated, is_synthetic=True)
    Task.objects.filter(slots__chat=lapsed).update(
        created_at=timezone.now() - timedelta(hours=2) - timedelta(minutes=1)
    )
    places = reservations_of(rated)
    assert (places.n_held, places.n_lapsed) == (1, 1)
    assert [holder.chat for holder in places.holders] == [held.pk]
    assert places.held.get(held.bot.bot_id) == 1
    assert places.lapsed.get(lapsed.bot.bot_id) == 1
    assert reservations_of(rated, include_synthetic=True).n_held == 2
    html = staff.get(reverse("dashboard:study_places", args=["rated"])).content.decode()
    assert "1 person holds a place now." in html
    assert reverse("dashboard:conversation", args=[held.pk]) in html
    assert reverse("dashboard:conversation", args=[lapsed.pk]) not in html


def test_a_bot_with_a_quota_says_how_much_of_it_is_done(staff: Client) -> None:
    study = make_study("quotas", bots=["eliza", "parrot", "generic"], place_minutes=45)
    study_edit(study=study, bot_quotas={"eliza": 1, "parrot": 0})
    while (chat := make_conversation(study, n_exchanges=3)).bot.bot_id != "eliza":
        pass
    make_rating(chat)
    html = staff.get(reverse("dashboard:study_places", args=["quotas"])).content.decode()
    assert "1 of 1" in html
    assert "Has all it needs" in html
    assert "0 of 0" in html
    assert "Closed" in html
    assert "for 45 minutes" in html


def test_who_judges_items_holds_a_place_without_a_chat(staff: Client) -> None:
    study = make_annotated("items")
    task_open(participant=make_participant(study))
    html = staff.get(reverse("dashboard:study_places", args=["items"])).content.decode()
    assert "1 person holds a place now." in html
    assert "Places of each bot" not in html


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
    assert staff.get(_address(study, "study_collect"))["Location"] == _address(study, "study")
    pay = staff.get(_address(study, "study_pay")).content.decode()
    assert "No participants to pay" in pay
    assert "Not finished" not in pay


def _address(study: Study, route: str) -> str:
    return reverse(f"dashboard:{route}", args=[study.key])
