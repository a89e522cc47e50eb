"""How people come through a study is noted: links that were opened, steps that were reached."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import make_conversation, make_study
from webapp.studies.models import LinkOpening, Participant, Study, Task, Whereabouts
from webapp.studies.selectors import rehearsal_token
from webapp.studies.ways import step_reached

pytestmark = pytest.mark.django_db


def test_a_link_is_counted_once_for_each_browser_and_answered_there() -> None:
    study = make_study()
    first, second = Client(), Client()
    address = f"/s/{study.key}/"
    for _ in range(3):
        first.get(address)
    second.get(address)
    first.head(address)
    Client().get(f"{address}?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&workerId=w")
    Client().get(f"{address}?rehearsal={rehearsal_token(study)}")
    assert LinkOpening.objects.filter(is_synthetic=False).count() == 2
    assert LinkOpening.objects.filter(is_synthetic=True).count() == 1
    first.post(f"{address}start/", {"consent": "on"})
    assert LinkOpening.objects.exclude(answered_at=None).count() == 1
    Study.objects.update(state=Study.State.PAUSED)
    second.get(address)
    assert LinkOpening.objects.get(refused="paused").answered_at is None


def test_the_step_that_somebody_looks_at_and_the_furthest_one_are_kept() -> None:
    conversation = make_conversation(make_study())
    task = conversation.task
    step_reached(task=task, step="chat")
    step_reached(task=task, step="form")
    step_reached(task=task, step="chat")
    step_reached(task=task, step="no step of it")
    where = Whereabouts.objects.get()
    assert (where.step, where.furthest, where.study_id) == (
        "chat",
        "form",
        task.participant.study_id,
    )
    Task.objects.update(state=Task.State.EXPIRED)
    task.refresh_from_db()
    step_reached(task=task, step="form")
    where.refresh_from_db()
    assert where.step == "chat"
    Participant.objects.all().delete()
    assert not Whereabouts.objects.exists()
