"""Screening questions: their answers admit, or end the task at once with an outcome, a code and thanks."""

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import BY_PROLIFIC, make_study
from tests.webapp.participant.conftest import csrf, post, started
from webapp.studies.models import Outcome, QuestionAnswers, Study, Task

pytestmark = pytest.mark.django_db

SCREENING = {"key": "uses", "title": "Do you use chatbots?", "kind": "choice", "options": ["Daily", "Weekly", "Never"]}
ADMITS = {**SCREENING, "admits": ["Daily", "Weekly"]}


def screened(**fields: object) -> Study:
    return make_study("s", questions=[ADMITS], **fields)


def begin_questions(browser: Client, query: str = "") -> str:
    """Agree; the address of the questions."""
    address = started(browser, "s", query)
    assert browser.get(address).status_code == 200
    return address


def test_an_answer_that_admits_leads_on(browser: Client) -> None:
    screened()
    address = begin_questions(browser)
    response = post(browser, address, question_uses="Weekly")
    assert response.status_code == 302
    assert "/done/" not in response.url
    assert Task.objects.get().outcome == ""


def test_another_answer_ends_at_once_with_thanks_and_the_code(browser: Client) -> None:
    screened(**BY_PROLIFIC, screened_out_pay="£0.20")
    query = "?PROLIFIC_PID=p&STUDY_ID=x&SESSION_ID=y"
    address = begin_questions(browser, query)
    response = post(browser, address, question_uses="Never")
    assert response.status_code == 302
    page = browser.get(response.url)
    assert page.status_code == 200
    text = " ".join(page.content.decode().split())
    assert "This study needs participants with different answers, so it ends here. You are paid £0.20" in text
    assert "SCREEN1" in text
    task = Task.objects.get()
    assert (task.outcome, task.told["code"]) == (Outcome.SCREENED_OUT, "SCREEN1")
    assert QuestionAnswers.objects.get().answers == {"uses": "Never"}
    # Opened again, the link shows the same, and no other answer is taken.
    again = browser.get(f"/s/s/{query}")
    assert again.status_code == 200
    assert "SCREEN1" in again.content.decode()
    assert post(browser, address, question_uses="Daily").status_code == 302
    assert QuestionAnswers.objects.get().answers == {"uses": "Never"}


def test_of_several_choices_one_that_admits_is_enough(browser: Client) -> None:
    make_study("s", questions=[{**ADMITS, "kind": "choices"}])
    address = begin_questions(browser)
    sent = {"question_uses": ["Never", "Daily"], "csrfmiddlewaretoken": csrf(browser)}
    assert browser.post(address, sent).status_code == 302
    assert Task.objects.get().outcome == ""


@pytest.mark.parametrize(
    ("question", "where", "message"),
    [
        ({**ADMITS, "admits": ["Monthly"]}, "questions", "it must be one of Daily, Weekly, Never"),
        ({**ADMITS, "admits": SCREENING["options"]}, "questions", "must leave out at least one answer"),
        ({**ADMITS, "required": False}, "questions", "must be answered"),
        ({**ADMITS, "expected": ["Daily"]}, "questions", "an attention check does not screen participants"),
        ({"key": "uses", "title": "?", "kind": "text", "admits": ["x"]}, "questions", "write a text themselves"),
        (ADMITS, "after", "only questions before the task can screen participants"),
    ],
)
def test_what_cannot_screen_is_refused(question: dict, where: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("s", **{where: [question]})
    assert message in str(refused.value)
