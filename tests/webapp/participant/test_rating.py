"""The rating form and the done page."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.builders import fail_reply, make_study
from tests.webapp.participant.conftest import ANSWERS, KEYS, begin, chat, policy, post
from webapp.conversations.models import Conversation
from webapp.conversations.services import reply_claim, turn_add_bot, turn_add_human
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task
from webapp.studies.selectors import participant_token

pytestmark = pytest.mark.django_db


def rated(browser: Client, key: str = "s", query: str = "") -> Conversation:
    """Go the whole way."""
    conversation = begin(browser, key, query)
    chat(conversation, 3)
    assert post(browser, f"/chat/{conversation.pk}/rate/", **ANSWERS).status_code == 302
    conversation.refresh_from_db()
    return conversation


def test_not_open_before_enough_messages(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 2)
    path = f"/chat/{conversation.pk}/rate/"
    for response in (browser.get(path), post(browser, path, **ANSWERS)):
        assert response.url == f"/chat/{conversation.pk}/?note=too_early"
    assert "at least 3 messages" in browser.get(response.url).content.decode()
    assert not Rating.objects.exists()


def message(conversation: Conversation, text: str = "one more") -> None:
    turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text=text)


def test_while_a_reply_is_under_way_the_form_waits_and_loses_nothing(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    path = f"/chat/{conversation.pk}/rate/"
    assert browser.get(path).status_code == 200
    message(conversation)  # in another window
    response = browser.get(path)
    assert response.url == f"/chat/{conversation.pk}/?note=waiting_for_reply"
    assert "still answering" in browser.get(response.url).content.decode()
    sent = post(browser, path, **{**ANSWERS, "comments": "Kept."})
    page = browser.get(sent.url).content.decode()
    assert "Save again in a moment" in page
    assert page.count(" checked") == len(KEYS)
    assert "Kept." in page
    assert not Rating.objects.exists()
    answer(conversation)
    page = browser.get(sent.url).content.decode()
    assert "Save again in a moment" not in page
    assert page.count(" checked") == len(KEYS)
    assert post(browser, path, **ANSWERS).url == f"/chat/{conversation.pk}/done/"


def answer(conversation: Conversation) -> None:
    lease = uuid.uuid4()
    assert reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    assert turn_add_bot(conversation_id=conversation.pk, lease=lease, text="Here I am.")


def test_a_reply_that_never_comes_does_not_hold_the_form_back(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    message(conversation)
    Conversation.objects.update(due_since=timezone.now() - timedelta(hours=1))
    path = f"/chat/{conversation.pk}/rate/"
    assert browser.get(path).status_code == 200
    assert post(browser, path, **ANSWERS).url == f"/chat/{conversation.pk}/done/"


def test_missing_answers_are_named_and_the_others_kept(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    given = {**ANSWERS, "comments": "<b>Kept</b>"}
    del given["quality"], given["empathy"]
    path = f"/chat/{conversation.pk}/rate/"
    response = post(browser, path, **given)
    assert response.status_code == 302, "a page that answered a form could not be reloaded"
    for _ in range(2):
        page = browser.get(response.url).content.decode()
        assert "2 answers are missing." in page
        assert page.count("Please choose a number from 1 to 7.") == 2
        assert 'href="#quality-1"' in page
        assert page.count(" checked") == 3
        assert "&lt;b&gt;Kept&lt;/b&gt;" in page
    # By Back, by the chat, in another tab: the answers are there, the errors were said.
    page = browser.get(path).content.decode()
    assert page.count(" checked") == 3
    assert "Kept" in page
    assert "missing" not in page
    assert "Please choose" not in page
    assert not Rating.objects.exists()


def test_a_comment_of_which_nothing_is_seen_is_none(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    post(browser, f"/chat/{conversation.pk}/rate/", **{**ANSWERS, "comments": "\u200b\u2800"})
    assert Rating.objects.get().comment == ""


def test_without_cookies_what_was_sent_is_kept_too(study: Study) -> None:
    conversation = begin(Client())
    chat(conversation, 3)
    token = participant_token(conversation.participant)
    path = f"/chat/{conversation.pk}/rate/"
    sent = Client(enforce_csrf_checks=True).post(path, {"quality": "3", "comments": "a", "_t": token})
    page = Client().get(sent.url).content.decode()
    assert "4 answers are missing." in page
    assert 'id="quality-3" value="3" aria-label="3" checked' in " ".join(page.split())


@pytest.mark.parametrize("end", ["rate", "withdraw", "finish"])
def test_what_was_kept_of_a_rating_goes_with_the_chat(study: Study, browser: Client, end: str) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    path = f"/chat/{conversation.pk}"
    post(browser, f"{path}/rate/", quality="3", comments="half a sentence")
    conversation.refresh_from_db()
    assert conversation.rating_draft == {"quality": "3", "comments": "half a sentence"}
    if end == "finish":
        fail_reply(conversation)
    assert post(browser, f"{path}/{end}/", **ANSWERS).url == f"{path}/done/"
    conversation.refresh_from_db()
    assert conversation.rating_draft == {}
    # A form that comes late, from another tab, brings nothing back.
    post(browser, f"{path}/rate/", quality="3", comments="late")
    conversation.refresh_from_db()
    assert conversation.rating_draft == {}


@pytest.mark.parametrize("value", ["0", "8", "4.5", "nan", "inf", "many", "1e400", "", "²"])
def test_what_is_not_on_the_scale_is_refused_beside_its_question(study: Study, browser: Client, value: str) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    sent = post(browser, f"/chat/{conversation.pk}/rate/", **{**ANSWERS, "fluency": value})
    page = browser.get(sent.url).content.decode()
    assert 'id="fluency-error"' in page
    assert 'id="quality-error"' not in page
    assert not Rating.objects.exists()


def test_double_submission_is_one_rating_and_one_code(study: Study, browser: Client) -> None:
    conversation = rated(browser)
    path = f"/chat/{conversation.pk}/rate/"
    code = Task.objects.get().completion_code
    again = post(browser, path, **{**ANSWERS, "quality": "1"})
    assert again.url == f"/chat/{conversation.pk}/done/"
    assert browser.get(path).url == again.url
    assert browser.get(f"/chat/{conversation.pk}/").url == again.url
    rating = Rating.objects.get()
    assert rating.answers == dict.fromkeys(KEYS, 5)
    assert rating.comment == "Nice."
    for _ in range(2):
        assert code in browser.get(again.url).content.decode()
    assert Task.objects.get().completion_code == code


def test_done_before_rating_leads_back(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    assert browser.get(f"/chat/{conversation.pk}/done/").url == f"/chat/{conversation.pk}/"


def test_way_back_to_mechanical_turk(browser: Client) -> None:
    make_study("m", auto_return=True)
    query = "?workerId=w&assignmentId=a%22%3E1&turkSubmitTo=https://workersandbox.mturk.com"
    conversation = rated(browser, "m", query)
    response = browser.get(f"/chat/{conversation.pk}/done/")
    page = response.content.decode()
    assert 'action="https://workersandbox.mturk.com/mturk/externalSubmit"' in page
    assert 'name="assignmentId" value="a&quot;&gt;1"' in page
    assert 'data-auto-s="10"' in page
    assert policy(response)["form-action"] == ["'self'", "https://workersandbox.mturk.com/mturk/externalSubmit"]
    entry = Client().get("/s/m/")
    assert policy(entry)["form-action"] == ["'self'"], "on the done page only"


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example",
        "http://www.mturk.com",
        "https://www.mturk.com.evil.example",
        "https://www.mturk.com@evil.example",
        "javascript:alert(1)",
        "https://[",
    ],
)
def test_other_places_to_submit_to_are_ignored(browser: Client, to: str) -> None:
    make_study("m")
    conversation = rated(browser, "m", f"?workerId=w&assignmentId=a&turkSubmitTo={to}")
    response = browser.get(f"/chat/{conversation.pk}/done/")
    assert "externalSubmit" not in response.content.decode()
    assert policy(response)["form-action"] == ["'self'"]


def test_another_chatbot_while_there_is_one(study: Study, browser: Client) -> None:
    first = rated(browser)
    assert "another chatbot" in browser.get(f"/chat/{first.pk}/done/").content.decode()
    second = rated(browser)
    assert second.participant_id == first.participant_id
    assert second.bot_id != first.bot_id
    assert "another chatbot" not in browser.get(f"/chat/{second.pk}/done/").content.decode()
