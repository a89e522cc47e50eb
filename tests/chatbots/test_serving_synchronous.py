"""`serving.reply`: any kind of bot driven to the end without an event loop of the caller's."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from chatbots.bots.base import REPLY_MAX_CHARS, BotDefaults, BotError
from chatbots.conversation import Conversation
from chatbots.serving import Reply, reply, synchronous
from chatbots.text import sanitise
from tests import fakes
from tests.fakes import FakeStepBot, FakeStreamBot, FakeWholeBot, says
from tests.hostile import HOSTILE_REPLIES

KINDS = [FakeStepBot, FakeStreamBot, FakeWholeBot]


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
    assert reply(make(name="b", reply=lambda _: " "), saying("a")) == [Reply(None, "gave an empty reply")]


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
    with pytest.raises(BotError, match="no kind of bot"):
        reply(BotDefaults(), saying("a"))


def test_a_capacity_of_nothing_is_refused():
    with pytest.raises(BotError, match="capacity of 0"):
        reply(FakeStepBot(name="b", capacity=0), saying("a"))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("text", HOSTILE_REPLIES, ids=list(HOSTILE_REPLIES))
def test_whatever_a_bot_says_is_storable_or_an_error(make, text):
    (got,) = reply(make(name="b", reply=lambda _: HOSTILE_REPLIES[text]), saying("a"))
    if text in ("empty", "whitespace", "invisible"):
        assert got == Reply(None, "gave an empty reply")
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
