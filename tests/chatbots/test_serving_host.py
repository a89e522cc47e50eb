"""`BotHost`: what its askers are promised, with bots of each kind that behave and misbehave."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from chatbots.bots.base import REPLY_MAX_CHARS, BotError
from chatbots.conversation import Conversation
from chatbots.endpoints.metering import CapReached
from chatbots.serving import BotBusy, BotHost
from chatbots.text import CUT_MARK, sanitise
from tests.fakes import FakeStepBot, FakeStreamBot, FakeWholeBot, says
from tests.hostile import HOSTILE_ERRORS, raise_it

PATIENT_S = 30.0
"""Set on a host after a time-out was shown, so that a busy machine does not show another."""

KINDS = [FakeStepBot, FakeStreamBot, FakeWholeBot]


def saying(text: str, seed: int = 0) -> Conversation:
    return Conversation.from_texts([text], id=text, seed=seed)


@pytest.fixture
async def host_of() -> AsyncIterator[Callable[..., BotHost]]:
    """Make hosts of given bots; close them and let their hanging bots go."""
    made: list[tuple[BotHost, tuple]] = []

    def make(*bots, **options) -> BotHost:
        by_name = {bot.name: bot for bot in bots}

        def get(name: str):
            if name not in by_name:
                raise KeyError(f"there is no bot called {name!r}")
            return by_name[name]

        host = BotHost(get_bot=get, **options)
        made.append((host, bots))
        return host

    yield make
    for host, bots in made:
        for bot in bots:
            bot.release()
        await host.close()


async def ask(host: BotHost, bot_id: str, text: str) -> str:
    return "".join([piece async for piece in host.stream(bot_id, saying(text))])


async def outcome(host: BotHost, bot_id: str, text: str) -> str:
    """Return the reply, or the error in angle brackets."""
    try:
        return await ask(host, bot_id, text)
    except BotError as exc:
        return f"<{exc}>"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("make", KINDS)
async def test_pieces_joined_are_the_reply(host_of, make):
    host = host_of(make(name="b"))
    pieces = [piece async for piece in host.stream("b", saying("how are you"))]
    assert "".join(pieces) == "echo: how are you"
    assert host.load_numbers()["b"]["replies"] == 1


@pytest.mark.parametrize("make", KINDS)
async def test_many_at_once_each_get_their_own_reply_within_the_capacity(host_of, make):
    bot = make(name="b", capacity=4, delay_s=0.002)
    host = host_of(bot)
    replies = await asyncio.gather(*(ask(host, "b", f"message {i}") for i in range(20)))
    assert replies == [f"echo: message {i}" for i in range(20)]
    assert 1 < bot.most_at_once <= 4
    assert bot.loads == 1


@pytest.mark.parametrize("make", [FakeStepBot, FakeStreamBot])
async def test_pieces_come_before_the_reply_is_complete(host_of, make):
    bot = make(name="b", hangs=says("stuck"), fails_after=1)
    host = host_of(bot)
    stream = host.stream("b", saying("stuck after one"))
    assert await anext(stream) == "echo:"
    await stream.aclose()


async def test_newcomers_are_admitted_between_steps(host_of):
    long = " ".join(["word"] * 400)
    bot = FakeStepBot(name="b", delay_s=0.005, capacity=8)
    host = host_of(bot)
    first = host.stream("b", saying(long))
    await anext(first)
    assert await ask(host, "b", "short one") == "echo: short one"
    assert bot.n_generations == 1, "the newcomer joined the running batch"
    assert bot.batches == [[long], ["short one"]]
    assert host.load_numbers()["b"]["running"] == 1, "the first is still being answered"
    await first.aclose()


async def test_those_who_ask_together_are_admitted_together(host_of):
    bot = FakeStepBot(name="b")
    host = host_of(bot, batch_wait_ms=200)
    await host.load("b")
    await asyncio.gather(*(ask(host, "b", f"m{i}") for i in range(5)))
    assert bot.batches == [[f"m{i}" for i in range(5)]]


async def test_a_full_batch_does_not_wait_for_more(host_of):
    bot = FakeWholeBot(name="b", capacity=2)
    host = host_of(bot, batch_wait_ms=3_600_000)
    await host.load("b")
    assert await asyncio.gather(ask(host, "b", "x"), ask(host, "b", "y")) == ["echo: x", "echo: y"]


# Loading.


async def test_loaded_once_however_many_ask(host_of):
    bot = FakeStepBot(name="b", load_delay_s=0.05)
    host = host_of(bot)
    await asyncio.gather(*(host.load("b") for _ in range(5)), ask(host, "b", "hi"))
    assert bot.loads == 1
    assert host.load_numbers()["b"]["state"] == "ready"


async def test_an_asker_who_leaves_does_not_stop_the_load(host_of):
    bot = FakeStepBot(name="b", load_delay_s=0.1)
    host = host_of(bot)
    asker = asyncio.create_task(host.load("b"))
    await until(lambda: bot.loads == 1)
    assert host.load_numbers()["b"]["state"] == "loading"
    asker.cancel()
    await host.load("b")
    assert bot.loads == 1


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [({"unavailable": "weights are missing"}, "weights are missing"), ({"load_error": "bad file"}, "bad file")],
)
async def test_a_bot_that_cannot_load_says_why(host_of, trouble, reason):
    bot = FakeWholeBot(name="b", **trouble)
    host = host_of(bot)
    with pytest.raises(BotError, match=reason):
        await host.load("b")
    with pytest.raises(BotError, match=reason):
        await ask(host, "b", "hi")
    numbers = host.load_numbers()["b"]
    assert numbers["state"] == "unavailable"
    assert numbers["reason"] == reason
    assert bot.loads == ("load_error" in trouble), "`stream` does not load again at once"


async def test_load_tries_again_after_the_cause_is_gone(host_of):
    bot = FakeWholeBot(name="b", load_error="no memory")
    host = host_of(bot)
    with pytest.raises(BotError, match="no memory"):
        await host.load("b")
    bot.load_error = None
    await host.load("b")
    assert await ask(host, "b", "hi") == "echo: hi"


async def test_unknown_bot(host_of):
    host = host_of(FakeWholeBot(name="b"))
    with pytest.raises(BotError, match="no bot called 'c'"):
        await host.load("c")
    with pytest.raises(BotError, match="no bot called 'c'"):
        await ask(host, "c", "hi")
    assert host.load_numbers() == {}


async def test_loading_is_no_part_of_the_time_that_a_reply_may_take(host_of):
    bot = FakeStepBot(name="b", load_delay_s=1.0)
    assert await ask(host_of(bot, reply_timeout_s=0.9), "b", "hi") == "echo: hi"


async def test_a_load_that_takes_too_long_times_the_asker_out_and_goes_on(host_of):
    bot = FakeStepBot(name="b", load_delay_s=0.5)
    host = host_of(bot, load_timeout_s=0.1)
    with pytest.raises(BotError, match="loading took longer"):
        await ask(host, "b", "hi")
    await host.load("b")
    assert bot.loads == 1


# Failing.


@pytest.mark.parametrize("make", KINDS)
async def test_one_failing_reply_fails_alone(host_of, make):
    bot = make(name="b", fails=says("boom"), fails_after=1)
    host = host_of(bot, batch_wait_ms=50)
    texts = ["a", "boom", "c d"]
    got = await asyncio.gather(*(outcome(host, "b", text) for text in texts))
    assert got[0] == "echo: a"
    assert got[1].startswith("<b:")
    assert "scripted failure" in got[1]
    assert got[2] == "echo: c d"
    assert host.load_numbers()["b"]["failures"] == 1


@pytest.mark.parametrize("raises_in", ["step", "admit"])
async def test_when_a_batch_raises_each_is_tried_once_more_alone(host_of, raises_in):
    bot = FakeStepBot(name="b", raises=says("boom"), raises_in=raises_in)
    host = host_of(bot, batch_wait_ms=100)
    await host.load("b")
    texts = ["a", "boom", "c"]
    got = await asyncio.gather(*(outcome(host, "b", text) for text in texts))
    assert got == ["echo: a", "<b: failed: RuntimeError: scripted trouble>", "echo: c"]
    assert bot.batches == [["a", "boom", "c"], ["a"], ["boom"], ["c"]]


async def test_an_answer_call_that_raises_is_repeated_for_each_alone(host_of):
    bot = FakeWholeBot(name="b", raises=says("boom"))
    host = host_of(bot, batch_wait_ms=100)
    await host.load("b")
    got = await asyncio.gather(*(outcome(host, "b", text) for text in ["a", "boom", "c"]))
    assert got == ["echo: a", "<b: failed: RuntimeError: scripted trouble>", "echo: c"]
    assert bot.batches == [["a", "boom", "c"], ["a"], ["boom"], ["c"]]


async def test_a_second_try_repeats_nothing_that_was_already_sent(host_of):
    bot = FakeStepBot(name="b", raises=says("boom"), raises_times=1, fails_after=2)
    host = host_of(bot)
    pieces = [piece async for piece in host.stream("b", saying("boom and on"))]
    assert "".join(pieces) == "echo: boom and on"
    assert bot.n_generations == 2


async def test_a_second_try_that_says_something_else_is_an_error(host_of):
    said = iter(["one two three four", "one three four five"])
    bot = FakeStepBot(name="b", reply=lambda _: next(said), raises=says("hi"), raises_times=1, fails_after=2)
    host = host_of(bot)
    assert await outcome(host, "b", "hi") == ("<b: failed in mid-reply, and its retry began differently>")


async def test_a_second_try_that_ends_earlier_is_an_error(host_of):
    said = iter(["one two three four", "one"])
    bot = FakeStepBot(name="b", reply=lambda _: next(said), raises=says("hi"), raises_times=1, fails_after=2)
    host = host_of(bot)
    assert "ended earlier" in await outcome(host, "b", "hi")


async def test_a_failing_admit_leaves_the_running_batch_alone(host_of):
    bot = FakeStepBot(name="b", delay_s=0.005, raises=says("boom"), raises_in="admit")
    host = host_of(bot)
    long = " ".join(["word"] * 60)
    running = asyncio.create_task(ask(host, "b", long))
    await until(lambda: bot.n_steps > 2)
    assert "scripted trouble" in await outcome(host, "b", "boom")
    assert await running == f"echo: {long}"
    assert bot.batches.count([long]) == 1


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    ("reply", "said"), [("  \n", "returned an empty reply"), ("", "returned an empty reply"), (None, "must be text")]
)
async def test_a_blank_or_odd_reply_is_an_error(host_of, make, reply, said):
    host = host_of(make(name="b", reply=lambda _: reply))
    assert said in await outcome(host, "b", "hi")


async def test_the_wrong_number_of_answers_is_an_error(host_of):
    bot = FakeWholeBot(name="b")
    bot.answer = lambda contexts: ["only one"] * (len(contexts) + 1)
    host = host_of(bot)
    assert "2 replies for 1 conversations" in await outcome(host, "b", "hi")


async def test_a_plug_in_that_exits_the_process_only_fails_its_reply(host_of):
    bot = FakeWholeBot(name="b", reply=lambda _: exec("raise SystemExit(3)"))
    host = host_of(bot, reply_timeout_s=20)
    assert "SystemExit" in await outcome(host, "b", "hi")
    bot._reply = lambda _: "well again"
    assert await ask(host, "b", "hi") == "well again"


@pytest.mark.parametrize("make", KINDS)
async def test_a_failing_bot_touches_no_other(host_of, make):
    bad = make(name="bad", fails=lambda _: True)
    good = FakeStepBot(name="good", delay_s=0.002)
    host = host_of(bad, good)
    got = await asyncio.gather(
        *(outcome(host, "bad", f"m{i}") for i in range(5)), *(ask(host, "good", f"m{i}") for i in range(5))
    )
    assert all("scripted failure" in text for text in got[:5])
    assert got[5:] == [f"echo: m{i}" for i in range(5)]


# Cancelling and timing out.


@pytest.mark.parametrize("make", [FakeStepBot, FakeStreamBot])
@pytest.mark.parametrize("how", ["aclose", "cancel"])
async def test_who_leaves_frees_the_slot(host_of, make, how):
    long = " ".join(["word"] * 5000)
    bot = make(name="b", capacity=1, delay_s=0.005)
    host = host_of(bot)
    if how == "aclose":
        stream = host.stream("b", saying(long))
        await anext(stream)
        await stream.aclose()
    else:
        task = asyncio.create_task(ask(host, "b", long))
        await until(lambda: host.load_numbers().get("b", {}).get("running") == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await ask(host, "b", "next") == "echo: next"
    assert bot.cancelled == [long]
    numbers = host.load_numbers()["b"]
    assert (numbers["cancelled"], numbers["failures"], numbers["running"]) == (1, 0, 0)


async def test_who_leaves_the_queue_is_never_admitted(host_of):
    bot = FakeStepBot(name="b", capacity=1, delay_s=0.005)
    host = host_of(bot)
    first = host.stream("b", saying(" ".join(["word"] * 5000)))
    await anext(first)
    second = asyncio.create_task(ask(host, "b", "second"))
    third = asyncio.create_task(ask(host, "b", "third"))
    await until(lambda: host.load_numbers()["b"]["waiting"] == 2)
    second.cancel()
    await asyncio.wait([second])
    await first.aclose()
    assert await third == "echo: third"
    assert ["second"] not in bot.batches


@pytest.mark.parametrize("make", [FakeStepBot, FakeStreamBot])
async def test_a_reply_that_takes_too_long_frees_its_slot(host_of, make):
    slow = " ".join(["word"] * 2_000)
    bot = make(name="b", capacity=1, delay_s=0.005)
    host = host_of(bot, reply_timeout_s=0.3)
    assert await outcome(host, "b", slow) == "<b: took longer than 0.3 s>"
    host.reply_timeout_s = PATIENT_S
    assert await ask(host, "b", "next") == "echo: next"
    assert bot.cancelled == [slow]
    assert host.load_numbers()["b"]["timeouts"] == 1


async def test_a_hanging_stream_takes_only_its_own_place(host_of):
    bot = FakeStreamBot(name="b", capacity=2, hangs=says("stuck"))
    host = host_of(bot, reply_timeout_s=0.5)
    stuck = asyncio.create_task(outcome(host, "b", "stuck"))
    await until(lambda: bot.most_at_once == 1)
    host.reply_timeout_s = PATIENT_S
    assert [await ask(host, "b", f"m{i}") for i in range(3)] == ["echo: m0", "echo: m1", "echo: m2"]
    assert "took longer" in await stuck
    assert host.load_numbers()["b"]["running"] == 0


@pytest.mark.parametrize("make", [FakeStepBot, FakeWholeBot])
async def test_a_hanging_bot_is_given_a_new_thread(host_of, make):
    bot = make(name="b", hangs=says("stuck"))
    host = host_of(bot, reply_timeout_s=0.4)
    assert "took longer" in await outcome(host, "b", "stuck")
    await until(lambda: host.load_numbers()["b"]["hung_threads"] == 1)
    host.reply_timeout_s = PATIENT_S
    assert await ask(host, "b", "hi") == "echo: hi"
    assert len(bot.threads) == 2
    bot.release()
    await until(lambda: host.load_numbers()["b"]["hung_threads"] == 0)
    assert await ask(host, "b", "hi again") == "echo: hi again"


@pytest.mark.parametrize("make", [FakeStepBot, FakeWholeBot])
async def test_a_bot_that_keeps_hanging_is_declared_unavailable(host_of, make):
    bot = make(name="b", hangs=says("stuck"))
    other = FakeStepBot(name="other")
    # Long enough for the call to begin on a busy machine.
    host = host_of(bot, other, reply_timeout_s=1)
    for n in (1, 2, 3):
        assert "took longer" in await outcome(host, "b", "stuck")
        await until(lambda n=n: host.load_numbers()["b"]["hung_threads"] == n)
    numbers = host.load_numbers()["b"]
    assert numbers["state"] == "unavailable"
    assert "it hangs: 3 of its calls" in numbers["reason"]
    with pytest.raises(BotError, match="it hangs"):
        await ask(host, "b", "hi")
    with pytest.raises(BotError, match="it hangs"):
        await host.load("b")
    host.reply_timeout_s = PATIENT_S
    assert await ask(host, "other", "hi") == "echo: hi"
    bot.release()
    await until(lambda: host.load_numbers()["b"]["hung_threads"] == 0)
    await host.load("b")
    assert await ask(host, "b", "hi") == "echo: hi"


async def test_a_hanging_whole_bot_holds_up_no_other(host_of):
    stuck = FakeWholeBot(name="stuck", hangs=lambda _: True)
    others = [FakeWholeBot(name="whole"), FakeStepBot(name="step"), FakeStreamBot(name="streams")]
    host = host_of(stuck, *others)
    hanging = asyncio.create_task(ask(host, "stuck", "hi"))
    await until(lambda: len(stuck.batches) == 1)
    for bot in others:
        assert await ask(host, bot.name, "hi") == "echo: hi"
    assert not hanging.done()
    stuck.release()
    assert await hanging == "echo: hi"


async def test_other_bots_of_the_device_go_on_in_the_new_thread(host_of):
    stuck = FakeStepBot(name="stuck", hangs=says("stuck"))
    good = FakeStepBot(name="good", delay_s=0.001)
    host = host_of(stuck, good, reply_timeout_s=0.5)
    await host.load("stuck")
    await host.load("good")
    hanging = asyncio.create_task(outcome(host, "stuck", "stuck"))
    await until(lambda: stuck.n_steps == 1)
    host.reply_timeout_s = PATIENT_S
    blocked = asyncio.create_task(ask(host, "good", "hi"))
    assert "took longer" in await hanging
    assert await blocked == "echo: hi", "asked while the device's thread hung, answered by its successor"
    assert len(good.threads) == 1
    assert good.threads.isdisjoint(stuck.threads)


async def test_no_step_bot_starves_another(host_of):
    busy = FakeStepBot(name="busy", delay_s=0.001)
    quick = FakeStepBot(name="quick")
    host = host_of(busy, quick)
    await host.load("busy")
    await host.load("quick")
    crowd = [asyncio.create_task(ask(host, "busy", " ".join(["word"] * 3000) + str(i))) for i in range(8)]
    await until(lambda: busy.n_steps > 0)
    assert await ask(host, "quick", "a b c") == "echo: a b c"
    assert busy.n_steps < 1000, "the quick bot was served between the busy one's steps"
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    assert busy.threads == quick.threads, "one thread for the device"


@pytest.mark.parametrize("make", KINDS)
async def test_a_full_queue_refuses(host_of, make):
    bot = make(name="b", capacity=1, hangs=says("stuck"))
    host = host_of(bot, queue_limit=2)
    await host.load("b")
    tasks = [asyncio.create_task(outcome(host, "b", "stuck"))]
    await until(lambda: host.load_numbers()["b"]["running"] == 1)
    tasks += [asyncio.create_task(outcome(host, "b", f"m{i}")) for i in range(2)]
    await until(lambda: host.load_numbers()["b"]["waiting"] == 2)
    with pytest.raises(BotBusy, match="b is busy: 2 other requests"):
        await ask(host, "b", "one more")
    assert host.load_numbers()["b"]["refused"] == 1
    if make is FakeStreamBot:
        tasks[0].cancel()
    bot.release()
    assert await asyncio.gather(*tasks[1:]) == ["echo: m0", "echo: m1"]


# Closing.


@pytest.mark.parametrize("make", KINDS)
async def test_close_fails_what_is_under_way_and_unloads(host_of, make):
    bot = make(name="b", hangs=says("stuck"))
    host = host_of(bot, FakeStepBot(name="never asked for"))
    stuck = asyncio.create_task(outcome(host, "b", "stuck"))
    await until(lambda: host.load_numbers().get("b", {}).get("running") == 1)
    closing = asyncio.create_task(host.close())
    assert await stuck == "<b: the bot host is closing>"
    bot.release()
    await closing
    assert bot.unloads == 1
    with pytest.raises(BotError, match="closed"):
        await ask(host, "b", "hi")


async def test_an_idle_host_leaves_no_busy_thread(host_of):
    bot = FakeStepBot(name="b")
    host = host_of(bot)
    await ask(host, "b", "hi")
    n_steps = bot.n_steps
    turns = 0
    driver = host._lanes["b"].driver
    original = driver.turn

    def counted(*args):
        nonlocal turns
        turns += 1
        return original(*args)

    driver.turn = counted
    await asyncio.sleep(0.1)
    assert (turns, bot.n_steps) == (0, n_steps)
    await host.close()
    assert not any(thread.name == "bots on cpu" for thread in threading.enumerate())


def test_a_hanging_bot_does_not_keep_the_process_from_ending():
    code = """
