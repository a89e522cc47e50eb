"""Pairwise studies: who gets which items, in which order of replies, and how many people an item gets."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from tests.builders import make_items, make_pairwise, make_participant, make_study
from webapp.core.errors import Refused
from webapp.ratings.services import rating_add
from webapp.studies.models import Slot, Study, Task
from webapp.studies.rubrics import rubric_default
from webapp.studies.selectors import study_refusal
from webapp.studies.services import task_close, task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
SAME = dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), 0)


def judged(study: Study) -> Task:
    """Let somebody take a task on and judge all of it."""
    task = task_open(participant=make_participant(study))
    for slot in task.slots.all():
        rating_add(task=task, target=slot.item, answers=SAME)
    return task


def test_each_reply_stands_on_each_side_for_half_of_the_people() -> None:
    study = make_pairwise(n_items=3)
    for _person in range(8):
        judged(study)
    for item in study.items.all():
        assert item.slots.count() == 8
        assert item.slots.filter(is_flipped=True).count() == 4


def test_a_side_that_was_lost_with_its_place_is_given_again() -> None:
    study = make_pairwise(n_items=1)
    first = task_open(participant=make_participant(study))
    task_close(task=first, state=Task.State.EXPIRED)
    for _person in range(2):
        judged(study)
    sides = Slot.objects.exclude(task=first).values_list("is_flipped", flat=True)
    assert sorted(sides) == [False, True]


def test_items_get_the_people_that_are_wanted_and_more_only_to_fill_up_a_task() -> None:
    study = make_pairwise(n_items=3, n_in_task=2, raters_wanted=2, raters_most=3)
    for _person in range(3):
        judged(study)
    assert sorted(item.slots.count() for item in study.items.all()) == [2, 2, 2]
    late = make_participant(study)
    refusal = study_refusal(study, late)
    assert refusal is not None
    assert refusal.code == "full"
    with pytest.raises(Refused) as refused:
        task_open(participant=late)
    assert refused.value.code == "full"
    study_edit(study=study, raters_wanted=3)
    study.refresh_from_db()
    assert study_refusal(study, late) is None


def test_the_last_task_is_filled_up_but_never_beyond_the_most() -> None:
    study = make_pairwise(n_items=3, n_in_task=2, raters_wanted=1, raters_most=2)
    for _person in range(2):
        judged(study)
    assert sorted(item.slots.count() for item in study.items.all()) == [1, 1, 2]


def test_scripted_people_take_nobodys_place() -> None:
    study = make_pairwise(n_items=1, raters_wanted=1)
    for _person in range(2):
        task_open(participant=make_participant(study, is_synthetic=True))
    assert task_open(participant=make_participant(study)).slots.count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"raters_least": 6, "raters_wanted": 5}, "raters_least"),
        ({"raters_wanted": 9, "raters_most": 8}, "raters_most"),
        ({"raters_least": 9, "raters_most": 8}, "raters_most"),
    ],
)
def test_numbers_of_people_that_cannot_be_are_refused(fields: dict[str, int], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("p", bots=[], protocol="pairwise", state="draft", **fields)
    assert list(refused.value.message_dict) == [field]


def test_it_opens_with_items_of_two_replies_each() -> None:
    study = make_study("p", bots=[], protocol="pairwise", state="draft")
    make_items(study, 1)
    with pytest.raises(ValidationError, match="1 items do not hold 2 replies each, such as “i0”"):
        study_edit(study=study, state=Study.State.COLLECTING)


def test_a_draft_that_becomes_a_comparison_asks_its_questions_and_back() -> None:
    study = make_study("p", state="draft")
    study_edit(study=study, protocol="pairwise")
    study.refresh_from_db()
    asked = {dimension.key: dimension.scale for dimension in study.rubric.dimensions.all()}
    assert asked == dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), (-1, 1))
    study_edit(study=study, protocol="chat")
    study.refresh_from_db()
    assert study.rubric.dimensions.count() == 5


def test_questions_on_another_scale_are_refused() -> None:
    with pytest.raises(ValidationError, match="asks on a scale from -1 to 1, and “quality” has another"):
        make_study("p", bots=[], protocol="pairwise", state="draft", rubric=rubric_default())
