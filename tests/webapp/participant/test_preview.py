"""Previews for researchers: who may see them, what they follow, and what cannot happen in them."""

from __future__ import annotations

import html
import json

import pytest
from django.test import Client

from tests.builders import BY_PROLIFIC, make_annotated, make_study, signed_in
from tests.webapp.participant.conftest import begin, chat, policy
from webapp.core.rights import Right
from webapp.studies.models import Study, Task
from webapp.studies.versions import study_edit

STEPS = ("consent", "instructions", "chat", "form", "done")


@pytest.fixture
def staff(db: None) -> Client:
    return signed_in(Right.READ, Right.PAY)


def told(page) -> dict:
    content = page.content.decode().split('name="confab-preview" content="')[1].split('"')[0]
    return json.loads(html.unescape(content))


def test_staff_alone_see_previews(study: Study, browser: Client) -> None:
    begin(browser)
    assert browser.get("/preview/s/chat/").status_code == 302
    stranger = signed_in(username="no-rights")
    assert stranger.get("/preview/s/chat/").status_code == 403


@pytest.mark.parametrize("path", ["nobody/chat/", "s/judge/", "s/nonsense/"])
def test_what_the_study_does_not_have_is_not_found(study: Study, staff: Client, path: str) -> None:
    assert staff.get(f"/preview/{path}").status_code == 404


def test_a_step_that_the_study_has_nothing_for_leads_to_its_first_page(study: Study, staff: Client) -> None:
    answer = staff.get("/preview/s/questions/", {"theme": "dark"})
    assert answer.url.startswith("/preview/s/consent/?theme=dark")


@pytest.mark.parametrize("state", Study.State.values)
def test_a_study_is_shown_whatever_its_state(study: Study, staff: Client, state: str) -> None:
    Study.objects.update(state=state)
    for step in STEPS:
        assert staff.get(f"/preview/s/{step}/").status_code == 200


@pytest.mark.parametrize("step", STEPS)
def test_nothing_can_leave_a_preview(study: Study, staff: Client, step: str) -> None:
    page = staff.get(f"/preview/s/{step}/")
    rules = policy(page)
    assert rules["form-action"] == rules["connect-src"] == ["'none'"]
    assert rules["frame-ancestors"] == ["'self'"]
    assert page["X-Frame-Options"] == "SAMEORIGIN"
    assert "no-store" in page["Cache-Control"]
    assert staff.post(f"/preview/s/{step}/").status_code == 405


def test_the_policy_stays_where_the_study_is_framed_elsewhere(staff: Client) -> None:
    make_study(frame_ancestors="https://panel.example.org")
    assert policy(staff.get("/preview/s/chat/"))["frame-ancestors"] == ["'self'"]


def test_it_shows_the_newest_values_and_not_those_people_agreed_to(
    study: Study, staff: Client, browser: Client
) -> None:
    begin(browser)
    study.refresh_from_db()
    study_edit(study=study, title="What is new")
    assert b"What is new" in staff.get("/preview/s/consent/").content
    assert b"What is new" in staff.get("/preview/s/done/").content


def test_the_studys_own_items_are_shown_first(staff: Client) -> None:
    study = make_annotated(n_items=4)
    assert b"reply 0" in staff.get("/preview/a/judge/").content
    study.items.all().delete()
    assert b"Fried rice is quick" in staff.get("/preview/a/judge/").content


def test_a_researcher_who_takes_part_keeps_the_own_chat(study: Study, staff: Client) -> None:
    conversation = begin(staff)
    chat(conversation, 3)
    before = dict(staff.cookies)
    assert b"Continue it" not in staff.get("/preview/s/consent/").content
    assert str(conversation.pk) not in staff.get("/preview/s/chat/").content.decode()
    assert dict(staff.cookies) == before
    assert staff.get(f"/chat/{conversation.pk}/").status_code == 200
    assert Task.objects.count() == 1


@pytest.mark.parametrize("focus", ["<script>", 'x"y', "title"])
def test_what_is_edited_travels_as_text(study: Study, staff: Client, focus: str) -> None:
    page = staff.get("/preview/s/consent/", {"focus": focus})
    assert told(page)["focus"] == focus


def test_it_takes_as_many_queries_as_the_page_and_a_few(
    study: Study, staff: Client, django_assert_max_num_queries
) -> None:
    with django_assert_max_num_queries(40):
        staff.get("/preview/s/form/")


@pytest.mark.django_db
def test_completion_codes_are_shown_to_those_who_pay_or_set_them() -> None:
    study = make_study("codes", **BY_PROLIFIC)
    for rights, status in (((Right.READ,), 403), ((Right.READ, Right.ADMINISTER), 200)):
        client = signed_in(*rights, username=f"r{status}")
        page = client.get(f"/preview/{study.key}/done/")
        assert page.status_code == status
        assert ("RATED1" in page.content.decode()) == (status == 200)
        step = client.get(f"/dashboard/studies/{study.key}/build/pay/")
        assert step.status_code == status
        assert client.get(f"/dashboard/studies/{study.key}/study.yaml").status_code == status