import asyncio
from chatbots.conversation import Conversation
from chatbots.serving import BotHost
from tests.fakes import FakeStepBot, FakeWholeBot

bots = {b.name: b for b in (FakeWholeBot(name="w", hangs=lambda _: True), FakeStepBot(name="s", hangs=lambda _: True))}

async def main():
    host = BotHost(get_bot=bots.get, reply_timeout_s=0.1)
    for name in bots:
        try:
            async for _ in host.stream(name, Conversation("c")):
                pass
        except Exception as exc:
            print(exc)

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("took longer than 0.1 s") == 2


HOSTILE = {
    "NUL\x00 goes": "NUL goes",
    "half \ud83d pair": "half \ufffd pair",
    "x" * 1_000_000: "x" * (REPLY_MAX_CHARS - len(CUT_MARK)) + CUT_MARK,
    "\x00\u200b\udc00": "<b: returned an empty reply>",
}


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("text", HOSTILE, ids=["nul", "surrogate", "huge", "invisible"])
async def test_whatever_a_bot_says_is_storable_and_of_bounded_length(host_of, make, text):
    host = host_of(make(name="b", reply=lambda _: text))
    assert await outcome(host, "b", "hi") == HOSTILE[text]


@pytest.mark.parametrize("make", [FakeStepBot, FakeStreamBot])
async def test_a_bot_that_goes_on_and_on_is_stopped(host_of, make):
    bot = make(name="b", reply=lambda _: " ".join(["word"] * REPLY_MAX_CHARS))
    said = await outcome(host_of(bot, reply_timeout_s=PATIENT_S), "b", "hi")
    assert (len(said), said[-len(CUT_MARK) :]) == (REPLY_MAX_CHARS, CUT_MARK)
    await until(lambda: bot.cancelled == ["hi"])


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("trouble", HOSTILE_ERRORS)
async def test_whatever_a_bot_raises_is_a_storable_reason(host_of, make, trouble):
    host = host_of(make(name="b", reply=lambda _: raise_it(HOSTILE_ERRORS[trouble])))
    said = await outcome(host, "b", "hi")
    assert said.startswith("<b: ")
    assert len(said) < 600
    assert said == sanitise(said)


