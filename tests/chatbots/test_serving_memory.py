"""The memory budget of a `BotHost`: who is unloaded for whom, who never, and what is said of it."""

from __future__ import annotations

import asyncio

import pytest

from chatbots.bots.base import BotError
from chatbots.serving import BotHost
from tests.chatbots.test_serving_host import ask, host_of, outcome, until
from tests.fakes import FakeStepBot, FakeStreamBot, FakeWholeBot, says

__all__ = ["host_of"]

KINDS = [FakeStepBot, FakeStreamBot, FakeWholeBot]


def bot_of(make=FakeStepBot, name="b", memory_bytes=10, **script):
    """Make a fake that says how much memory it takes."""
    return type(make.__name__, (make,), {"memory_bytes": memory_bytes})(name=name, **script)


def states(host: BotHost) -> dict[str, str]:
    return {bot_id: numbers["state"] for bot_id, numbers in host.load_numbers().items()}


@pytest.mark.parametrize("make", KINDS)
async def test_the_bot_used_longest_ago_makes_room_and_comes_back_when_asked(host_of, make):
    a, b, c = (bot_of(make, name) for name in "abc")
    host = host_of(a, b, c, memory_limit_bytes=25)
    for name in "aba":
        assert await ask(host, name, "hi") == "echo: hi"
    assert await ask(host, "c", "hi") == "echo: hi"
    assert states(host) == {"a": "ready", "b": "unloaded", "c": "ready"}
    assert (b.loads, b.unloads) == (1, 1)
    assert await ask(host, "b", "again") == "echo: again"
    assert states(host) == {"a": "unloaded", "b": "ready", "c": "ready"}
    numbers = host.load_numbers()
    assert [numbers[n]["unloads"] for n in "abc"] == [1, 1, 0]
    assert host.totals()["memory_bytes"] == 20
    assert host.totals()["memory_limit_bytes"] == 25
    assert host.totals()["loaded"] == 2
    assert host.totals()["resident_bytes"] > 1_000_000


async def test_without_a_limit_nobody_is_unloaded(host_of):
    bots = [bot_of(name=f"b{i}", memory_bytes=10**15) for i in range(5)]
    host = host_of(*bots)
    for bot in bots:
        await ask(host, bot.name, "hi")
    assert host.totals()["loaded"] == 5


@pytest.mark.parametrize("make", KINDS)
async def test_a_bot_in_use_is_never_unloaded_others_wait_for_it(host_of, make):
    used, next_one = bot_of(make, "used", hangs=says("stuck")), bot_of(make, "next")
    host = host_of(used, next_one, memory_limit_bytes=15)
    working = asyncio.create_task(outcome(host, "used", "stuck"))
    await until(lambda: states(host).get("used") == "ready" and used.batches)
    waiting = asyncio.create_task(ask(host, "next", "hi"))
    await until(lambda: states(host).get("next") == "loading")
    await asyncio.sleep(0)
    assert used.unloads == next_one.loads == 0
    if make is FakeStreamBot:
        working.cancel()
    used.release()
    assert await waiting == "echo: hi"
    await asyncio.gather(working, return_exceptions=True)
    assert used.unloads == 1


async def test_who_waits_too_long_for_room_is_told(host_of):
    used, next_one = bot_of(name="used", hangs=says("stuck")), bot_of(name="next")
    host = host_of(used, next_one, memory_limit_bytes=15)
    working = asyncio.create_task(outcome(host, "used", "stuck"))
    await until(lambda: states(host).get("used") == "ready")
    host.load_timeout_s = 0.02
    assert await outcome(host, "next", "hi") == "<next: loading took longer than 0.02 s>"
    used.release()
    await working


async def test_a_bot_that_can_never_fit_says_so(host_of):
    host = host_of(bot_of(memory_bytes=30_000_000), memory_limit_bytes=20_000_000)
    with pytest.raises(BotError, match="takes 30 MB of memory; all bots together may take 20 MB"):
        await host.load("b")


async def test_a_bot_that_fails_to_load_or_unload_keeps_nothing_back(host_of):
    broken = bot_of(name="broken", load_error="no weights")
    clinging = bot_of(name="clinging")

    def unload() -> None:
        raise RuntimeError("will not")

    clinging.unload = unload
    host = host_of(broken, clinging, bot_of(name="c"), memory_limit_bytes=15)
    assert "no weights" in await outcome(host, "broken", "hi")
    assert await ask(host, "clinging", "hi") == "echo: hi"
    assert await ask(host, "c", "hi") == "echo: hi"
    assert host.totals()["memory_bytes"] == 10


async def test_bots_that_take_nothing_stay(host_of):
    rules = bot_of(name="rules", memory_bytes=0)
    host = host_of(rules, bot_of(name="a"), bot_of(name="b"), memory_limit_bytes=10)
    for name in ("rules", "a", "b", "rules"):
        await ask(host, name, "hi")
    assert states(host) == {"a": "unloaded", "b": "ready", "rules": "ready"}


async def test_closing_ends_the_wait_for_room(host_of):
    used, next_one = bot_of(name="used", hangs=says("stuck")), bot_of(name="next")
    host = host_of(used, next_one, memory_limit_bytes=15)
    working = asyncio.create_task(outcome(host, "used", "stuck"))
    await until(lambda: states(host).get("used") == "ready")
    loading = asyncio.create_task(host.load("next"))
    await until(lambda: states(host).get("next") == "loading")
    used.release()
    await host.close()
    with pytest.raises(BotError):
        await loading
    await asyncio.gather(working, return_exceptions=True)
    assert next_one.loads == 0
