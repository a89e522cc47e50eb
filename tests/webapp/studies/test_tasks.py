"""What the database itself refuses of tasks and their slots."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from tests.builders import make_conversation, make_participant, make_study
from webapp.studies.items import item_add
from webapp.studies.models import Item, Slot, Task
from webapp.studies.services import task_complete, task_open, task_withdraw

pytestmark = pytest.mark.django_db


@pytest.fixture
def task() -> Task:
    """Open a task whose one slot is a chat."""
    return task_open(participant=make_participant(make_study()))


def refused(make: Any) -> bool:
    """Tell whether the database refuses it, and nothing else does."""
    try:
        with transaction.atomic():
            make()
    except IntegrityError:
        return True
    return False


def test_a_slot_has_exactly_one_target_and_its_own_place(task: Task) -> None:
    study = task.participant.study
    item = item_add(study=study, key="i", context=["hi"], responses=[{"model": "m", "text": "yo"}])
    chat = make_conversation(study)

    def slot(**fields: Any) -> Any:
        return lambda: Slot.objects.create(task=task, **{"order": 5, **fields})

    assert refused(slot())
    assert refused(slot(bot_id="eliza", item=item))
    assert refused(slot(conversation=chat, item=item))
    assert refused(slot(order=0, item=item)), "the place is taken"
    assert not refused(slot(order=1, item=item, side="A"))
    assert not refused(slot(order=2, conversation=chat, side="B"))
    assert not refused(slot(order=3, item=item, side="A")), "sides come again in the next pair"


def test_an_item_has_a_name_of_its_own_and_something_to_judge(task: Task) -> None:
    study, reply = task.participant.study, {"model": "m", "text": "yo"}
    item_add(study=study, key="i", context=[], responses=[reply], reference="good day")
    for key, responses in (("i", [reply]), ("j", []), ("j", [{"model": "m", "text": ""}])):
        with pytest.raises(ValidationError):
            item_add(study=study, key=key, context=[], responses=responses)
    assert refused(lambda: Item.objects.create(study=study, key="i", responses=[reply]))


def test_a_task_is_open_without_or_completed_with_code_and_outcome(task: Task) -> None:
    mine = Task.objects.filter(pk=task.pk)
    assert refused(lambda: mine.update(state="completed"))
    assert refused(lambda: mine.update(state="completed", completion_code="X"))
    assert refused(lambda: mine.update(state="completed", outcome="rated"))
    assert refused(lambda: mine.update(outcome="withdrawn"))
    assert refused(lambda: mine.update(completion_code="X"))
    assert refused(lambda: Task.objects.create(participant=task.participant, kind="chat", version=task.version))


def test_what_has_ended_in_something_stays_so(task: Task) -> None:
    done = task_complete(task=task)
    assert task_withdraw(task=done).outcome == "rated"
    assert task_complete(task=done, outcome="bot_failed").outcome == "rated"
