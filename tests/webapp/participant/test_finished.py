"""Who has finished and opens the link again: outcome, code and link at once, in any browser of theirs."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import BY_PROLIFIC, fail_reply, make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from webapp.conversations.models import Conversation
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db
LINK = "https://app.prolific.com/submissions/complete?cc="
PROLIFIC = "?PROLIFIC_PID=p1&STUDY_ID=x&SESSION_ID=s1"
MTURK = "?workerId=w1&assignmentId=a1&hitId=h&turkSubmitTo=https://workersandbox.mturk.com"


def rate(browser: Client, query: str = "") -> Conversation:
    conversation = begin(browser, query=query)
    chat(conversation, 3)
    make_rating(conversation)
    return conversation


def end_early(browser: Client, query: str = "") -> Conversation:
    conversation = begin(browser, query=query)
    fail_reply(conversation)
    assert post(browser, f"/chat/{conversation.pk}/finish/").status_code == 302
    return conversation


def withdraw(browser: Client, query: str = "") -> Conversation:
    conversation = begin(browser, query=query)
    chat(conversation, 1)
    assert post(browser, f"/chat/{conversation.pk}/withdraw/").status_code == 302
    return conversation


@pytest.fixture
def study(db: None) -> Study:
    return make_study("s", **BY_PROLIFIC)


WAYS = [
    (rate, "RATED1", "Everything is saved"),
    (end_early, "FAILED1", "finished early"),
    (withdraw, "GONE1", "Your chat is deleted"),
]


@pytest.mark.parametrize(("end", "code", "words"), WAYS)
def test_every_outcome_is_told_at_once_and_by_prolifics_code_alone(
    study: Study, browser: Client, end, code: str, words: str
) -> None:
    conversation = end(browser, PROLIFIC)
    conversation.task.refresh_from_db()
    own = conversation.task.completion_code
    for client, path in (
        (browser, f"/chat/{conversation.pk}/done/"),
        (browser, f"/s/s/{PROLIFIC}"),
        (browser, "/s/s/"),
        (Client(), f"/s/s/{PROLIFIC}"),
    ):
        response = client.get(path)
        page = response.content.decode()
        assert response.status_code == 200
        assert words in page
        assert f">{code}</p>" in page
        assert f'href="{LINK}{code}"' in page
        assert own is None or own not in page
        assert 'name="consent"' not in page
        assert "another chatbot" not in page
        assert "Return your place" not in page


@pytest.mark.parametrize("query", [PROLIFIC, MTURK])
def test_the_first_of_several_visits_keeps_its_outcome(
    study: Study, browser: Client, query: str
) -> None:
    first = rate(browser, query)
    code = first.task.completion_code if query == MTURK else "RATED1"
    again = query.replace("s1", "s2").replace("a1", "a2")
    end_early(browser, again)
    page = Client().get(f"/s/s/{query}").content.decode()
    assert f">{code}</p>" in page
    assert "finished early" not in page
    if query == MTURK:
        assert 'name="assignmentId" value="a1"' in page, "never the task of another visit"


def test_another_visit_of_the_same_id_sees_nobodys_code(study: Study, browser: Client) -> None:
    rate(browser, PROLIFIC)
    for query in ("?PROLIFIC_PID=p1", PROLIFIC.replace("s1", "s2"), "?SESSION_ID=s1"):
        page = Client().get(f"/s/s/{query}").content.decode()
        assert "RATED1" not in page, query
        assert 'name="consent"' in page, query


def test_a_visit_that_ended_starts_no_second_chat(study: Study) -> None:
    browser = Client()
    field = entry_field(browser.get(f"/s/s/{PROLIFIC}"))
    rate(browser, PROLIFIC)
    for client in (browser, Client()):
        response = client.post("/s/s/start/", {"consent": "on", "_entry": field})
        assert "RATED1" in response.content.decode()
    assert Conversation.objects.count() == 1


def test_without_platform_the_next_chat_starts_from_here(browser: Client) -> None:
    study = make_study("s")
    first = rate(browser)
    page = browser.get("/s/s/").content.decode()
    assert first.task.completion_code in page
    assert "Talk to another chatbot" in page
    second = begin(browser)
    assert second.pk != first.pk
    assert "Continue it" in browser.get("/s/s/").content.decode(), "an open chat comes first"
    chat(second, 3)
    make_rating(second)
    page = browser.get("/s/s/").content.decode()
    assert second.task.completion_code in page
    assert first.task.completion_code in page, "earlier codes stay readable"
    assert "another chatbot" not in page
    study.state = Study.State.ENDED
    study.save()
    assert second.task.completion_code in browser.get("/s/s/").content.decode()


def test_a_way_back_without_a_code_shows_none(browser: Client) -> None:
    make_study("s", link_rated="https://panel.example/back")
    conversation = rate(browser)
    page = browser.get("/s/s/").content.decode()
    assert 'href="https://panel.example/back"' in page
    assert 'id="code"' not in page
    assert conversation.task.completion_code not in page
