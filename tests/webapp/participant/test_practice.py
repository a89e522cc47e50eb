"""The step `practice`: pairs with known answers before the task, all of which must be right."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import TRAINING_PAIR, make_pairwise, make_participant
from tests.webapp.participant.conftest import post
from tests.webapp.participant.test_judge import begin, shown
from webapp.core.errors import Refused
from webapp.studies.models import Participant, Task, TrainingAnswer
from webapp.studies.pre_task import practice_answer, practice_due
from webapp.studies.privacy import participants_erase
from webapp.studies.selectors import participant_token, study_refusal
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
RIGHT = {"quality": "a", "fluency": "same", "relatedness": "a", "empathy": "b"}
WRONG = {**RIGHT, "quality": "b"}
SECOND_PAIR = {**TRAINING_PAIR, "first": "He is a dog.", "answers": {"quality": "second"}}


def sent(browser: Client, address: str, **answers: str) -> str:
    """Send the form of the practice page as the browser has it; the address that it leads to."""
    task = Task.objects.get()
    due = practice_due(task.participant, task.version)
    assert due is not None
    fields = {"_pair": due.pair.digest, "_attempt": str(due.attempt)}
    answered = post(browser, address, **fields, **answers)
    assert answered.status_code == 302, shown(answered)[:2000]
    return answered.url


def test_practice_comes_first_and_leads_to_the_task_once_all_is_right(browser: Client) -> None:
    make_pairwise("a", training_pairs=[TRAINING_PAIR, SECOND_PAIR])
    address = begin(browser)
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/practice/"
    judging = address.replace("practice", "judge")
    assert browser.get(judging).url == address
    page = shown(browser.get(address))
    assert "Practice 1 of 2" in page
    assert "Oh no. How long did you have him?" in page
    assert "asks about the loss" not in page, "why is told afterwards"
    assert sent(browser, address, **RIGHT) == address
    assert "Practice 2 of 2" in shown(browser.get(address))
    assert sent(browser, address, **{**RIGHT, "quality": "b"}) == judging
    assert "Comparison 1 of 3" in shown(browser.get(judging))
    assert browser.get(address).url == judging


def test_one_miss_is_explained_and_tried_once_more(browser: Client) -> None:
    make_pairwise("a", training_pairs=[TRAINING_PAIR])
    address = begin(browser)
    assert sent(browser, address, **WRONG) == address
    page = shown(browser.get(address))
    assert "Not yet. Here is why, then try once more." in page
    assert "asks about the loss" in page
    assert page.count("Not quite. Choose again.") == 1
    assert "If it is wrong once more, the study ends here." in page
    assert sent(browser, address, **RIGHT).endswith("/judge/")


def test_a_second_miss_ends_the_task_as_screened_out(browser: Client) -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    address = begin(browser)
    sent(browser, address, **WRONG)
    assert sent(browser, address, **WRONG) == address.replace("practice", "done")
    task = Task.objects.get()
    assert (task.state, task.outcome) == ("ended", "screened_out")
    assert browser.get(address).url.endswith("/done/")
    refusal = study_refusal(study, task.participant)
    assert refusal is not None
    assert refusal.code == "not_again"
    with pytest.raises(Refused):
        task_open(participant=task.participant)


def test_what_is_sent_twice_is_one_attempt() -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    task = task_open(participant=make_participant(study))
    due = practice_due(task.participant, study.version)
    assert due is not None
    for _time in range(3):
        assert not practice_answer(task=task, attempt=1, pair=due.pair.digest, answers={"quality": -1, "fluency": 0})
    assert TrainingAnswer.objects.count() == 1
    task.refresh_from_db()
    assert task.state == Task.State.OPEN
    with pytest.raises(Refused, match="not the one that is due"):
        practice_answer(task=task, attempt=2, pair="another", answers={})


def test_missing_answers_are_no_attempt(browser: Client) -> None:
    make_pairwise("a", training_pairs=[TRAINING_PAIR])
    address = begin(browser)
    page = shown(post(browser, address, quality="a"))
    assert "3 answers are missing" in page
    assert not TrainingAnswer.objects.exists()


def test_practice_is_passed_once_whatever_version_has_the_pair_and_goes_with_its_person() -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    task = task_open(participant=make_participant(study))
    right = {"quality": 1, "fluency": 0}
    practice_answer(task=task, attempt=1, pair=study.values.training.training_pairs[0].digest, answers=right)
    study_edit(study=study, title="Another one", training_pairs=[TRAINING_PAIR, SECOND_PAIR])
    study.refresh_from_db()
    due = practice_due(task.participant, study.version)
    assert due is not None
    assert (due.place, due.of) == (2, 2)
    removed = participants_erase(participants=Participant.objects.all())
    assert removed["training_answers"] == 1
    assert not TrainingAnswer.objects.exists()


def test_scripted_people_know_the_answers_and_nobody_else(browser: Client) -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    pages = []
    for is_synthetic in (False, True):
        task = task_open(participant=make_participant(study, is_synthetic=is_synthetic))
        token = participant_token(task.participant)
        pages.append(shown(browser.get(f"/task/{task.public_id}/practice/?t={token}")))
    assert "_right" not in pages[0]
    assert 'name="_right" value="fluency=same&amp;quality=a"' in pages[1]
