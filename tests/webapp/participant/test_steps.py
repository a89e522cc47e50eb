"""Which step of the way somebody has come to, for everything that can become of a task."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.builders import fail_reply, make_conversation
from tests.webapp.participant.conftest import begin, chat, post
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import conversation_swap
from webapp.conversations.task_start import chat_elsewhere_close
from webapp.participant.steps.base import Standing, next_step, standing_of
from webapp.studies.models import Study, Task
from webapp.studies.services import consent_record, participant_enter

pytestmark = pytest.mark.django_db


def step_of(conversation: Conversation) -> str | None:
    step = next_step(standing_of(Conversation.objects.get(pk=conversation.pk)))
    return step.name if step else None


def test_before_a_task_come_consent_and_instructions(study: Study) -> None:
    assert next_step(Standing(study)).name == "consent"
    participant = participant_enter(study=study)
    assert next_step(Standing(study, participant)).name == "consent"
    consent_record(participant=participant)
    assert next_step(Standing(study, participant)).name == "instructions"


def test_a_task_that_ended_in_nothing_has_no_next_step(study: Study) -> None:
    swapped = make_conversation(study)
    fail_reply(swapped)
    following = conversation_swap(conversation=swapped)
    assert step_of(swapped) is None
    assert step_of(following) == "chat"


def test_an_old_address_leads_to_the_open_chat_and_else_to_the_beginning(study: Study, browser: Client) -> None:
    swapped = begin(browser)
    fail_reply(swapped)
    following = post(browser, f"/chat/{swapped.pk}/swap/").url.split("/")[2]
    for page in ("", "rate/", "done/"):
        assert browser.get(f"/chat/{swapped.pk}/{page}").url == f"/chat/{following}/"


def test_who_lost_the_place_to_another_visit_goes_on_with_the_chat(study: Study, browser: Client) -> None:
    left = begin(browser, query="?workerId=w1&assignmentId=a1")
    chat(left, 1)
    long_ago = timezone.now() - timedelta(hours=1)
    Turn.objects.filter(conversation=left).update(created_at=long_ago)
    Task.objects.filter(pk=left.task.pk).update(updated_at=long_ago)
    chat_elsewhere_close(participant=left.participant, submission="a2")
    assert step_of(left) == "chat"
    assert browser.get(f"/chat/{left.pk}/").status_code == 200
