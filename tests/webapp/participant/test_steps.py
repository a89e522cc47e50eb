"""Which step of the way somebody has come to, for everything that can become of a task."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.participant.conftest import begin, chat
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.task_start import chat_elsewhere_close
from webapp.participant.steps.base import next_step, standing_of
from webapp.studies.models import Study, Task

pytestmark = pytest.mark.django_db


def step_of(conversation: Conversation) -> str | None:
    step = next_step(standing_of(Conversation.objects.get(pk=conversation.pk)))
    return step.name if step else None


def test_who_lost_the_place_to_another_visit_goes_on_with_the_chat(study: Study, browser: Client) -> None:
    left = begin(browser, query="?workerId=w1&assignmentId=a1")
    chat(left, 1)
    long_ago = timezone.now() - timedelta(hours=1)
    Turn.objects.filter(conversation=left).update(created_at=long_ago)
    Task.objects.filter(pk=left.task.pk).update(updated_at=long_ago)
    chat_elsewhere_close(participant=left.participant, submission="a2")
    assert step_of(left) == "chat"
    assert browser.get(f"/chat/{left.pk}/").status_code == 200
