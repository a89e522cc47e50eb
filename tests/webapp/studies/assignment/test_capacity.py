"""Places: how long they are held, quotas, groups of studies, counts that assignment goes by, one reason per refusal."""

import logging
import random
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import fail_reply, make_annotated, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.services import conversation_finish_failed, conversation_swap, conversation_withdraw
from webapp.conversations.task_start import chat_elsewhere_close
from webapp.core.errors import Refused
from webapp.studies.assignment.capacity import bot_loads, is_collecting
from webapp.studies.assignment.counterbalance import PairBegun, study_count_anew
from webapp.studies.models import Participant, Slot, Study, Task, TaskCount
from webapp.studies.privacy import participants_erase
from webapp.studies.selectors import study_refusal
from webapp.studies.services import task_complete, task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


BOTS = ["eliza", "parrot", "generic"]


def refused(participant: Any) -> str:
    with pytest.raises(Refused) as result:
        task_open(participant=participant)
    return result.value.code


def test_a_place_is_held_as_long_as_the_study_says() -> None:
    study = make_study(n_conversations_wanted=1, place_minutes=30)
    chat = make_conversation(study, n_exchanges=3, entry_nonce="late")
    assert refused(make_participant(study)) == "full"
    begun = timezone.now() - timedelta(minutes=29)
    Task.objects.update(created_at=begun)
    assert refused(make_participant(study)) == "full"
    Task.objects.update(created_at=begun - timedelta(minutes=2))
    assert task_open(participant=make_participant(study))
    # Who comes back late still finishes, and is counted.
    assert make_rating(chat).task.completion_code
    assert sum(bot_loads(study, study.bots, synthetic=False).values()) == 2


def test_a_chat_makes_way_for_another_visit_when_the_study_says() -> None:
    study = make_study(idle_minutes=3)
    chat = make_conversation(study, platform="prolific", external_id="p")
    Task.objects.update(updated_at=timezone.now() - timedelta(minutes=2))
    with pytest.raises(Refused, match="another window"):
        chat_elsewhere_close(participant=chat.participant, submission="other")
    Task.objects.update(updated_at=timezone.now() - timedelta(minutes=4))
    chat_elsewhere_close(participant=chat.participant, submission="other")
    assert Task.objects.get().state == Task.State.EXPIRED


def test_a_bot_with_all_its_conversations_takes_nobody_in() -> None:
    study = make_study(bots=BOTS, max_per_bot=3, bot_quotas={"parrot": 1, "generic": 0})
    given = Counter(task_open(participant=make_participant(study)).bot_ids[0] for _ in range(4))
    assert given == {"eliza": 3, "parrot": 1}
    assert refused(make_participant(study)) == "full"
    # Scripted participants take nobody's place, and nobody takes theirs.
    assert task_open(participant=make_participant(study, is_synthetic=True))


def test_what_ended_early_fills_no_quota() -> None:
    study = make_study(bots=["eliza"], max_per_bot=1)
    chat = make_conversation(study, n_exchanges=1)
    fail_reply(chat)
    assert refused(make_participant(study)) == "full"
    conversation_finish_failed(conversation=chat)
    make_rating(make_conversation(study, n_exchanges=3))
    assert refused(make_participant(study)) == "full"


def test_who_has_met_the_bots_with_room_hears_that_the_others_have_none() -> None:
    study = make_study(bots=["eliza", "parrot"], bot_quotas={"parrot": 1})
    make_rating(make_conversation(study, n_exchanges=3))  # the first of the two
    chats = [make_conversation(study, n_exchanges=3, entry_nonce=str(n)) for n in range(2)]
    [with_eliza] = [chat for chat in chats if chat.bot.bot_id == "eliza"][:1]
    make_rating(with_eliza)
    assert study_refusal(study, with_eliza.participant).code == "bots_full"
    assert refused(with_eliza.participant) == "bots_full"
    assert study_refusal(study, None) is None


def test_nobody_gets_a_bot_twice_in_a_group_of_studies() -> None:
    first = make_study("first", bots=["eliza", "parrot"], study_group="spring")
    second = make_study("second", bots=["eliza", "parrot", "generic"], study_group="spring")
    apart = make_study("apart", bots=["eliza"])
    ada = {"platform": "prolific", "external_id": "ada"}
    met = []
    for study in (first, first, second):
        chat = make_conversation(study, n_exchanges=3, **ada)
        make_rating(chat)
        met.append(chat.bot.bot_id)
    assert sorted(met[:2]) == ["eliza", "parrot"]
    assert met[2] == "generic"
    assert refused(make_participant(second, **ada)) == "all_rated"
    assert task_open(participant=make_participant(apart, **ada)).bot_ids == ["eliza"]
    # Another platform's id is somebody else.
    assert task_open(participant=make_participant(second, platform="mturk", external_id="ada"))


