"""What `/healthz` says of the bots, and how often a bot that cannot be loaded is tried."""

import asyncio
import json
import uuid
from collections.abc import Iterator

import pytest
from channels.layers import get_channel_layer
from django.test import Client
from django.urls import reverse
from redis.exceptions import ResponseError

from chatbots.registry import bots
from tests.builders import force_bots, make_conversation, make_study, signed_in
from tests.fakes import FakeStepBot
from webapp.conversations import bot_host
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.services.replies import heartbeat_store
from webapp.core import health as core_health
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _hosted_in_the_web_process(settings) -> None:
    """Run the bot host as embedded, whatever the database and the channel layer are."""
    settings.CONFAB_BOT_HOST_IN_PROCESS = True


@pytest.fixture
def broken() -> Iterator[FakeStepBot]:
    bot = FakeStepBot(name="broken", load_error="the file is damaged")
    bots.add(bot)
    yield bot
    bots.discard("broken")


def health() -> tuple[int, dict]:
    answer = Client().get("/healthz")
    return answer.status_code, json.loads(answer.content)["bots"]


async def loads_over(runtime: BotHostRuntime) -> None:
    while runtime._tasks:
        await next(iter(runtime._tasks))
        await asyncio.sleep(0)  # a finished task leaves the set in the loop's next round


async def test_a_bot_that_cannot_be_loaded_is_tried_again_and_health_stays(
    broken: FakeStepBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = await in_database(make_study)(bots=["broken"])
    await in_database(force_bots)(study, ["broken", "nobody"])
    runtime = BotHostRuntime()
    monkeypatch.setattr(bot_host, "_runtime", runtime)
    try:
        status, told = await in_database(health)()
        assert (status, told["ok"], told["states"]) == (200, False, {"not loaded": 1, "unknown": 1})
        assert "broken" not in json.dumps(told), "a participant may read it"
        for _ in range(3):  # sweeps
            await runtime._load_bots()
            await loads_over(runtime)
        assert broken.loads == 1
        assert (await in_database(health)())[0] == 200
        monkeypatch.setattr(bot_host, "RETRY_LOAD_S", 0.0)
        broken.load_delay_s = 0.3
        await runtime._load_bots()
        lane = runtime.host._lane("broken")
        while lane.state != "loading":
            await bot_host.asyncio.sleep(0)
        status, told = await in_database(health)()
        assert (status, told["states"]) == (200, {"loading": 1, "unknown": 1})
        broken.load_error = None
        await loads_over(runtime)
        assert broken.loads == 2
        assert (await in_database(health)())[1]["states"] == {"ready": 1, "unknown": 1}
    finally:
        await runtime.close()


async def test_a_bot_that_made_room_is_well_and_is_not_loaded_again_unasked(
    monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    settings.CONFAB_BOT_MEMORY_MB = 15

    class Large(FakeStepBot):
        memory_bytes = 10_000_000

    results = [bots.add(Large(name=name)) for name in ("large-1", "large-2")]
    await in_database(make_study)(bots=[bot.name for bot in results])
    runtime = BotHostRuntime()
    monkeypatch.setattr(bot_host, "_runtime", runtime)
    try:
        for _ in range(3):  # sweeps
            monkeypatch.setattr(bot_host, "RETRY_LOAD_S", 0.0)
            await runtime._load_bots()
            await loads_over(runtime)
        status, told = await in_database(health)()
        assert (status, told["states"]) == (200, {"ready": 1, "unloaded": 1})
        assert told["load"]["loaded"] == 1
        assert told["load"]["memory_bytes"] == 10_000_000
        assert sum(bot.loads for bot in results) == 2
    finally:
        await runtime.host.close()
        for bot in results:
            bots.discard(bot.name)


async def test_a_study_that_is_rehearsed_has_all_its_bots_loaded_before_it_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = [bots.add(FakeStepBot(name=name)) for name in ("early-1", "early-2")]
    study = await in_database(make_study)(bots=[bot.name for bot in results], state="draft")
    runtime = BotHostRuntime()
    monkeypatch.setattr(bot_host, "_runtime", runtime)
    try:
        await runtime._load_bots()
        await loads_over(runtime)
        assert [bot.loads for bot in results] == [0, 0], "a draft that nobody looks at takes no memory"
        await in_database(make_conversation)(study, is_synthetic=True)
        assert (await in_database(health)())[0] == 200, "participants wait for none of them"
        await runtime._load_bots()
        await loads_over(runtime)
        assert [bot.loads for bot in results] == [1, 1]
        await in_database(study_edit)(study=study, state="collecting")
        status, told = await in_database(health)()
        assert (status, told["states"]) == (200, {"ready": 2})
        await runtime._load_bots()
        await loads_over(runtime)
        assert [bot.loads for bot in results] == [1, 1]
    finally:
        await runtime.close()
        for bot in results:
            bots.discard(bot.name)


async def test_a_channel_layer_that_takes_no_messages_is_no_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that is full refuses writes; one that evicts keys loses what was sent."""
    monkeypatch.setattr(core_health, "_ANSWERS_WITHIN_S", 0.05)

    async def refuse(*_args: object) -> None:
        raise ResponseError("OOM command not allowed when used memory > 'maxmemory'.")

    async def lose(*_args: object) -> None:
        pass

    def look() -> tuple[int, dict]:
        response = Client().get("/healthz")
        return response.status_code, json.loads(response.content)["channel_layer"]

    layer = get_channel_layer()
    for send, error in ((refuse, "ResponseError"), (lose, "TimeoutError")):
        monkeypatch.setattr(layer, "send", send)
        assert await in_database(look)() == (503, {"ok": False, "error": error})


async def test_a_study_whose_bots_are_all_down_says_so_before_consent(broken: FakeStepBot) -> None:
    await in_database(make_study)("down", bots=["broken"])

    def entry() -> str:
        return " ".join(Client().get("/s/down/").content.decode().split())

    assert 'name="consent"' in await in_database(entry)()
    bots_down = {"broken": {"state": "unavailable", "reason": "the file is damaged"}}
    await in_database(heartbeat_store)(host_id=uuid.uuid4(), pool="default", bots=bots_down)
    page = await in_database(entry)()
    assert "No chatbot is available at the moment" in page
    assert 'name="consent"' not in page
    staff = await in_database(signed_in)(*Right)

    def system() -> str:
        return staff.get(reverse("dashboard:system")).content.decode()

    told = await in_database(system)()
    assert "the file is damaged" in told
    assert "No problem found" not in told
