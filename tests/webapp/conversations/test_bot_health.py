"""What `/healthz` says of the bots, and how often a bot that cannot be loaded is tried."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from django.test import Client

from chatbots.registry import bots
from tests.builders import force_bots, make_conversation, make_study
from tests.fakes import FakeStepBot
from webapp.conversations import bot_host
from webapp.conversations.bot_host import BotHostRuntime
from webapp.core.database import in_database
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
        assert (status, told["states"]) == (503, {"not loaded": 1, "unknown": 1})
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

    made = [bots.add(Large(name=name)) for name in ("large-1", "large-2")]
    await in_database(make_study)(bots=[bot.name for bot in made])
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
        assert sum(bot.loads for bot in made) == 2
    finally:
        await runtime.host.close()
        for bot in made:
            bots.discard(bot.name)


async def test_a_study_that_is_rehearsed_has_all_its_bots_loaded_before_it_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [bots.add(FakeStepBot(name=name)) for name in ("early-1", "early-2")]
    study = await in_database(make_study)(bots=[bot.name for bot in made], state="draft")
    runtime = BotHostRuntime()
    monkeypatch.setattr(bot_host, "_runtime", runtime)
    try:
        await runtime._load_bots()
        await loads_over(runtime)
        assert [bot.loads for bot in made] == [0, 0], "a draft that nobody looks at takes no memory"
        await in_database(make_conversation)(study, is_synthetic=True)
        assert (await in_database(health)())[0] == 200, "participants wait for none of them"
        await runtime._load_bots()
        await loads_over(runtime)
        assert [bot.loads for bot in made] == [1, 1]
        await in_database(study_edit)(study=study, state="collecting")
        status, told = await in_database(health)()
        assert (status, told["states"]) == (200, {"ready": 2})
        await runtime._load_bots()
        await loads_over(runtime)
        assert [bot.loads for bot in made] == [1, 1]
    finally:
        await runtime.close()
        for bot in made:
            bots.discard(bot.name)
