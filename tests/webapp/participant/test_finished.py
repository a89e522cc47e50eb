"""Who has finished and opens the link again: outcome, code and link at once, in any browser of theirs."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import BY_PROLIFIC, fail_reply, make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from webapp.conversations.models import Conversation
from webapp.conversations.services import task_end_with_chats
from webapp.studies.models import Outcome, Study
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
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


def end_with(outcome: str):
    def end(browser: Client, query: str = "") -> Conversation:
        conversation = begin(browser, query=query)
        task_end_with_chats(task=conversation.task, outcome=outcome)
        conversation.refresh_from_db()
        assert browser.get(f"/chat/{conversation.pk}/").url.startswith(f"/chat/{conversation.pk}/done")
        return conversation

    return end


@pytest.fixture
def study(db: None) -> Study:
    return make_study("s", **BY_PROLIFIC)


@pytest.mark.parametrize("query", [PROLIFIC, MTURK])
def test_the_first_of_several_visits_keeps_its_outcome(study: Study, browser: Client, query: str) -> None:
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
    for query, shown in (
        ("?PROLIFIC_PID=p1", 'name="consent"'),
        (PROLIFIC.replace("s1", "s2"), 'name="consent"'),
        ("?SESSION_ID=s1", "Your Prolific ID is missing from this link"),
    ):
        page = Client().get(f"/s/s/{query}").content.decode()
        assert "RATED1" not in page, query
        assert shown in page, query


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


def test_full_pay_is_promised_where_the_study_says_so(study: Study, browser: Client) -> None:
    study_edit(study=study, pays_in_full=True, pay_each=2)
    conversation = end_early(browser, PROLIFIC)
    for path in (f"/chat/{conversation.pk}/done/", f"/s/s/{PROLIFIC}"):
        assert "<strong>you are paid in full.</strong>" in browser.get(path).content.decode()


def test_who_was_screened_out_does_not_begin_again(study: Study, browser: Client) -> None:
    end_with(Outcome.SCREENED_OUT)(browser, PROLIFIC)
    page = browser.get(f"/s/s/{PROLIFIC.replace('s1', 's2')}").content.decode()
    assert "Your part in this study is over" in page
    assert 'name="consent"' not in page


@pytest.mark.parametrize("end", [rate, end_early])
def test_who_has_earned_pay_is_never_told_to_return_their_place(study: Study, browser: Client, end) -> None:
    end(browser, PROLIFIC)
    study.state = Study.State.ENDED
    study.save()
    for client in (browser, Client()):
        for query in (PROLIFIC, PROLIFIC.replace("s1", "s2"), "?PROLIFIC_PID=p1"):
            assert "Return your place" not in client.get(f"/s/s/{query}").content.decode()
    assert "Return your place" in Client().get("/s/s/?PROLIFIC_PID=p2").content.decode()


def test_a_code_is_pasted_into_mechanical_turks_task_where_it_shows_no_frame(browser: Client) -> None:
    make_study("s", platform="mturk", pay_each=2)
    conversation = rate(browser)
    page = browser.get(f"/chat/{conversation.pk}/done/").content.decode()
    assert "Paste this code into the task on Mechanical Turk to be paid." in page
    assert f">{conversation.task.completion_code}</p>" in page
    assert "externalSubmit" not in page
