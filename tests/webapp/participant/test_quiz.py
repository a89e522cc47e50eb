"""The step `quiz`: questions about the instructions, all right at the first or the second try."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.builders import QUIZ, make_annotated, make_participant, make_study
from tests.webapp.participant.conftest import post
from tests.webapp.participant.test_judge import begin, shown
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.participant.services import quiz_answer
from webapp.participant.simulated.client import PageForm
from webapp.studies.models import Participant, QuizAttempt, Task
from webapp.studies.pre_task import quiz_due
from webapp.studies.privacy import participants_erase
from webapp.studies.selectors import participant_token, study_refusal
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
RIGHT = {"quiz_1": "Five", "quiz_2": "A computer program"}
WRONG = {**RIGHT, "quiz_2": "A person"}


def words(page) -> str:
    """Return what a page says, without its tags."""
    return " ".join(re.sub("<[^>]+>", " ", shown(page)).split())


def sent(browser: Client, address: str, **answers: str) -> str:
    """Send the form as the page has it; the address that it leads to."""
    form = PageForm(address, "/quiz/")
    form.feed(browser.get(address).content.decode())
    answered = post(browser, address, **form.hidden, **answers)
    assert answered.status_code == 302, shown(answered)[:2000]
    return answered.url


def test_a_miss_is_explained_and_a_second_try_passes(browser: Client) -> None:
    make_study(quiz_questions=QUIZ, screened_out_pay="£0.14", questions=[_age()])
    address = begin(browser, "s")
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/quiz/"
    chat = f"/chat/{Conversation.objects.get().pk}/"
    for later in (chat, f"{chat}rate/", address.replace("quiz", "questions")):
        assert browser.get(later).url == address
    page = shown(browser.get(address))
    assert "2 short questions first" in page
    assert "once more" not in page
    missing = shown(post(browser, address, quiz_1="Five", _attempt="1", _quiz=_due().quiz))
    assert "1 answer is missing." in missing
    assert not QuizAttempt.objects.exists()
    assert sent(browser, address, **WRONG) == address
    page = words(browser.get(address))
    assert "1 answer was not right. You have one more try. Your other answer is kept." in page
    assert "1. How many messages do you write at least? Five Right." in page
    assert "Not quite. Look at point 2 above and choose again." in page
    assert "the study ends here, and you are paid £0.14 for your time" in page
    html = browser.get(address).content.decode()
    assert html.count("<mark>") == 1
    assert "<mark>Talk about anything you like" in html
    assert 'name="quiz_1"' not in html
    assert sent(browser, address, quiz_2="A computer program").endswith("/questions/")
    assert [one.is_right for one in QuizAttempt.objects.all()] == [False, True]
    assert browser.get(address).url.endswith("/questions/")


def test_a_second_miss_ends_the_task_and_its_chat_as_screened_out(browser: Client) -> None:
    study = make_study(quiz_questions=QUIZ, screened_out_pay="£0.14", code_screened_out="OUT1")
    address = begin(browser, "s")
    sent(browser, address, **WRONG)
    done = sent(browser, address, **WRONG)
    task, chat = Task.objects.get(), Conversation.objects.get()
    assert (task.state, task.outcome) == ("ended", "screened_out")
    assert (chat.state, done) == ("ended", f"/chat/{chat.pk}/done/")
    page = shown(browser.get(done))
    assert "OUT1" in page
    assert "You are paid £0.14 for your time." in page
    refusal = study_refusal(study, task.participant)
    assert refusal is not None
    assert refusal.code == "not_again"


def test_what_is_sent_twice_is_one_attempt_and_goes_with_its_person() -> None:
    study = make_study(quiz_questions=QUIZ)
    task = task_open(participant=make_participant(study))
    due = quiz_due(task.participant, study.version)
    assert due is not None
    for _time in range(3):
        assert not quiz_answer(task=task, quiz=due.quiz, attempt=1, answers=["Five", "Both"])
    assert QuizAttempt.objects.count() == 1
    with pytest.raises(Refused, match="not the one that is due"):
        quiz_answer(task=task, quiz="another", attempt=2, answers=["Five", "Both"])
    # What was right stays right, whatever a second form says of it.
    assert quiz_answer(task=task, quiz=due.quiz, attempt=2, answers=["Two", RIGHT["quiz_2"]])
    study_edit(study=study, quiz_questions=[{**QUIZ[0], "why": "Five is the least."}, QUIZ[1]])
    study.refresh_from_db()
    assert quiz_due(task.participant, study.version) is None, "the same questions"
    removed = participants_erase(participants=Participant.objects.all())
    assert removed["quiz_attempts"] == 2
    assert not QuizAttempt.objects.exists()


def test_it_comes_before_items_and_scripted_people_alone_are_told(browser: Client) -> None:
    study = make_annotated("a", quiz_questions=QUIZ)
    pages = []
    for is_synthetic in (False, True):
        task = task_open(participant=make_participant(study, is_synthetic=is_synthetic))
        query = f"?t={participant_token(task.participant)}"
        assert "/quiz/" in browser.get(f"/task/{task.public_id}/judge/{query}").url
        pages.append(browser.get(f"/task/{task.public_id}/quiz/{query}").content.decode())
    assert "_right" not in pages[0]
    assert 'name="_right_quiz_2" value="A computer program"' in pages[1]


def _age() -> dict[str, str]:
    return {"key": "age", "title": "How old are you?", "kind": "text"}


def _due():
    task = Task.objects.get()
    due = quiz_due(task.participant, task.version)
    assert due is not None
    return due
