"""Choosing exactly so many of several things, and the weights that another study makes of it."""

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from scipy.special import softmax

from tests.builders import make_participant, make_staff, make_study
from tests.webapp.participant.conftest import csrf, shown, started
from tests.webapp.participant.test_reference import make_referenced, rate
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.results.compute import PARTS
from webapp.results.fingerprint import data_state
from webapp.results.paper_benchmarks import paper_benchmarks
from webapp.results.study_data import study_data
from webapp.studies.models import Study, Task
from webapp.studies.pre_task import question_answers_store
from webapp.studies.selectors import study_refusal
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
KEYS = ("relevance", "engagingness", "fluency", "understandability", "emotional_awareness", "personality_awareness")


def make_choosing(key: str = "a", **fields: Any) -> Study:
    return make_study(key, protocol="choose", bots=[], **fields)


def choose(study: Study, *chosen: str) -> None:
    task = task_open(participant=make_participant(study))
    [judgement] = requested_ratings(task)
    answers = {key: int(key in chosen) for key in KEYS}
    rating_add(task=task, target=judgement.target, answers=answers)


def send(browser: Client, address: str, *chosen: str) -> Any:
    sent = {"_n": "1", "chosen": list(chosen), "csrfmiddlewaretoken": csrf(browser)}
    return browser.post(address, sent)


def test_exactly_so_many_are_chosen_once_by_each_person(browser: Client) -> None:
    study = make_choosing()
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert page.count('type="checkbox" name="chosen"') == 6
    assert "Which of these matter most for a good reply?" in page
    assert "Choose exactly 4: 0 chosen." in page
    for chosen in ((), KEYS[:3], KEYS[:5], ("nothing", *KEYS[:3])):
        answered = send(browser, address, *chosen)
        assert answered.status_code == 200, chosen
        page = shown(answered)
        n = len([key for key in chosen if key in KEYS])
        assert f"Please choose exactly 4; you chose {n}." in page
        assert page.count(" checked") == n, "what was ticked stays"
    assert not Rating.objects.exists()
    assert send(browser, address, *KEYS[:4]).url.endswith("/done/")
    assert Rating.objects.get().answers == {key: int(key in KEYS[:4]) for key in KEYS}
    person = Task.objects.get().participant
    refusal = study_refusal(study, person)
    assert refusal.code == "all_rated"


def test_each_answer_to_the_question_of_the_group_is_a_group_of_figure_4() -> None:
    question = {"key": "group", "title": "Who are you?", "kind": "choice", "options": ["expert", "user"]}
    study = make_choosing(questions=[question], smallest_group=3)
    for group, chosen in (("expert", KEYS[:4]), ("user", KEYS[2:])) * 3:
        task = task_open(participant=make_participant(study))
        question_answers_store(task=task, answers={"group": group})
        [judgement] = requested_ratings(task)
        rating_add(task=task, target=judgement.target, answers={key: int(key in chosen) for key in KEYS})
    [rated_set] = paper_benchmarks().sets
    assert rated_set.approval is not None
    shares = {
        name: {option.option: option.approval for option in approval.options}["relevance"]
        for name, approval in rated_set.approval.items()
    }
    assert shares == {f"{study.name}: expert": 1, f"{study.name}: user": 0}


def test_no_way_in_stores_another_number(browser: Client) -> None:
    study = make_choosing()
    task = task_open(participant=make_participant(study))
    [judgement] = requested_ratings(task)
    with pytest.raises(Refused):
        rating_add(task=task, target=judgement.target, answers=dict.fromkeys(KEYS, 1))
    with pytest.raises(Refused):
        rating_add(task=task, target=judgement.target, answers=dict.fromkeys(KEYS, 2))
    choose(study, *KEYS[:4])
    with pytest.raises(IntegrityError), transaction.atomic():
        Rating.objects.update(answers={"relevance": 2})


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        make_choosing(n_choose=6)
    assert "With 6 options, participants must choose fewer than 6, not 6." in refused.value.message_dict["n_choose"][0]
    assert study_edit(study=make_choosing("b", n_choose=2), n_choose=5).items.count() == 1


def test_the_shares_and_their_weights_stand_on_its_page(client: Client) -> None:
    study = make_choosing()
    choose(study, *KEYS[:4])
    choose(study, *KEYS[2:])
    data = study_data(study)
    assert data is not None
    result = PARTS["items"].make(data, None).approval
    shares = [0.5, 0.5, 1, 1, 0.5, 0.5]
    assert [option.option for option in result.options] == list(KEYS)
    assert [option.approval for option in result.options] == shares
    assert list(result.weights.values()) == pytest.approx(softmax(shares).tolist())
    client.force_login(make_staff(Right.READ))
    address = reverse("dashboard:study_why", args=[study.key]) + "?part=items"
    page = shown(client.get(address))
    assert "2 people made a choice." in page
    assert re.search(r"Emotional awareness.*?\.50", page)


def test_a_study_beside_references_is_weighed_by_what_people_chose() -> None:
    choosing = make_choosing("w")
    study = make_referenced(weights_study="w")
    rate(study, 1, 1)
    data = study_data(study)
    assert data is not None
    result = PARTS["items"].make(data, None)
    assert result.weights_from == "", "nobody has chosen yet: all count alike"
    assert set(result.beside.weights.values()) == {0.25}
    before = data_state(study).digest
    choose(choosing, *KEYS[:4])
    assert data_state(study).digest != before, "what was computed with other weights is old"
    result = PARTS["items"].make(data, None)
    shares = {"relevance": 1, "fluency": 1, "emotional_awareness": 0, "personality_awareness": 0}
    expected = dict(zip(shares, softmax(list(shares.values())), strict=True))
    assert result.weights_from == "w"
    assert result.beside.weights == pytest.approx(expected)
