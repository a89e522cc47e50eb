"""Counts that assignment goes by."""

from __future__ import annotations

import random
import uuid
from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import fail_reply, make_annotated, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.services import conversation_finish_failed, conversation_swap, conversation_withdraw
from webapp.studies.assignment.capacity import bot_loads
from webapp.studies.assignment.counterbalance import study_count_anew
from webapp.studies.models import Participant, Slot, Study, Task, TaskCount
from webapp.studies.privacy import participants_erase
from webapp.studies.services import task_complete, task_open

pytestmark = pytest.mark.django_db


def counts(study: Study) -> Counter:
    rows = TaskCount.objects.filter(study=study, n_completed__gt=0)
    return Counter({(row.is_synthetic, row.bot_id, row.conversation_id, row.item_id): row.n_completed for row in rows})


def counted_one_by_one(study: Study) -> Counter:
    found: Counter = Counter()
    for task in Task.objects.filter(participant__study=study, state="completed"):
        synthetic = task.participant.is_synthetic
        found[(synthetic, "", None, None)] += 1
        # What ended early because a bot failed is paid, and none of the bot's conversations.
        for slot in task.slots.all() if task.outcome == "rated" else ():
            found[(synthetic, slot.bot_id, slot.conversation_id, slot.item_id)] += 1
    return found


@pytest.mark.parametrize("seed", range(3))
def test_whatever_becomes_of_tasks_the_counts_are_right(seed: int) -> None:
    study, draw = make_study(bots=["eliza", "parrot", "generic"]), random.Random(seed)
    for number in range(25):
        is_synthetic = draw.random() < 0.2
        chat = make_conversation(study, n_exchanges=3, entry_nonce=str(number), is_synthetic=is_synthetic)
        what = draw.choice(["rate", "rate", "withdraw", "finish", "swap", "leave", "erase"])
        if what in ("rate", "erase"):
            make_rating(chat)
            task_complete(task=chat.task)  # again
        if what == "withdraw":
            conversation_withdraw(conversation=chat)
        if what in ("finish", "swap"):
            fail_reply(chat)
        if what == "finish":
            conversation_finish_failed(conversation=chat)
        if what == "swap":
            conversation_swap(conversation=chat)
        if what == "erase":
            participants_erase(participants=Participant.objects.filter(pk=chat.participant_id))
    kept = counts(study)
    assert kept == counted_one_by_one(study)
    assert kept
    study_count_anew(study_id=study.pk)
    assert counts(study) == kept
    loads = bot_loads(study, study.bots, synthetic=False)
    people = Slot.objects.filter(task__participant__is_synthetic=False)
    in_use = people.exclude(task__outcome="bot_failed").filter(task__state__in=["completed", "open"])
    assert loads == {bot_id: in_use.filter(bot_id=bot_id).count() for bot_id in study.bots}


def test_items_are_spread_evenly_and_drawn_by_the_seed() -> None:
    study = make_annotated(n_items=9)
    tasks = [task_open(participant=make_participant(study)) for _ in range(6)]
    given = Counter(slot.item_id for task in tasks for slot in task.slots.all())
    assert set(given.values()) == {2}
    for task in tasks[:3]:
        task_complete(task=task)
    assert counts(study) == counted_one_by_one(study)
    for task in tasks[3:]:
        task_complete(task=task)
    again = task_open(participant=tasks[0].participant)
    assert not {s.item_id for s in again.slots.all()} & {s.item_id for s in tasks[0].slots.all()}


def test_an_assignment_takes_the_same_queries_however_much_was_done_before() -> None:
    study = make_study(bots=["eliza", "parrot", "generic"], n_conversations_wanted=1000, max_per_bot=500)

    def queries() -> int:
        participant = make_participant(study, platform="prolific", external_id=str(uuid.uuid4()))
        with CaptureQueriesContext(connection) as captured:
            task_open(participant=participant)
        return len(captured)

    first = queries()
    for number in range(40):
        task = task_open(participant=make_participant(study, entry_nonce=f"n{number}"))
        if number % 4:
            task_complete(task=task)
    assert queries() == first
    assert first <= 12


def test_a_draw_takes_the_same_queries_however_many_items_there_are(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    study = make_annotated(n_items=200)
    participant = make_participant(study)
    with django_assert_max_num_queries(18):
        task_open(participant=participant)
