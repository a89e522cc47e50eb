"""What a study of items says of its items: on its page, in the report and as an exported table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_items, make_participant, make_staff, make_study
from webapp.core.rights import Right
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.results.compute import PARTS
from webapp.results.study_data import study_data
from webapp.studies.models import Dimension, Study
from webapp.studies.rubrics import rubric_create
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def make_graded(n_people: int = 5) -> Study:
    """Make a study in which everybody grades six items from 0 to 3; of the model `a` higher."""
    rubric = rubric_create(
        name="grades", dimensions=[Dimension(key="overall", title="Overall", question="How good?")], low=0, high=3
    )
    study = make_study("g", protocol="majority", bots=[], state="draft", n_items=6, rubric=rubric)
    make_items(study, 6)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for person in range(n_people):
        task = task_open(participant=make_participant(study))
        for judgement in requested_ratings(task):
            item = judgement.slots[0].item
            number = int(item.key.removeprefix("i"))
            grade = 3 - (person + number) % 2 if number % 2 == 0 else (person * number) % 2
            rating_add(task=task, target=item, answers={"overall": grade})
    return study


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def found(study: Study) -> Any:
    data = study_data(study)
    assert data is not None
    return PARTS["items"].make(data, None)


def text_of(client: Client, name: str, *args: str, **query: str) -> str:
    answer = client.get(reverse(f"dashboard:{name}", args=args), query)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_means_grades_and_labels_are_those_of_the_stored_ratings() -> None:
    result = found(make_graded())
    [overall] = result.means.dimensions
    assert (result.means.n_items, result.means.fewest, result.means.most) == (6, 5, 5)
    by_item = {one.item: one for one in overall.items}
    assert by_item["i0"].mean == pytest.approx((3 + 2 + 3 + 2 + 3) / 5)
    grades = {one.item: one for one in result.grades.items}
    assert (grades["i0"].grade, grades["i0"].counts) == (3, (0, 0, 2, 3))
    assert grades["i2"].by_majority == "entailment"
    assert grades["i1"].by_majority == "contradiction"


def test_its_page_tells_of_items_and_nothing_of_conversations(staff: Client) -> None:
    study = make_graded()
    page = text_of(staff, "study_why", study.key, part="items")
    for words in (
        "6 items, each rated by 5 people",
        "Labels of the items",
        "Entailment",
        "Means of the items on overall",
        "i4",
    ):
        assert words in page, words
    assert "#trajectories" not in page, "items have no course"
    answer = staff.get(reverse("dashboard:study_why", args=[study.key]) + "?part=trajectories")
    assert answer.status_code == 404
    cards = text_of(staff, "study", study.key).split('<dl class="cards">')[1].split("</dl>")[0]
    assert "Conversations" not in cards
    assert "exchanges" not in cards
    assert "<strong>6</strong> of 6 rated" in cards
    assert "<strong>30</strong> none excluded" in cards
    raters = text_of(staff, "study_why", study.key, part="raters")
    assert "Raters of the same item agree" in raters
    assert "the same conversation" not in raters


def test_work_that_missed_a_check_is_counted_on_the_overview(staff: Client) -> None:
    check = {"response": "choose 2 below", "expected": {"overall": [2]}}
    study = study_edit(study=make_graded(2), attention_checks=[check], n_items=2)
    task = task_open(participant=make_participant(study))
    for judgement in requested_ratings(task):
        rating_add(task=task, target=judgement.target, answers={"overall": 0})
    cards = text_of(staff, "study", study.key)
    assert "and 2 of 1 task excluded: a check was missed" in cards
    bots = text_of(staff, "study_results", study.key)
    assert "Ratings of people who missed a check are left out." in bots
