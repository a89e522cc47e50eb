"""A bot that is set aside is given to nobody new, by any rule and protocol; it makes way in tasks under way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import exchange, make_arena, make_conversation, make_participant, make_rating, make_study
from webapp.bots.services import bot_failed, bot_put_back
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.ratings.services import comparison_submit
from webapp.studies.assignment.rules.base import rules
from webapp.studies.models import Slot
from webapp.studies.services import task_open

pytestmark = pytest.mark.django_db
BOTS = ["eliza", "parrot", "generic"]


def set_aside(*bot_ids: str) -> None:
    for bot_id in bot_ids:
        for chat in "abc":
            bot_failed(bot_id=bot_id, reason="broken", chat=chat)


def given(study: Any) -> set[str]:
    return {*task_open(participant=make_participant(study)).bot_ids}


@pytest.mark.parametrize("rule", [rule.name for rule in rules])
def test_nobody_new_is_given_it(rule: str) -> None:
    set_aside("parrot")
    chat = make_study("c", bots=BOTS, rule=rule)
    row = make_study("r", bots=BOTS, rule=rule, bots_in_a_row=2)
    arena = make_arena("a", bots=BOTS, rule=rule)
    for _ in range(6):
        for study in (chat, row, arena):
            assert "parrot" not in given(study)
    set_aside("eliza")
    with pytest.raises(Refused) as refused:
        given(arena)
    assert refused.value.code == "no_bot"
    assert given(chat) == {"generic"}
    bot_put_back(bot_id="parrot")
    assert given(arena) == {"parrot", "generic"}


def test_a_chat_to_come_with_it_makes_way() -> None:
    study = make_study("r", bots=BOTS, bots_in_a_row=2)
    first = make_conversation(study, n_exchanges=3)
    coming = first.task.slots.get(order=1).bot_id
    set_aside(coming)
    make_rating(first)
    second = Conversation.objects.get(state=Conversation.State.OPEN)
    assert {first.bot.bot_id, coming, second.bot.bot_id} == {*BOTS}
    assert not Slot.objects.filter(bot_id=coming).exists()


def test_without_another_bot_the_task_ends_early_with_pay() -> None:
    study = make_study("r", bots=BOTS[:2], bots_in_a_row=2)
    first = make_conversation(study, n_exchanges=3)
    set_aside(first.task.slots.get(order=1).bot_id)
    task = make_rating(first).task
    assert (task.outcome, bool(task.completion_code)) == ("bot_failed", True)


def test_pairs_to_come_with_it_make_way_and_without_any_the_task_ends_early() -> None:
    study = make_arena("a", bots=[*BOTS, "retrieval"])
    conversation = make_conversation(study)
    task = conversation.task
    slots = list(task.slots.order_by("order"))
    away = ({slots[2].bot_id, slots[3].bot_id} - {slots[0].bot_id, slots[1].bot_id}).pop()
    set_aside(away)
    for chat in Conversation.objects.all():
        exchange(chat, "hello", "hi")
    comparison_submit(task=task, slots=(slots[0], slots[1]), choice="a")
    coming = set(Conversation.objects.filter(state="open").values_list("bot__bot_id", flat=True))
    assert len(coming) == 2
    assert away not in coming
    task.refresh_from_db()
    assert task.state == "open"


def test_without_another_pair_the_task_ends_early_with_pay() -> None:
    study = make_arena("a", bots=BOTS)
    task = make_conversation(study).task
    slots = list(task.slots.order_by("order"))
    set_aside(*{slots[2].bot_id, slots[3].bot_id})
    for chat in Conversation.objects.all():
        exchange(chat, "hello", "hi")
    ended = comparison_submit(task=task, slots=(slots[0], slots[1]), choice="a").task
    assert (ended.outcome, bool(ended.completion_code)) == ("bot_failed", True)