async def test_a_bot_that_cancels_itself_fails_at_once(host_of):
    def cancel(_: Conversation) -> str:
        raise asyncio.CancelledError

    host = host_of(FakeStreamBot(name="b", reply=cancel), reply_timeout_s=PATIENT_S)
    assert await outcome(host, "b", "hi") == "<b: cancelled its own reply>"


# Another bot in its place.


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bot_with_a_stand_in_is_answered_for_and_it_is_told(kind, host_of) -> None:
    bot, other = kind(name="a", raises=says("hi")), kind(name="b")
    bot.fallback_bot = "b"
    host = host_of(bot, other)
    context = saying("hi")
    assert "".join([piece async for piece in host.stream("a", context)]) == "echo: hi"
    stand_in = host.stand_in_take(context)
    assert stand_in.bot_id == "b"
    assert "scripted" in stand_in.reason
    assert host.stand_in_take(context) is None
    assert "".join([piece async for piece in host.stream("a", saying("well"))]) == "echo: well"
    assert host.stand_in_take(saying("well")) is None
    with pytest.raises(BotError, match="scripted"):
        [piece async for piece in host.stream("a", context, by_others=False)]


async def test_nobody_goes_on_with_what_another_bot_began(host_of) -> None:
    bot = FakeStreamBot(name="a", fails=says("hi"), fails_after=1)
    bot.fallback_bot = "b"
    assert "scripted failure" in await outcome(host_of(bot, FakeStreamBot(name="b")), "a", "hi")


