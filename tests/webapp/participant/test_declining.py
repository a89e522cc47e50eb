"""Not agreeing is an answer: kept with the platform's ids alone, told at once, in any browser, with its own code."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import BY_PROLIFIC, make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from webapp.conversations.models import Conversation
from webapp.studies.models import ConsentText, Participant, Study, Task

pytestmark = pytest.mark.django_db
PROLIFIC = "?PROLIFIC_PID=p1&STUDY_ID=x&SESSION_ID=s1"


@pytest.fixture
def study(db: None) -> Study:
    return make_study("s", **BY_PROLIFIC)


def decline(browser: Client, query: str = PROLIFIC):
    """Open the link and say no; the response."""
    page = browser.get(f"/s/s/{query}")
    assert "I do not agree" in page.content.decode()
    return post(browser, "/s/s/decline/", _entry=entry_field(page))


def test_only_the_ids_and_the_outcome_are_kept(study: Study, browser: Client) -> None:
    for _twice in range(2):
        page_before = Task.objects.first()
        if page_before is None:
            decline(browser)
    field = entry_field(Client().get("/s/s/?PROLIFIC_PID=p2&SESSION_ID=s9"))
    for _twice in range(2):
        assert post(browser, "/s/s/decline/", _entry=field).status_code == 302
    assert Participant.objects.filter(consented_at=None, consent=None).count() == 2
    tasks = Task.objects.values_list("state", "outcome", "submission", "completion_code")
    assert sorted(tasks) == [("ended", "no_consent", "s1", None), ("ended", "no_consent", "s9", None)]
    assert not Conversation.objects.exists()
    assert not ConsentText.objects.exists()
    study.refresh_from_db()
    assert study.version.frozen_at is None


def test_an_earlier_outcome_stays_what_it_was(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=PROLIFIC)
    field = entry_field(Client().get(f"/s/s/{PROLIFIC}"))
    open_chat = post(browser, "/s/s/decline/", _entry=field)
    assert open_chat.url == f"/chat/{conversation.pk}/", "who has agreed is in the chat"
    chat(conversation, 3)
    make_rating(conversation)
    assert post(browser, "/s/s/decline/", _entry=field).url == f"/chat/{conversation.pk}/done/"
    second = PROLIFIC.replace("s1", "s2")
    decline(browser, second)
    for query, code in ((PROLIFIC, "RATED1"), (second, "REFUSED1")):
        assert f">{code}</p>" in Client().get(f"/s/s/{query}").content.decode()


def test_nobody_declines_for_somebody_else(study: Study, browser: Client) -> None:
    begin(browser, query=PROLIFIC)
    other = Client(enforce_csrf_checks=True)
    response = decline(other, "?PROLIFIC_PID=p1")
    assert response.status_code == 409
    assert Task.objects.get().outcome == ""


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 409, "Your Prolific ID is missing from this link"),
        ("?PROLIFIC_PID={{%25PROLIFIC_PID%25}}", 409, "Your Prolific ID is missing from this link"),
        ("?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h", 200, "Accept the task to start"),
    ],
)
def test_who_only_looks_is_not_kept(study: Study, browser: Client, query: str, status: int, words: str) -> None:
    browser.get(f"/s/s/{PROLIFIC}")
    answer = post(browser, f"/s/s/decline/{query}")
    assert (answer.status_code, words in answer.content.decode()) == (status, True)
    assert not Participant.objects.exists()


def test_without_platform_the_session_remembers(browser: Client) -> None:
    make_study("s")
    response = decline(browser, "")
    html = browser.get(response.url).content.decode()
    assert "We store only that a person declined." in html
    assert 'id="code"' not in html
    assert "You did not agree" in browser.get("/s/s/").content.decode()
    assert 'name="consent"' in browser.get("/s/s/?again=1").content.decode()
    assert 'name="consent"' in Client().get("/s/s/").content.decode()
