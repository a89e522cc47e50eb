"""What the server stores of browsers that fail or translate, and promises to those without cookies."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import make_pairwise, make_study, signed_in
from tests.webapp.participant.conftest import ANSWERS, begin, chat, post, shown
from webapp.core.rights import Right
from webapp.ratings.flags.base import StudyWork, flag_kinds
from webapp.studies.models import LinkCount, Study, Task, Whereabouts
from webapp.studies.selectors import participant_token

pytestmark = pytest.mark.django_db


def counts(study: Study) -> dict[str, int]:
    return dict(LinkCount.objects.filter(study=study).values_list("refused", "n"))


def test_failed_scripts_are_counted_in_addition_to_openings(study: Study, browser: Client) -> None:
    browser.get("/s/s/")
    for query in ("?at=consent", "?at=chat", "?at=chat"):
        assert browser.post(f"/s/s/script-failed/{query}").status_code == 204
    assert counts(study) == {"": 1, "script_failed": 1, "script_failed_chat": 2}
    assert browser.post("/s/unknown/script-failed/").status_code == 404
    assert browser.get("/s/s/script-failed/").status_code == 405
    page = shown(signed_in(Right.READ).get("/dashboard/studies/s/people/"))
    assert "the browser could not load the chat (seen before consent) 1" in page
    assert "the chat page did not start (after consent) 2" in page


def test_the_consent_page_of_a_study_without_chats_needs_no_script(browser: Client) -> None:
    make_pairwise("q")
    page = shown(browser.get("/s/q/"))
    assert "check.js" not in page
    assert "needs JavaScript" not in page


@pytest.mark.parametrize("setting", ["forbid", "allow"])
def test_a_translated_page_is_a_flag_of_its_task(browser: Client, setting: str) -> None:
    study = make_study("s", min_exchanges=1, browser_translation=setting)
    for translates in (True, False):
        person = Client(enforce_csrf_checks=True)
        conversation = begin(person)
        chat(conversation, 1)
        page = shown(person.get(f"/chat/{conversation.pk}/"))
        assert ('<div class="bubble" dir="auto" translate="no">' in page) == (setting == "forbid")
        address = page.split('data-translated="')[1].split('"')[0]
        assert Client(enforce_csrf_checks=True).post(address).status_code == 404
        if translates:
            assert post(person, address).status_code == 204
        post(person, f"/chat/{conversation.pk}/rate/", **ANSWERS)
    result = flag_kinds.get("translated").find(StudyWork(study))
    assert list(result.tasks) == [Task.objects.order_by("pk").first().pk]
    assert result.of == 2
    assert Whereabouts.objects.filter(is_translated=True).count() == 1


def test_the_last_page_promises_no_way_back_that_needs_cookies(study: Study) -> None:
    for has_cookies in (True, False):
        person = Client(enforce_csrf_checks=True)
        conversation = begin(person)
        chat(conversation, 3)
        query = ""
        if not has_cookies:
            query = f"?t={participant_token(conversation.participant)}"
            person = Client(enforce_csrf_checks=True)
        later = shown(person.get(f"/chat/{conversation.pk}/{query}"))
        assert ("open the same link in this browser" in later) == has_cookies
        assert ("Save the address of this page, then close it." in later) != has_cookies
        if has_cookies:
            done = post(person, f"/chat/{conversation.pk}/rate/", **ANSWERS).url
        else:
            token = participant_token(conversation.participant)
            done = (
                Client(enforce_csrf_checks=True)
                .post(f"/chat/{conversation.pk}/rate/{query}", {**ANSWERS, "_t": token})
                .url
            )
        page = shown(person.get(done))
        assert ("To see this page again, open your link" in page) == has_cookies
        assert ("Save the address of this page to come back here." in page) != has_cookies
        assert "Your completion code" in shown(person.get(done)), "it does lead back"


def test_question_numbers_are_isolated_from_the_title(browser: Client) -> None:
    make_study("ar", language="ar", min_exchanges=1)
    conversation = begin(browser, "ar")
    chat(conversation, 1)
    page = shown(browser.get(f"/chat/{conversation.pk}/rate/"))
    assert '<bdi>1.</bdi> <span dir="auto">' in page
