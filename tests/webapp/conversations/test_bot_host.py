"""The runtime in one process: claims, pacing, publishing; whole servers are in tests/journeys."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from channels.layers import get_channel_layer

from chatbots.registry import bots
from tests.builders import make_conversation, make_study
from webapp.conversations import events, selectors, services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.core.database import in_database

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _test_bots():
    bots.search()
    import tests.plugin_bots as plugin

    classes = [plugin.Quick, plugin.Failing]
    for cls in classes:
        if cls.name not in bots:
            bots.add(cls())
    yield
    for cls in classes:
        bots.discard(cls.name)


async def published(runtime: BotHostRuntime, conversation, n_frames: int) -> list[dict]:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(events.conversation_group(conversation.pk), channel)
    runtime.request(conversation.pk)
    return [(await asyncio.wait_for(layer.receive(channel), 10))["frame"] for _ in range(n_frames)]


def due(bot_id: str, **fields):
    conversation = make_conversation(make_study(bots=[bot_id], **fields))
    services.turn_add_human(
        conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hello you"
    )
    return conversation


@pytest.mark.usefixtures("_test_bots")
async def test_whole_replies_are_typed_word_by_word() -> None:
    conversation = await in_database(due)("test-quick", typing_chars_per_s=200)
    runtime = BotHostRuntime()
    try:
        frames = await published(runtime, conversation, 6)
    finally:
        await runtime.close()
    assert [f["type"] for f in frames] == ["token"] * 5 + ["reply"]
    assert "".join(f["text"] for f in frames[:5]) == frames[5]["text"] == "Reply 1 to: hello you"
    assert [f["offset"] for f in frames[:5]] == [0, 6, 8, 12, 18]


@pytest.mark.usefixtures("_test_bots")
async def test_a_reply_is_made_once_however_often_it_is_asked_for() -> None:
    conversation = await in_database(due)("test-quick")
    first, second = BotHostRuntime(), BotHostRuntime()
    try:
        for runtime in (first, second, first):
            runtime.request(conversation.pk)
        await published(second, conversation, 2)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await first.close()
        await second.close()
    assert [t["text"] for t in history.turns] == ["hello you", "Reply 1 to: hello you"]
    assert history.pending is None


@pytest.mark.usefixtures("_test_bots")
async def test_a_bot_with_a_full_queue_is_told_to_be_busy() -> None:
    conversation = await in_database(due)("test-quick")
    runtime = BotHostRuntime()
    runtime.host.queue_limit = 0  # nobody may wait
    try:
        frames = await published(runtime, conversation, 1)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert (frames[0]["code"], frames[0]["busy"]) == ("bot_failed", True)
    assert "Try again in a minute" in frames[0]["message"]
    assert history.error.startswith("busy: test-quick is busy")


@pytest.mark.usefixtures("_test_bots")
async def test_a_failure_is_stored_and_told() -> None:
    conversation = await in_database(due)("test-failing")
    runtime = BotHostRuntime()
    try:
        frames = await published(runtime, conversation, 1)
        history = await in_database(selectors.history)(conversation.pk)
    finally:
        await runtime.close()
    assert (frames[0]["code"], frames[0]["busy"]) == ("bot_failed", False)
    assert "on purpose" in history.error
    assert history.pending == {"turn": 1}


@pytest.mark.usefixtures("_test_bots")
async def test_a_host_that_stops_gives_its_leases_back() -> None:
    from webapp.conversations.models import Conversation

    conversation = await in_database(due)("test-quick")
    runtime = BotHostRuntime()
    runtime.host.stream = _never  # type: ignore[method-assign]
    runtime.request(conversation.pk)
    for _ in range(100):
        await asyncio.sleep(0.02)
        row = await in_database(Conversation.objects.get)(pk=conversation.pk)
        if row.due_lease:
            break
    assert row.due_lease
    await runtime.close()
    row = await in_database(Conversation.objects.get)(pk=conversation.pk)
    assert (row.due_turn, row.due_lease, row.due_error) == (1, None, "")


async def _never(bot_id, context):
    await asyncio.sleep(3600)
    yield ""


@pytest.mark.usefixtures("_test_bots")
async def test_try_out_is_answered_and_stored_nowhere() -> None:
    from webapp.conversations.models import Turn

    runtime = BotHostRuntime()
    layer = get_channel_layer()

    async def host() -> None:
        message = await layer.receive(events.bot_host_channel("default"))
        runtime.tryout(message)

    try:
        listening = asyncio.ensure_future(host())
        turns = [{"speaker": "human", "text": "hi"}]
        assert await events.tryout_reply("test-quick", turns) == "Reply 1 to: hi"
        await listening
    finally:
        await runtime.close()
    assert not await in_database(Turn.objects.exists)()
