"""The rating form and the done page."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import make_study
from tests.webapp.participant.conftest import ANSWERS, KEYS, begin, chat, policy, post
from webapp.conversations.models import Conversation
from webapp.participant.forms import RatingForm
from webapp.ratings.models import Rating
from webapp.studies.models import Assignment, Dimension, Study
from webapp.studies.services import rubric_create

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


def test_form_has_seven_native_radios_a_question_and_the_conversation(
    study: Study, browser: Client
) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    page = browser.get(f"/chat/{conversation.pk}/rate/").content.decode()
    for key in KEYS:
        assert page.count(f'type="radio" name="{key}"') == 7
    assert page.count("<legend>") == 5
    assert "checked" not in page
    assert 'aria-label="1, not at all"' in page
    assert "message 2" in page
    assert "reply 2" in page
    assert 'name="comments"' in page


def test_missing_answers_are_named_and_the_others_kept(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    given = {**ANSWERS, "comments": "<b>Kept</b>"}
    del given["quality"], given["empathy"]
    response = post(browser, f"/chat/{conversation.pk}/rate/", **given)
    page = response.content.decode()
    assert response.status_code == 200
    assert "2 answers are missing." in page
    assert page.count("Please choose a number from 1 to 7.") == 2
    assert 'href="#quality-1"' in page
    assert page.count(" checked") == 3
    assert "&lt;b&gt;Kept&lt;/b&gt;" in page
    assert not Rating.objects.exists()


@pytest.mark.parametrize("value", ["0", "8", "4.5", "nan", "inf", "many", "1e400", "", "²"])
def test_what_is_not_on_the_scale_is_refused_beside_its_question(
    study: Study, browser: Client, value: str
) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    response = post(browser, f"/chat/{conversation.pk}/rate/", **{**ANSWERS, "fluency": value})
    assert response.status_code == 200
    assert 'id="e-fluency"' in response.content.decode()
    assert 'id="e-quality"' not in response.content.decode()
    assert not Rating.objects.exists()


def test_double_submission_is_one_rating_and_one_code(study: Study, browser: Client) -> None:
    conversation = rated(browser)
    path = f"/chat/{conversation.pk}/rate/"
    code = Assignment.objects.get().completion_code
    again = post(browser, path, **{**ANSWERS, "quality": "1"})
    assert again.url == f"/chat/{conversation.pk}/done/"
    assert browser.get(path).url == again.url
    assert browser.get(f"/chat/{conversation.pk}/").url == again.url
    rating = Rating.objects.get()
    assert rating.answers == dict.fromkeys(KEYS, 5)
    assert rating.comment == "Nice."
    for _ in range(2):
        assert code in browser.get(again.url).content.decode()
    assert Assignment.objects.get().completion_code == code


def test_done_before_rating_leads_back(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    assert browser.get(f"/chat/{conversation.pk}/done/").url == f"/chat/{conversation.pk}/"


def test_way_back_to_prolific(browser: Client) -> None:
    make_study("p", completion_url="https://app.prolific.com/submissions/complete?cc={code}")
    conversation = rated(browser, "p", "?PROLIFIC_PID=p1")
    page = browser.get(f"/chat/{conversation.pk}/done/").content.decode()
    code = conversation.assignment.completion_code
    assert f'href="https://app.prolific.com/submissions/complete?cc={code}"' in page
    assert "Return to Prolific" in page
    assert "data-auto-s" not in page
    assert "another chatbot" not in page, "a platform pays for one chat at a time"


def test_way_back_to_mechanical_turk(browser: Client) -> None:
    make_study("m", auto_return=True)
    query = "?workerId=w&assignmentId=a%22%3E1&turkSubmitTo=https://workersandbox.mturk.com"
    conversation = rated(browser, "m", query)
    response = browser.get(f"/chat/{conversation.pk}/done/")
    page = response.content.decode()
    assert 'action="https://workersandbox.mturk.com/mturk/externalSubmit"' in page
    assert 'name="assignmentId" value="a&quot;&gt;1"' in page
    assert 'data-auto-s="10"' in page
    assert policy(response)["form-action"] == [
        "'self'",
        "https://workersandbox.mturk.com/mturk/externalSubmit",
    ]
    chat_page = browser.get("/s/m/")
    assert policy(chat_page)["form-action"] == ["'self'"], "on the done page only"


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example",
        "http://www.mturk.com",
        "https://www.mturk.com.evil.example",
        "https://www.mturk.com@evil.example",
        "javascript:alert(1)",
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


def test_form_of_a_wide_scale_has_number_boxes(db: None) -> None:
    rubric = rubric_create(
        name="wide",
        low=0,
        high=100,
        dimensions=[Dimension(key="joy", title="Joy", question="How much joy?", required=False)],
    )
    form = RatingForm(rubric, {"joy": ""})
    assert form.is_valid()
    assert form.answers == {}
    (question,) = form.questions()
    assert question.options == []
    assert (question.low, question.high) == (0, 100)