@pytest.mark.parametrize(
    ("fields", "name", "words"),
    [
        ({"bot_quotas": {"elisa": 3}}, "bot_quotas", "is not a chatbot of this study"),
        ({"bot_quotas": {"eliza": -1}}, "bot_quotas", "from 0 to 2000000000"),
        ({"bot_quotas": "eliza: many"}, "bot_quotas", "a colon and a number"),
        ({"bot_quotas": "eliza: 1\neliza: 2"}, "bot_quotas", "twice"),
        ({"place_minutes": 0}, "place_minutes", "from 1 to 100000"),
        ({"study_group": " x"}, "study_group", "spaces"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_its_field(fields: dict[str, Any], name: str, words: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        make_study(**fields)
    assert words in " ".join(wrong.value.message_dict[name])


def test_lines_of_a_form_are_quotas() -> None:
    study = study_edit(study=make_study(), bot_quotas="eliza: 30\n\nparrot:0")
    assert study.values.assignment.bot_quotas == {"eliza": 30, "parrot": 0}
    assert study.values.to_json()["assignment"]["bot_quotas"] == {"eliza": 30, "parrot": 0}


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"n_conversations_wanted": 1}, "full", "has all the participants it needs"),
        ({"max_per_bot": 1, "bot_quotas": {"parrot": 0}}, "full", "has all the participants it needs"),
        ({"max_conversations_per_participant": 1}, "limit", "the maximum number of times"),
    ],
)
def test_every_refusal_is_shown_and_logged_with_its_reason(
    client: Client, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], code: str, words: str
) -> None:
    study = make_study(bots=["eliza", "parrot"], **fields)
    chat = make_conversation(study, n_exchanges=3, platform="prolific", external_id="p")
    make_rating(chat)
    with caplog.at_level(logging.INFO, logger="webapp.participant.entry"):
        page = client.get(f"/s/{study.key}/?PROLIFIC_PID=p&SESSION_ID=next")
    assert words in page.content.decode()
    [line] = [record.getMessage() for record in caplog.records]
    assert line == f"study {study.key} refused participant {chat.participant_id}: {code}"


def test_what_is_found_before_the_planned_size_is_a_look_on_the_way() -> None:
    study = make_study(bots=["eliza", "parrot"], n_conversations_wanted=2, max_per_bot=0)
    assert is_collecting(study)
    make_rating(make_conversation(study, n_exchanges=3))
    assert is_collecting(study)
    assert is_collecting(study_edit(study=study, state="paused"))
    assert not is_collecting(study_edit(study=study, state="ended"))
    study = study_edit(study=study, state="collecting")
    make_rating(make_conversation(study, n_exchanges=3))
    assert not is_collecting(study)
    assert is_collecting(study_edit(study=study, n_conversations_wanted=0, max_per_bot=2))
    assert not is_collecting(study_edit(study=study, max_per_bot=1))
    assert not is_collecting(make_study("draft", state="draft"))


def counts(study: Study) -> Counter:
    rows = TaskCount.objects.filter(study=study, n_completed__gt=0)
    return Counter({(row.is_synthetic, row.bot_id, row.conversation_id, row.item_id): row.n_completed for row in rows})


def counted_one_by_one(study: Study) -> Counter:
    result: Counter = Counter()
    for task in Task.objects.filter(participant__study=study, state="completed"):
        synthetic = task.participant.is_synthetic
        result[(synthetic, "", None, None)] += 1
        # What ended early because a bot failed is paid, and none of the bot's conversations.
        for slot in task.slots.all() if task.outcome == "rated" else ():
            result[(synthetic, slot.bot_id, slot.conversation_id, slot.item_id)] += 1
    return result


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


@pytest.mark.parametrize(("n_first", "firsts"), [(1, {"a"}), (2, {"a", "b"}), (3, {"b"})])
def test_the_side_that_came_first_less_often_is_first_and_ties_are_drawn(n_first: int, firsts: set[str]) -> None:
    pair = PairBegun("a", "b", n_raters=4, n_first=n_first)
    orders = [pair.order_sides(random.Random(seed)) for seed in range(20)]
    assert {first for first, _second in orders} == firsts
    assert {frozenset(order) for order in orders} == {frozenset("ab")}
