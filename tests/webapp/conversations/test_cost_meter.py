"""Chats and self-play with a bot that costs money, against the endpoint tests' server."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from channels.layers import get_channel_layer

from chatbots.bots.base import BotError
from chatbots.bots.endpoint import EndpointBot
from chatbots.registry import bots
from tests.builders import make_conversation, make_participant, make_study
from tests.chatbots.endpoint_server import Server, counts, says, serving
from tests.webapp.conversations.frames import frames_of
from webapp.bots.models import Spending
from webapp.bots.selectors import bot_entry, bot_find
from webapp.conversations import services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.events import bot_host_channel, tryout_reply
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.task_start import conversation_start
from webapp.core.database import in_database
from webapp.core.errors import Refused
from webapp.core.models import Project
from webapp.core.project_scope import in_project
from webapp.core.projects import project_limit
from webapp.jobs.engine import run_job
from webapp.jobs.kinds import base
from webapp.jobs.services.selfplay import run_create
from webapp.jobs.services.simulation import simulation_create
from webapp.studies.assignment.capacity import bots_beyond_cap
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db(transaction=True)

PRICES: dict[str, Any] = {"price_in": 0, "price_out": 1e6, "max_new_tokens": 20}


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    bots.discard("e")
    base._loaded.clear()


def paid(server: Server, **params: Any) -> EndpointBot:
    bot = server.bot(**{**PRICES, **params})
    bots.add(bot)
    return bot


async def answered(conversation: Conversation) -> dict[str, Any]:
    """Return the last frame after one more message."""
    return (await frames_of(conversation, "hi"))[-1]


async def test_a_reply_is_stored_with_its_tokens_and_cost_and_charged_to_bot_and_study() -> None:
    async with serving(counts(30, 4, "Hello"), says("four")) as server:
        paid(server)
        conversation = await in_database(lambda: make_conversation(make_study(bots=["e"])))()
        for _ in range(2):
            assert (await answered(conversation))["type"] == "reply"

    def stored() -> tuple[list[Any], list[Any], list[Any]]:
        turns = Turn.objects.order_by("index").values_list("tokens_in", "tokens_out", "tokens_estimated", "cost")
        accounts = Spending.objects.order_by("of").values_list("of", "spent_nano", "n_calls")
        table = exporter_get("messages")
        study = Study.objects.get()
        names = [column.name for column in table.columns(study, ExportOptions())]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows(study, ExportOptions())]
        told = [[row[n] for n in ("tokens_in", "tokens_estimated", "cost")] for row in rows]
        return list(turns), list(accounts), told

    turns, accounts, told = await in_database(stored)()
    assert turns[:3] == [(None, None, False, None), (30, 4, False, 4.0), (None, None, False, None)]
    assert turns[3][1:] == (1, True, 1.0)  # four bytes are about a token
    assert accounts == [("bot", 5 * 10**9, 2), ("project", 5 * 10**9, 2), ("study", 5 * 10**9, 2)]
    assert told[:2] == [[None, None, None], [30, False, 4.0]]


async def test_a_studys_cap_ends_in_the_usual_way_out() -> None:
    def prepare() -> Conversation:
        study = make_study(bots=["e", "eliza"], max_cost=25.0)
        first, second = make_conversation(study), make_conversation(study)
        return first if first.bot.bot_id == "e" else second  # one has either

    async with serving(counts(1, 6, "ok")) as server:
        paid(server)
        conversation = await in_database(prepare)()
        assert (await answered(conversation))["type"] == "reply"
        frame = await answered(conversation)
    assert (frame["code"], frame["can"]) == ("bot_failed", ["retry", "swap", "finish"])
    assert len(server.requests) == 1

    def after() -> tuple[str, str]:
        conversation.refresh_from_db()
        error = conversation.due_error
        other = services.conversation_swap(conversation=conversation)
        return error, other.bot.bot_id

    error, other = await in_database(after)()
    assert error.startswith("e: the cap of study s, 25, is reached: 6 is spent")
    assert other == "eliza"


async def test_a_projects_limit_ends_a_chat_in_the_usual_way_out_and_admits_nobody_else() -> None:
    def prepare() -> Conversation:
        with in_project(Project.objects.create(key="lab", name="Lab").key):
            return make_conversation(make_study(bots=["e"]))

    def limit(amount: float) -> None:
        project_limit(project=Project.objects.get(key="lab"), monthly_cost_limit=amount)

    async with serving(counts(1, 6, "ok")) as server:
        paid(server)
        conversation = await in_database(prepare)()
        assert (await answered(conversation))["type"] == "reply"
        await in_database(limit)(25.0)
        frame = await answered(conversation)
    assert (frame["code"], frame["can"]) == ("bot_failed", ["retry", "swap", "finish"])
    assert len(server.requests) == 1

    def after() -> tuple[str, list[tuple[str, str]]]:
        conversation.refresh_from_db()
        study = Study.objects.get()
        assert bots_beyond_cap(study)["e"].startswith("the project's cost limit of 25 for ")
        with pytest.raises(Refused, match="budget has been used up"):
            conversation_start(participant=make_participant(study))
        return conversation.due_error, list(Spending.objects.filter(of="project").values_list("key", "spent_nano"))

    error, accounts = await in_database(after)()
    assert re.match(r"e: the project's cost limit for \w+ \d+, 25, is reached: 6 is spent", error)
    assert "lab" not in error.lower()
    assert accounts == [(f"lab {datetime.now(UTC):%Y-%m}", 6 * 10**9)]


async def test_a_test_chat_is_charged_to_the_project_of_the_page() -> None:
    def prepare() -> None:
        Project.objects.create(key="lab", name="Lab", monthly_cost_limit=5.0)

    async def test_reply() -> str:
        waiting = asyncio.create_task(tryout_reply("e", [{"speaker": "human", "text": "hi"}]))
        while not waiting.done():  # an earlier test may have left a message that nobody received
            receiving = asyncio.create_task(get_channel_layer().receive(bot_host_channel("default")))
            await asyncio.wait({waiting, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                runtime.tryout(receiving.result())
            else:
                receiving.cancel()
        return await waiting

    async with serving(counts(1, 6, "ok")) as server:
        paid(server)
        await in_database(prepare)()
        runtime = BotHostRuntime()
        try:
            with in_project("lab"), pytest.raises(BotError, match="project's cost limit for"):
                await test_reply()
            assert await test_reply() == "ok"
        finally:
            await runtime.close()
    accounts = await in_database(lambda: {row.key: row.spent for row in Spending.objects.filter(of="project")})()
    month = f"{datetime.now(UTC):%Y-%m}"
    assert accounts == {f"lab {month}": 0.0, f"default {month}": 6.0}


async def test_a_cap_that_is_reached_offers_the_bot_to_nobody() -> None:
    async with serving(counts(1, 20, "ok")) as server:
        bot = paid(server, max_cost=30)
        study = await in_database(lambda: make_study(bots=["e"]))()
        conversation = await in_database(lambda: make_conversation(study))()
        await answered(conversation)
    entry = await in_database(bot_entry)(bot)
    assert not entry.available
    assert entry.reason == ("its cost limit of 30 is reached: 20 is spent; the limit is max_cost in bots.yaml")

    def next_one() -> None:
        conversation_start(participant=make_participant(study))

    with pytest.raises(Refused, match="No chatbot is available"):
        await in_database(next_one)()


async def test_self_play_spends_from_the_same_account() -> None:
    def play() -> tuple[str, str, list[float]]:
        run = run_create(bots=["e"], n_conversations=1, n_turns=6, enqueue=False)
        run_job(run)
        run.refresh_from_db()
        result = Turn.objects.filter(conversation__selfplay__run=run).order_by("index")
        return run.state, run.error, list(result.values_list("cost", flat=True))

    async with serving(counts(1, 10, "ok")) as server:
        paid(server, max_cost=35)
        state, error, costs = await asyncio.to_thread(_closing, play)
    assert state == "failed"
    assert "the cap of bot e, 35, is reached: 20 is spent" in error
    assert costs == [10.0, 10.0]
    assert bot_find("e").unavailable_reason() is None
    accounts = await in_database(lambda: {account.of: account.spent for account in Spending.objects.all()})()
    assert accounts == {"bot": 20.0, "project": 20.0}


async def test_self_play_spends_from_the_project_of_its_job() -> None:
    """The replies are made in threads of the job, which keep its project."""

    def play() -> tuple[str, str, dict[str, float]]:
        Project.objects.create(key="lab", name="Lab", monthly_cost_limit=35.0)
        with in_project("lab"):
            run = run_create(bots=["e"], n_conversations=1, n_turns=6, enqueue=False)
        run_job(run)
        run.refresh_from_db()
        spent = {account.key: account.spent for account in Spending.objects.filter(of="project")}
        return run.state, run.error, spent

    async with serving(counts(1, 10, "ok")) as server:
        paid(server)
        state, error, spent = await asyncio.to_thread(_closing, play)
    assert state == "failed"
    assert "the project's cost limit for" in error
    assert spent == {f"lab {datetime.now(UTC):%Y-%m}": 20.0}


async def test_simulated_chats_stop_at_the_cap_of_their_run() -> None:
    def play() -> tuple[str, str, list[Any]]:
        study = make_study(bots=["e"])
        run = simulation_create(
            study=study, participants=["scripted"], n_conversations=3, n_exchanges=6, max_cost=35.0, enqueue=False
        )
        run_job(run)
        run.refresh_from_db()
        return run.state, run.error, list(Spending.objects.order_by("of").values_list("of", "spent_nano", "n_calls"))

    async with serving(counts(1, 10, "ok")) as server:
        paid(server)
        state, error, accounts = await asyncio.to_thread(_closing, play)
    assert state == "failed"
    assert error.startswith("The run reached its cost limit.")
    (_bot, spent, n_calls), _project, (_run, also, _n) = accounts
    assert [of for of, _spent, _n in accounts] == ["bot", "project", "run"]
    assert spent == also == 10 * 10**9 * n_calls
    assert 0 < n_calls <= 3
    assert len(server.requests) == n_calls


def _closing(work: Any) -> Any:
    from django.db import connection

    try:
        return work()
    finally:
        connection.close()
