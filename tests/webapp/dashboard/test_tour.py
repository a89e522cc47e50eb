"""The tour, a study's versions, and the figures at its head."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_participant, make_rating, make_study, signed_in
from webapp.conversations.services import conversation_withdraw
from webapp.core.rights import Right
from webapp.insights.selectors import study_cards
from webapp.studies.recruitment.links import task_decline
from webapp.studies.services import participant_enter
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


HOME = reverse("dashboard:home")
TOUR = reverse("dashboard:tour")
OFFER = "Not now"


def html(staff: Client, address: str) -> str:
    return staff.get(address).content.decode()


def test_it_is_offered_until_it_was_begun_or_put_off_and_stays_in_the_menu(staff: Client) -> None:
    make_study("first", state="collecting")
    assert OFFER in html(staff, HOME)
    assert staff.post(TOUR).url == HOME
    page = html(staff, HOME)
    assert OFFER not in page
    assert f'href="{TOUR}"' in page
    assert staff.get(TOUR).url == reverse("dashboard:study", args=["first"]) + "?tour=1"


def test_each_step_is_at_something_that_the_page_has(staff: Client) -> None:
    make_study("first", state="collecting")
    page = html(staff, staff.get(TOUR).url)
    steps = re.findall(r'data-tour-at="\.([\w-]+)"', page)
    assert len(steps) == len(re.findall(r'id="tour-\d"', page)) == 5
    for name in steps:
        assert re.search(rf'class="(?:[\w -]+ )?{name}[ "]', page), name
    address = reverse("dashboard:study_rehearse", args=["first"])
    assert f'action="{address}" data-tour-end' in page
    assert "data-tour" not in html(staff, reverse("dashboard:study", args=["first"]))


def test_who_may_not_run_jobs_is_told_who_may() -> None:
    make_study("first", state="collecting")
    reader = signed_in(Right.READ)
    page = html(reader, reader.get(TOUR).url)
    assert "data-tour-end" not in page
    assert "Only users with the right to run jobs can start it." in page


def test_without_a_collecting_study_it_says_what_it_needs(staff: Client) -> None:
    make_study("draft", state="draft")
    assert OFFER not in html(staff, HOME)
    answer = staff.get(TOUR, follow=True)
    assert "The tour needs a study that is collecting data, but there is none." in answer.content.decode()


@pytest.fixture
def browser() -> Client:
    return signed_in(Right.READ, Right.ADMINISTER, username="r.okafor")


def test_versions_say_what_each_changed(browser: Client, django_assert_max_num_queries: Any) -> None:
    study = make_study("s", consent_text="First line.\n" + "A long text. " * 10)
    for minutes in range(10, 16):
        make_participant(study)
        study = study_edit(study=study, minutes=minutes, author="a.lin")
    make_participant(study)
    text = study.values.texts.consent_text.replace("First", "<b>Other</b>")
    study_edit(study=study, consent_text=text)
    url = reverse("dashboard:study_versions", args=["s"])
    with django_assert_max_num_queries(30):
        page = browser.get(url).content.decode()
    assert "<b>Other</b>" not in page
    assert "&lt;b&gt;Other&lt;/b&gt; line." in page
    said = re.sub(r"\s+", " ", unescape(page))
    assert said.index("Version 8") < said.index("First line.") < said.index("Version 7")
    assert said.index("Version 7") < said.index("Duration in minutes: 14 → 15") < said.index("Version 6")
    assert said.count("a.lin") == 6
    assert said.count("accepted by participants") == 7
    assert said.count("First version.") == 1


def test_who_did_not_agree_is_nobody_who_left() -> None:
    study = make_study()
    make_rating(make_conversation(study, n_exchanges=3))
    conversation_withdraw(conversation=make_conversation(study))
    for nonce in ("a", "b"):
        person = participant_enter(study=study, entry_nonce=nonce)
        task_decline(participant=person, version=study.version)
    again = make_conversation(study, n_exchanges=3, entry_nonce="b")  # thought again, and agreed
    make_rating(again)
    cards = study_cards(study, include_synthetic=False)
    assert (cards.n_people, cards.n_completed) == (3, 2)
    assert cards.left_early == pytest.approx(1 / 3)