async def test_a_bot_that_hangs_leaves_time_for_its_stand_in(host_of) -> None:
    bot = FakeStreamBot(name="a", hangs=says("hi"))
    bot.fallback_bot = "b"
    host = host_of(bot, FakeStreamBot(name="b"), reply_timeout_s=1.5)
    assert await ask(host, "a", "hi") == "echo: hi"


async def test_where_the_stand_in_fails_too_both_are_named(host_of) -> None:
    bot, other = (FakeStreamBot(name="a", fails=says("hi")), FakeWholeBot(name="b", unavailable="gone"))
    bot.fallback_bot = "b"
    said = await outcome(host_of(bot, other), "a", "hi")
    assert "a: failed: RuntimeError: scripted failure" in said
    assert "its fallback: b: is unavailable: gone" in said


async def test_a_call_that_a_cap_forbids_is_no_trouble_of_the_bot(host_of) -> None:
    class Capped(FakeStreamBot):
        async def stream(self, context: Conversation) -> AsyncIterator[str]:
            raise CapReached("its cap is reached")
            yield ""

    host = host_of(Capped(name="a"), FakeStreamBot(name="b", fails=says("hi")))
    for bot_id, is_trouble in (("a", False), ("b", True)):
        with pytest.raises(BotError) as caught:
            await ask(host, bot_id, "hi")
        assert caught.value.is_trouble is is_trouble


@pytest.mark.parametrize("make", KINDS)
async def test_a_bot_registered_in_the_place_of_another_answers_from_then_on(make):
    registered = {"b": make(name="b")}
    host = BotHost(get_bot=registered.__getitem__)
    try:
        first = registered["b"]
        await ask(host, "b", "hello")
        registered["b"] = make(name="b")
        await ask(host, "b", "hello")
        await until(lambda: first.unloads == 1)
        del registered["b"]  # one that is in memory goes on for those who talk with it
        await ask(host, "b", "hello")
    finally:
        await host.close()
