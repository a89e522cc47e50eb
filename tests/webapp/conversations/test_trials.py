"""A bot that fails everybody: set aside by real replies, tried again by the host, given to people again."""

import asyncio
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from chatbots import Conversation as Context
from chatbots.bots.base import BotError
from chatbots.registry import bots
from tests.builders import make_conversation, make_study
from tests.chatbots.endpoint_server import fails, says, serving
from tests.fakes import FakeStreamBot, FakeWholeBot
from webapp.bots.models import BotHealth
from webapp.bots.selectors import bot_available_ids
from webapp.bots.services import bot_failed
from webapp.conversations import reply_pipeline, services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.models import Conversation, Turn
from webapp.core.database import in_database
from webapp.core.errors import Refused
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for name in ("e", "b"):
        bots.discard(name)


def always(context: Context) -> bool:
    return True


def chats(n: int, *bot_ids: str) -> list[Conversation]:
    study = make_study(bots=list(bot_ids))
    conversations = [make_conversation(study) for _ in range(n)]
    for conversation in conversations:
        services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hi")
    return conversations


async def answer(runtime: BotHostRuntime, conversation: Conversation) -> None:
    runtime.request(conversation.pk)
    while runtime._tasks:
        await asyncio.gather(*runtime._tasks)


def health(bot_id: str = "e") -> BotHealth:
    return BotHealth.objects.get(bot_id=bot_id)


def make_due() -> None:
    BotHealth.objects.update(try_at=timezone.now() - timedelta(seconds=1))


async def test_a_bot_that_fails_everybody_is_set_aside_until_a_trial_works() -> None:
    async with serving(*[fails(500, "no more GPUs")] * 4, says("back")) as server:
        bots.add(server.bot(retries=0))
        runtime = BotHostRuntime()
        try:
            for conversation in await in_database(chats)(3, "e"):
                assert await in_database(bot_available_ids)(["e"]) == ["e"]
                await answer(runtime, conversation)
            assert "no more GPUs" in (await in_database(health)()).reason
            assert await in_database(bot_available_ids)(["e"]) == []
            with pytest.raises(Refused) as caught:
                await in_database(lambda: make_conversation(conversation.study))()
            assert caught.value.code == "no_bot"
            for is_back in (False, True):
                await in_database(make_due)()
                await reply_pipeline.try_disabled_bot(runtime.host, "e")
                assert bool(await in_database(bot_available_ids)(["e"])) is is_back
            assert server.requests[-1]["messages"] == [{"role": "user", "content": reply_pipeline.TEST_MESSAGE}]
            await in_database(lambda: make_conversation(conversation.study))()
        finally:
            await runtime.close()


async def test_the_hosts_sweep_tries_bots_that_were_set_aside() -> None:
    bots.add(FakeStreamBot(name="e"))

    def set_aside() -> None:
        for chat in "abc":
            bot_failed(bot_id="e", reason="gone", chat=chat)
        make_due()

    await in_database(set_aside)()
    runtime = BotHostRuntime()
    beating = asyncio.ensure_future(runtime._beat())
    try:
        async with asyncio.timeout(60):
            while not await in_database(bot_available_ids)(["e"]):
                await asyncio.sleep(0.01)
    finally:
        beating.cancel()
        await runtime.close()


async def test_a_full_queue_is_no_failure_of_the_bot() -> None:
    bots.add(FakeStreamBot(name="e"))
    runtime = BotHostRuntime()
    runtime.host.queue_limit = 0
    try:
        for conversation in await in_database(chats)(3, "e"):
            await answer(runtime, conversation)
    finally:
        await runtime.close()
    assert not await in_database(BotHealth.objects.exists)()


async def test_a_reply_that_was_given_up_counts_and_a_reply_clears() -> None:
    def give_up() -> None:
        (conversation,) = chats(1, "eliza")
        Conversation.objects.update(due_attempts=Conversation.MAX_ATTEMPTS)
        assert services.reply_give_up(conversation_id=conversation.pk) is not None
        assert "given up" in health("eliza").reason
        make_conversation(conversation.study, n_exchanges=1)
        assert health("eliza").n_failed == 0
        assert health("eliza").answered_at is not None
        assert "given up" in health("eliza").reason, "what went wrong last is kept"

    await in_database(give_up)()


async def test_a_stand_ins_reply_is_marked_and_the_bot_it_stands_for_is_failing() -> None:
    bot = FakeStreamBot(name="e", fails=always)
    bot.fallback_bot = "b"
    bots.add(bot)
    bots.add(FakeWholeBot(name="b", title="Understudy"))
    runtime = BotHostRuntime()
    try:
        (conversation,) = await in_database(chats)(1, "e")
        await answer(runtime, conversation)
        with pytest.raises(BotError, match="scripted failure"):
            await reply_pipeline.fetch_test_reply(runtime.host, "e", Context("t").with_turn("human", "hi"))
    finally:
        await runtime.close()
    turn = await in_database(Turn.objects.get)(conversation=conversation, speaker="bot")
    assert (turn.text, turn.answered_by) == ("echo: hi", "b")
    assert "scripted failure" in (await in_database(health)("e")).reason
    assert (await in_database(health)("b")).n_failed == 0

    def exported() -> list[dict]:
        table, options = exporter_get("messages"), ExportOptions()
        names = [column.name for column in table.columns(conversation.study, options)]
        rows = table.rows(conversation.study, options)
        return [dict(zip(names, row, strict=True)) for row in rows]

    assert [row["answered_by"] for row in await in_database(exported)()] == ["", "b"]


async def test_a_second_addresss_reply_is_marked() -> None:
    async with serving(fails(500)) as first, serving(says("hello")) as second:
        url = f"http://127.0.0.1:{second.port}/v1"
        bots.add(first.bot(fallback_url=url))
        runtime = BotHostRuntime()
        try:
            (conversation,) = await in_database(chats)(1, "e")
            await answer(runtime, conversation)
        finally:
            await runtime.close()
    turn = await in_database(Turn.objects.get)(conversation=conversation, speaker="bot")
    assert (turn.text, turn.answered_by) == ("hello", url)
