"""The tour: offered once, left and found again, each step at something that is there, at its end a rehearsal."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_study, signed_in
from webapp.core.rights import Right

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
    assert "A user with the right to run jobs can start it." in page


def test_without_a_collecting_study_it_says_what_it_needs(staff: Client) -> None:
    make_study("draft", state="draft")
    assert OFFER not in html(staff, HOME)
    answer = staff.get(TOUR, follow=True)
    assert "The tour needs a study that is collecting; there is none." in answer.content.decode()
