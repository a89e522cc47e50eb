"""Bots' health by their replies: failures in a row set a bot aside, a reply brings it back, trials are few."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from chatbots.bots.endpoint import EndpointBot
from chatbots.registry import bots
from tests.fakes import FakeStreamBot
from webapp.bots.models import BotHealth
from webapp.bots.selectors import (
    MOST_PAID_TRIES,
    BotEntry,
    bot_available_ids,
    bot_entry_list,
    bots_to_try,
)
from webapp.bots.services import bot_answered, bot_failed, bot_try_claim

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _bots() -> Iterator[None]:
    made = [
        FakeStreamBot(name="shaky"),
        EndpointBot(name="paid", model="m"),
        EndpointBot(name="unpaid", model="m", price_in=0.0, price_out=0.0),
    ]
    for bot in made:
        bots.add(bot)
    yield
    for bot in made:
        bots.discard(bot.name)


def entry(bot_id: str = "shaky") -> BotEntry:
    return next(one for one in bot_entry_list() if one.id == bot_id)


def fail(*chats: str, bot_id: str = "shaky") -> None:
    for chat in chats:
        bot_failed(bot_id=bot_id, reason=f"no reply in {chat}\x00", chat=chat)


def due(bot_id: str) -> bool:
    BotHealth.objects.filter(bot_id=bot_id).update(try_at=timezone.now() - timedelta(seconds=1))
    return bot_id in bots_to_try(None)


def test_several_failures_in_a_row_in_several_chats_set_a_bot_aside() -> None:
    fail("a", "b")
    assert not entry().is_set_aside
    assert bot_available_ids(["shaky"]) == ["shaky"]
    assert "failed at its latest 2 replies" in entry().trouble
    assert "no reply in b" in entry().trouble
    fail("b")
    assert entry().is_set_aside
    assert bot_available_ids(["shaky", "eliza"]) == ["eliza"]


def test_a_reply_in_between_starts_the_count_anew_and_one_brings_a_bot_back() -> None:
    fail("a", "b")
    bot_answered(bot_id="shaky")
    assert entry().trouble == ""
    fail("c", "d")
    assert not entry().is_set_aside
    fail("e")
    assert entry().is_set_aside
    bot_answered(bot_id="shaky")
    assert not entry().is_set_aside
    assert bot_available_ids(["shaky"]) == ["shaky"]
    assert not due("shaky")


def test_one_chat_alone_sets_no_bot_aside() -> None:
    fail(*["a"] * 10)
    assert "latest 10 replies" in entry().trouble
    assert not entry().is_set_aside
    fail("b")
    assert entry().is_set_aside


def test_trials_are_claimed_once_and_come_less_and_less_often() -> None:
    fail("a", "b", "c")
    assert bots_to_try(None) == [], "the first comes after a minute"
    pauses = []
    for _ in range(8):
        assert due("shaky")
        assert bot_try_claim(bot_id="shaky")
        assert not bot_try_claim(bot_id="shaky"), "another host is slower"
        pause = BotHealth.objects.get(bot_id="shaky").try_at - timezone.now()
        pauses.append(round(pause.total_seconds() / 60))
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_trials_of_bots_that_may_cost_money_end() -> None:
    for bot_id in ("paid", "unpaid"):
        fail("a", "b", "c", bot_id=bot_id)
        BotHealth.objects.filter(bot_id=bot_id).update(n_tries=MOST_PAID_TRIES - 1)
        assert due(bot_id)
        assert bot_try_claim(bot_id=bot_id)
    assert not due("paid")
    assert due("unpaid")


def test_bots_of_other_pools_and_unknown_ones_are_left_alone(settings) -> None:
    settings.CONFAB_BOT_POOLS = {"shaky": "gpu"}
    for bot_id in ("shaky", "gone"):
        fail("a", "b", "c", bot_id=bot_id)
        due(bot_id)
    assert (bots_to_try("default"), bots_to_try("gpu"), bots_to_try(None)) == (
        [],
        ["shaky"],
        ["shaky"],
    )
