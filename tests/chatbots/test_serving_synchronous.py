"""`serving.reply`: any kind of bot driven to the end without an event loop of the caller's."""

from __future__ import annotations

import pytest

from chatbots.base import BotDefaults, BotError
from chatbots.conversation import Conversation
from chatbots.serving import Reply, reply
from tests.fakes import FakeStepBot, FakeStreamBot, FakeWholeBot, says

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
    assert reply(make(name="b", reply=lambda _: " "), saying("a")) == [
        Reply(None, "gave an empty reply")
    ]


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
