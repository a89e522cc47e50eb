"""The memory budget of a `BotHost`, and `serving.reply`, which needs no event loop of the caller's."""

import asyncio
import contextlib
import threading

import pytest

from chatbots.bots.base import REPLY_MAX_CHARS, BotDefaults, BotError
from chatbots.conversation import Conversation
from chatbots.serving import BotHost, Reply, reply, synchronous
from chatbots.text import sanitise
from tests import fakes
from tests.chatbots.test_serving_host import ask, host_of, outcome, until
from tests.fakes import FakeStepBot, FakeStreamBot, FakeWholeBot, says
from tests.hostile import HOSTILE_REPLIES

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
    with pytest.raises(BotError, match="needs 30 MB of memory, but the limit for all bots is 20 MB"):
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


def saying(*texts: str) -> list[Conversation]:
    return [Conversation.from_texts([text], id=text) for text in texts]


@pytest.mark.parametrize("make", KINDS)
def test_every_context_gets_its_reply_in_order_within_the_capacity(make):
    bot = make(name="b", capacity=3)
    texts = [f"message {'long ' * (i % 4)}{i}" for i in range(10)]
    assert reply(bot, saying(*texts)) == [Reply(f"echo: {text}") for text in texts]
    assert 1 < bot.most_at_once <= 3


@pytest.mark.parametrize("make", KINDS)
def test_a_failure_stays_with_its_context(make):
    bot = make(name="b", fails=says("boom"), fails_after=1)
    got = reply(bot, saying("a", "boom", "c"))
    assert [r.text for r in got] == ["echo: a", None, "echo: c"]
    assert "scripted failure" in got[1].error


@pytest.mark.parametrize("make", [FakeStepBot, FakeWholeBot])
def test_a_batch_that_raises_is_tried_one_by_one(make):
    bot = make(name="b", raises=says("boom"))
    got = reply(bot, saying("a", "boom", "c"))
    assert [r.text for r in got] == ["echo: a", None, "echo: c"]
    assert "scripted trouble" in got[1].error
    assert bot.batches[1:] == [["a"], ["boom"], ["c"]]


@pytest.mark.parametrize("make", KINDS)
def test_blank_replies_are_errors(make):
    assert reply(make(name="b", reply=lambda _: " "), saying("a")) == [Reply(None, "returned an empty reply")]


@pytest.mark.parametrize("make", KINDS)
def test_nothing_to_answer(make):
    assert reply(make(name="b"), []) == []


@pytest.mark.parametrize("make", KINDS)
def test_an_empty_conversation_is_answered(make):
    assert reply(make(name="b"), [Conversation("c")])[0].text == "echo: nothing"


@pytest.mark.parametrize("make", KINDS)
async def test_it_works_inside_a_running_event_loop(make):
    assert reply(make(name="b"), saying("a"))[0].text == "echo: a"


def test_what_is_no_bot_is_refused():
    with pytest.raises(BotError, match="has no method `start`, `stream` or `answer`"):
        reply(BotDefaults(), saying("a"))


def test_a_capacity_of_nothing_is_refused():
    with pytest.raises(BotError, match="capacity of 0"):
        reply(FakeStepBot(name="b", capacity=0), saying("a"))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("text", HOSTILE_REPLIES, ids=list(HOSTILE_REPLIES))
def test_whatever_a_bot_says_is_storable_or_an_error(make, text):
    (got,) = reply(make(name="b", reply=lambda _: HOSTILE_REPLIES[text]), saying("a"))
    if text in ("empty", "whitespace", "invisible"):
        assert got == Reply(None, "returned an empty reply")
    else:
        assert got.text == sanitise(HOSTILE_REPLIES[text], REPLY_MAX_CHARS)


@pytest.mark.parametrize("make", KINDS)
def test_a_bot_that_hangs_is_not_waited_for(make):
    bot = make(name="b", hangs=says("stuck"), capacity=1)
    got = reply(bot, saying("a", "stuck"), timeout_s=0.2)
    bot.release()
    assert got == [Reply("echo: a"), Reply(None, "took longer than 0.2 s")]


class Stubborn(BotDefaults):
    """Blocks the event loop itself, or ignores that it is told to stop."""

    name = "stubborn"

    def __init__(self, *, blocks: bool) -> None:
        self.blocks = blocks
        self.released = threading.Event()

    async def stream(self, context):
        while not self.released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                if self.blocks:
                    self.released.wait(60)
                await asyncio.sleep(0.01)
        yield "late"


@pytest.mark.parametrize("blocks", [True, False])
def test_a_bot_that_cannot_be_stopped_is_left_behind(blocks, monkeypatch):
    monkeypatch.setattr(synchronous, "_GRACE_S", 0.1)
    bot = Stubborn(blocks=blocks)
    assert reply(bot, saying("a"), timeout_s=0.2) == [Reply(None, "took longer than 0.2 s")]
    bot.released.set()


def test_a_bot_that_steps_for_ever_without_a_word_is_given_up(monkeypatch):
    monkeypatch.setattr(synchronous, "_GRACE_S", 0.1)
    endless = FakeStepBot(name="b", delay_s=0.005, reply=lambda _: [""] * 10**6)
    monkeypatch.setattr(fakes, "words_of", lambda reply: list(reply))
    got = reply(endless, saying("a", "b"), timeout_s=0.2)
    assert got == [Reply(None, "took longer than 0.2 s")] * 2
    assert endless.n_steps > 1


def test_time_counts_for_a_call_not_for_the_batch():
    bot = FakeWholeBot(name="b", capacity=1, delay_s=0.1)
    got = reply(bot, saying(*"abcdef"), timeout_s=0.3)
    assert [r.text for r in got] == [f"echo: {letter}" for letter in "abcdef"]
