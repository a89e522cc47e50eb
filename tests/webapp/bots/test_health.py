"""Bots' health by their replies: failures in a row set a bot aside, a reply brings it back, trials are few."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from chatbots.bots.endpoint import EndpointBot
from chatbots.registry import bots
from tests.fakes import FakeStreamBot
from webapp.bots.models import BotAside, BotHealth
from webapp.bots.selectors import (
    MOST_PAID_TRIES,
    BotEntry,
    bot_available_ids,
    bot_entry_list,
    bot_tries_itself,
    bots_to_try,
)
from webapp.bots.services import bot_answered, bot_came_back, bot_failed, bot_put_back, bot_set_aside, bot_try_claim

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
    assert "failed at its last 2 replies" in entry().trouble
    assert "no reply in b" in entry().trouble
    fail("b")
    assert entry().is_set_aside
    assert bot_available_ids(["shaky", "eliza"]) == ["eliza"]


def test_a_reply_in_between_starts_the_count_anew_and_one_brings_a_bot_back() -> None:
    fail("a")
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


def test_failures_among_the_latest_replies_set_a_bot_aside_until_a_person_puts_it_back() -> None:
    told: list[tuple[str, str]] = []

    def on_aside(aside, **_: object) -> None:
        told.append(("aside", aside.bot_id))

    def on_back(aside, **_: object) -> None:
        told.append(("back", aside.ended_by))

    bot_set_aside.connect(on_aside)
    bot_came_back.connect(on_back)
    try:
        for chat in "abc":
            fail(chat)
            for _ in range(2):
                bot_answered(bot_id="shaky")
        assert not entry().is_set_aside, "three of nine"
        bot_answered(bot_id="shaky")
        fail("d")
        assert not entry().is_set_aside, "the first of them is no longer among the latest ten"
        fail("e")
        aside = BotAside.objects.get()
        assert (aside.n_failed, aside.of_n, aside.needs_person) == (4, 10, True)
        assert "no reply in e" in aside.reason
        assert not bot_tries_itself(entry())
        bot_answered(bot_id="shaky")
        assert entry().is_set_aside, "one good reply does not mend it"
        assert bot_put_back(bot_id="shaky")
        assert not bot_put_back(bot_id="shaky")
        assert bot_available_ids(["shaky"]) == ["shaky"]
        fail("a", "b")
        assert not entry().is_set_aside, "its window begins anew"
        assert told == [("aside", "shaky"), ("back", "person")]
    finally:
        bot_set_aside.disconnect(on_aside)
        bot_came_back.disconnect(on_back)


def test_a_bot_that_comes_back_by_itself_and_fails_again_waits_for_a_person() -> None:
    fail("a", "b", "c")
    bot_answered(bot_id="shaky")
    fail("d", "e", "f")
    first, second = BotAside.objects.order_by("pk")
    assert (first.needs_person, first.ended_by) == (False, BotAside.EndedBy.REPLY)
    assert second.needs_person
    bot_answered(bot_id="shaky")
    assert entry().is_set_aside


def test_one_chat_alone_sets_no_bot_aside() -> None:
    fail(*["a"] * 10)
    assert "last 10 replies" in entry().trouble
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
    assert (bots_to_try("default"), bots_to_try("gpu"), bots_to_try(None)) == ([], ["shaky"], ["shaky"])


@pytest.mark.django_db(transaction=True)
def test_many_failures_at_one_time_set_a_bot_aside_once() -> None:
    told: list[str] = []

    def on_aside(aside, **_: object) -> None:
        told.append(aside.bot_id)

    def work(number: int) -> None:
        together.wait()
        until = time.monotonic() + 60  # another test may have left a lock behind
        while time.monotonic() < until:
            try:
                fail(f"chat {number}")
                break
            except OperationalError:  # SQLite in memory does not wait for its turn
                continue
        connection.close()

    together = threading.Barrier(8)
    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    bot_set_aside.connect(on_aside)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        bot_set_aside.disconnect(on_aside)
    assert told == ["shaky"]
    assert BotHealth.objects.get().n_failed == 8
    assert BotAside.objects.get().n_failed == 3
