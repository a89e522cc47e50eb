"""The chat's socket where the channel layer loses what it is given, or is away."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from redis.exceptions import ConnectionError as RedisAway

from chatbots.bots.person import PersonBot
from chatbots.registry import bots
from tests.builders import make_study
from tests.webapp.participant.conftest import begin, entry_field, post
from webapp.asgi import application
from webapp.conversations import events, selectors, services
from webapp.conversations.models import Conversation, PartnerSeat
from webapp.core.database import in_database
from webapp.core.page_layer import PageLayer
from webapp.participant import consumers
from webapp.ratings.paired_comparisons import study_judgements
from webapp.studies.models import Study
from webapp.studies.privacy import withdrawal_token
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db(transaction=True)
CASES = Path(__file__).parents[2] / "cases"


async def lost(*_args: object) -> None:
    """Take a message that is never heard of again."""


async def away(*_args: object) -> None:
    raise RedisAway("Error 111 connecting to 127.0.0.1:6379. Connection refused.")


def started(key: str = "s", **fields: Any) -> tuple[str, str]:
    """Start a chat; return its id and its browser's cookies."""
    make_study(key, min_exchanges=1, **fields)
    browser = Client(enforce_csrf_checks=True)
    conversation = begin(browser, key)
    return str(conversation.pk), "; ".join(f"{c.key}={c.value}" for c in browser.cookies.values())


def answer(conversation_id: str) -> None:
    """Answer as a bot host does that swept the database."""
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=conversation_id, lease=lease, lease_s=30)
    services.turn_add_bot(conversation_id=conversation_id, lease=lease, text="Here I am.")


class Page:
    """One open page: its socket, in JSON."""

    def __init__(self, conversation_id: str, cookies: str) -> None:
        self.socket = WebsocketCommunicator(
            application, f"/ws/chat/{conversation_id}/", headers=[(b"cookie", cookies.encode())]
        )

    async def open(self) -> Page:
        """Connect, and read the history."""
        assert (await self.socket.connect())[0]
        assert (await self.hears())["type"] == "history"
        return self

    async def hears(self) -> dict:
        return json.loads(await self.socket.receive_from(timeout=60))

    async def hears_after_turns(self) -> dict:
        """Return the next frame that is no turn: what was said as a page opened may reach it twice, by history and by
        frame.
        """
        while (frame := await self.hears())["type"] == "turn":
            pass
        return frame

    async def says(self, text: str, client_id: str) -> None:
        frame = {"type": "message", "client_id": client_id, "text": text}
        await self.socket.send_to(json.dumps(frame))

    async def votes(self, turn: int, value: int) -> None:
        await self.socket.send_to(json.dumps({"type": "vote", "turn": turn, "value": value}))


@pytest.mark.parametrize("sends", [lost, away])
async def test_a_page_hears_of_all_that_is_stored(monkeypatch, sends, json_lines) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.05)
    monkeypatch.setattr(get_channel_layer(events.FRAMES), "group_send", sends)
    monkeypatch.setattr(get_channel_layer(), "send", sends)
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    client_id = str(uuid.uuid4())
    await page.says("hello", client_id)
    stored = await page.hears()
    assert (stored["type"], stored["turn"], stored["client_id"]) == ("turn", 0, client_id)
    await in_database(answer)(conversation_id)
    reply = await page.hears()
    assert (reply["type"], reply["turn"], reply["text"]) == ("reply", 1, "Here I am.")
    await page.votes(1, -1)
    vote = await page.hears()
    assert (vote["type"], vote["turn"], vote["value"]) == ("vote", 1, -1)
    await page.socket.disconnect()
    (line,) = [line for line in map(json.loads, json_lines()) if line["event"] == "socket closed"]
    assert (line["route"], line["conversation_id"]) == ("chat socket", str(conversation_id))


async def test_a_page_opens_while_redis_is_away_and_hears_frames_once_it_is_back(monkeypatch) -> None:
    dead = PageLayer(hosts=[{"address": "redis://127.0.0.1:1"}])  # where nothing listens
    with pytest.raises(RedisAway):
        await dead.group_add("pages", await dead.new_channel())
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.05)
    layer = get_channel_layer(events.FRAMES)
    adds = layer.group_add
    monkeypatch.setattr(layer, "group_add", away)
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await page.says("hello", str(uuid.uuid4()))
    assert (await page.hears())["type"] == "turn"
    await in_database(answer)(conversation_id)
    assert (await page.hears())["text"] == "Here I am."
    monkeypatch.setattr(layer, "group_add", adds)
    await page.says("hello again", str(uuid.uuid4()))
    assert (await page.hears())["type"] == "turn"
    await asyncio.wait_for(reply_asked_for(conversation_id), 10)

    async def publish() -> None:
        while True:  # the page subscribes after it has requested the reply
            await events.frame_publish(conversation_id, {"type": "token", "turn": 3})
            await asyncio.sleep(0.2)

    publishing = asyncio.create_task(publish())
    assert await page.hears() == {"type": "token", "turn": 3}
    publishing.cancel()
    await page.socket.disconnect()


async def test_a_page_that_goes_before_the_acknowledgement_still_gets_its_reply(monkeypatch, caplog) -> None:
    conversation_id, cookies = await in_database(started)()
    page, other = [await Page(conversation_id, cookies).open() for _ in range(2)]
    stored_by = services.turn_add_human

    def stored_and_gone(**given: Any) -> services.HumanTurn:
        human = stored_by(**given)
        # What uvicorn raises: at first an OSError, and then, once it has noticed, a RuntimeError.
        errors = iter([OSError()])

        async def gone(self: Any, text_data: str) -> None:
            if self.channel_name == channels[0]:
                raise next(errors, RuntimeError("Unexpected ASGI message 'websocket.send'"))
            await sends(self, text_data=text_data)

        monkeypatch.setattr(consumers.ChatConsumer, "send", gone)
        return human

    channels: list[str] = []
    receive, sends = consumers.ChatConsumer.receive, consumers.ChatConsumer.send

    async def heard_on(self: Any, **given: Any) -> None:
        channels.append(self.channel_name)
        await receive(self, **given)

    monkeypatch.setattr(consumers.ChatConsumer, "receive", heard_on)
    monkeypatch.setattr(services, "turn_add_human", stored_and_gone)
    await page.says("hello", str(uuid.uuid4()))
    stored = await other.hears()
    assert (stored["type"], stored["turn"], stored["text"]) == ("turn", 0, "hello")
    await asyncio.wait_for(reply_asked_for(conversation_id), 10)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    for one in (page, other):
        await one.socket.disconnect()


async def reply_asked_for(conversation_id: str) -> None:
    """Hear what the bot host hears until it is asked for this reply."""
    params = {"type": "reply.request", "conversation_id": conversation_id}
    while await get_channel_layer().receive(events.bot_host_channel("default")) != params:
        pass


async def test_tabs_that_vote_at_once_end_alike(monkeypatch) -> None:
    conversation_id, cookies = await in_database(started)()
    await in_database(exchanged)(conversation_id)
    first, second = [await Page(conversation_id, cookies).open() for _ in range(2)]
    n_stored, both_stored, publish = 0, asyncio.Event(), events.frame_publish

    async def once_both_are_stored(*given: Any, **more: Any) -> None:
        nonlocal n_stored
        n_stored += 1
        if n_stored == 2:
            both_stored.set()
        await asyncio.wait_for(both_stored.wait(), 10)
        await publish(*given, **more)

    monkeypatch.setattr(events, "frame_publish", once_both_are_stored)
    await first.votes(1, 1)
    assert (await first.hears())["value"] == 1
    await second.votes(1, -1)
    assert (await second.hears())["value"] == -1
    # Each hears of the other, the first vote last.
    assert (await first.hears())["value"] == -1
    assert (await second.hears())["value"] == -1
    for one in (first, second):
        await one.socket.disconnect()


def exchanged(conversation_id: str) -> None:
    services.turn_add_human(conversation_id=conversation_id, client_id=uuid.uuid4(), text="hello")
    answer(conversation_id)


def database_away(*_args: object, **_more: object) -> None:
    raise OperationalError("could not connect to server: Connection refused")


async def test_while_the_database_is_away_nothing_is_said_to_be_saved(monkeypatch) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.05)
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    client_id = str(uuid.uuid4())
    with monkeypatch.context() as away:
        away.setattr(services, "turn_add_human", database_away)
        await page.says("hello", client_id)
        refused = await page.hears()
    assert (refused["code"], refused["client_id"]) == ("unavailable", client_id)
    assert "chat is saved" not in refused["message"]
    await page.says("hello", client_id)
    assert (await page.hears())["type"] == "turn"
    # Away again: the look for the reply outlives it.
    looks = selectors.reply_state
    n_looks = 0

    def away_at_first(*given: Any) -> selectors.DueReply:
        nonlocal n_looks
        n_looks += 1
        if n_looks < 3:
            database_away()
        return looks(*given)

    monkeypatch.setattr(selectors, "reply_state", away_at_first)
    await in_database(answer)(conversation_id)
    assert (await page.hears())["type"] == "reply"
    with monkeypatch.context() as away:
        away.setattr(services, "vote_set", database_away)
        await page.votes(1, 1)
        refused = await page.hears()
    assert (refused["code"], refused["turn"]) == ("unavailable", 1)
    await page.socket.disconnect()


async def test_a_page_that_comes_while_the_database_is_away_may_come_again(monkeypatch) -> None:
    conversation_id, cookies = await in_database(started)()
    with monkeypatch.context() as away:
        away.setattr(selectors, "conversation_for", database_away)
        page = Page(conversation_id, cookies)
        assert (await page.socket.connect())[0]
        assert (await page.hears())["code"] == "unavailable"
        closed = await page.socket.receive_output(timeout=10)
    assert (closed["type"], closed["code"]) == ("websocket.close", 1013)
    await Page(conversation_id, cookies).open()


async def test_a_page_is_told_that_a_reply_is_long_overdue_and_still_gets_it(monkeypatch) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.05)
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await page.says("hello", str(uuid.uuid4()))
    assert (await page.hears())["type"] == "turn"
    long_ago = timezone.now() - timedelta(hours=1)
    await in_database(Conversation.objects.update)(due_since=long_ago)
    told = await page.hears()
    assert (told["code"], told["overdue"], told["can"]) == ("bot_failed", True, ["swap", "finish"])
    again = await Page(conversation_id, cookies).open()
    assert (await again.hears_after_turns()) == told
    await in_database(answer)(conversation_id)
    assert (await page.hears())["type"] == "reply"
    assert (await again.hears_after_turns())["type"] == "reply"


async def test_a_client_id_of_any_kind_is_answered() -> None:
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await page.says("hello", "half \ud83d of a pair")
    refused = await page.hears()
    assert refused["code"] == "bad_frame"


async def test_a_message_of_which_nothing_is_seen_is_no_exchange() -> None:
    case = json.loads((CASES / "invisible_message.json").read_text(encoding="utf-8"))
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    for text in (case["text"], "\u2060", "\u2800 \u2800", "\u3164"):
        await page.says(text, str(uuid.uuid4()))
        assert (await page.hears())["code"] == "empty", repr(text)
    chat = await in_database(Conversation.objects.get)(pk=conversation_id)
    assert (chat.n_exchanges, chat.due_turn) == (0, None)
    assert await in_database(chat.turns.count)() == 0
    await page.says("\u200bhello", str(uuid.uuid4()))
    assert (await page.hears())["type"] == "turn"


async def test_the_first_frame_has_the_texts_of_the_condition_for_participants_alone() -> None:
    texts = {"scenario": "You are <b>lost</b>.", "instructions": "Ask.\nThank."}
    levels = [{"key": key, "bot_prompt": "Be rude.", "opening": "Hm?", **texts} for key in ("one", "two")]
    factors = [{"key": "scenario", "levels": levels}]
    for key, fields, expected in (("with", {"factors": factors}, {"condition": texts}), ("without", {}, {})):
        conversation_id, cookies = await in_database(started)(key, **fields)
        socket = Page(conversation_id, cookies).socket
        assert (await socket.connect())[0]
        frame = json.loads(await socket.receive_from(timeout=60))
        await socket.disconnect()
        assert frame == {"type": "history", "turns": frame["turns"], "can_rate": False, "pending": None, **expected}


async def test_replies_are_picked_after_an_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.02)  # no host tells of its replies here

    def started_picks() -> tuple[list[str], str]:
        levels = [{"key": key, "opening": "Hello."} for key in ("one", "two")]
        settings = {"protocol": "picks", "n_comparisons": 1, "min_exchanges": 2}
        make_study("p", bots=["eliza", "parrot"], factors=[{"key": "greeting", "levels": levels}], **settings)
        browser = Client(enforce_csrf_checks=True)
        page = browser.get("/s/p/")
        assert post(browser, "/s/p/start/", consent="on", _entry=entry_field(page)).status_code == 302
        chats = Conversation.objects.order_by("slot__order").values_list("pk", flat=True)
        return list(map(str, chats)), "; ".join(f"{c.key}={c.value}" for c in browser.cookies.values())

    chats, cookies = await in_database(started_picks)()
    pages = [await Page(chat, cookies).open() for chat in chats]
    for n, turn in enumerate((2, 4)):
        for chat, page in zip(chats, pages, strict=True):
            await page.says("hello", str(uuid.uuid4()))
            assert ((frame := await page.hears())["type"], frame.get("turn")) == ("turn", turn - 1)
            assert await in_database(selectors.reply_is_awaited)(chat, turn)
            await in_database(answer)(chat)
            assert not await in_database(selectors.reply_is_awaited)(chat, turn)
            reply = await page.hears()
            assert (reply["type"], reply["turn"], reply["can_rate"]) == ("reply", turn, n == 1)
        for number in (0, turn):
            await pages[n].socket.send_to(json.dumps({"type": "pick", "turn": number}))
            frame = await pages[n].hears()
            assert (frame["type"], frame["turn"]) == ("pick" if number else "error", number)
        assert (await pages[1 - n].hears())["goes_on"] is False
    for page in pages:
        await page.socket.disconnect()
    study = await in_database(Study.objects.get)(key="p")
    judged = await in_database(study_judgements)(study)
    assert judged.exchange.tolist() == [1, 2]
    table = await in_database(table_of)(study, "ratings", ExportOptions())
    at = [column.name for column in table.columns].index("turn")
    assert await in_database(lambda: [row[at] for row in table.rows])() == [2, 4]


async def test_pages_of_two_participants_find_each_other() -> None:
    def both_started() -> list[tuple[str, str]]:
        make_study("two", bots=["somebody"], disclosure="before", without_partner="pay", min_exchanges=1)
        browsers = [Client(enforce_csrf_checks=True) for _ in range(2)]
        chats = [begin(browser, "two") for browser in browsers]
        cookies = ["; ".join(f"{c.key}={c.value}" for c in browser.cookies.values()) for browser in browsers]
        return [(str(chat.pk), cookie) for chat, cookie in zip(chats, cookies, strict=True)]

    bots.search()
    bots.put(PersonBot(name="somebody"))
    try:
        chats = await in_database(both_started)()
        result = await Page(*chats[0]).open()
        waiting = await result.hears()
        assert (waiting["type"], waiting["state"]) == ("waiting", "waiting")
        assert 0 < waiting["seconds_left"] <= 60
        await result.says("Hello?", str(uuid.uuid4()))
        assert (await result.hears())["code"] == "waiting_for_reply"
        other = await Page(*chats[1]).open()
        here = await other.hears()
        assert (here["type"], here["state"]) == ("waiting", "here")
        history, results = await result.hears(), await result.hears()
        assert history["type"] == "history"
        assert results == {"type": "waiting", "state": "here", "writes_first": not here["writes_first"]}
        first, second = (result, other) if results["writes_first"] else (other, result)
        await first.says("Hello!", str(uuid.uuid4()))
        assert (await first.hears())["type"] == "turn"
        seat = await in_database(PartnerSeat.objects.get)(writes_second=True)
        assert (seat.given_turn, seat.given_text) == (0, "Hello!")
        await first.socket.disconnect()
        await second.socket.disconnect()
    finally:
        bots.discard("somebody")


@pytest.mark.parametrize("deletes_everything", [False, True], ids=["this task", "all data"])
async def test_an_open_page_leads_to_the_last_page_after_a_withdrawal(deletes_everything: bool) -> None:
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    other_tab = Client(enforce_csrf_checks=True)
    other_tab.cookies.load(cookies)

    def withdraw() -> str:
        participant = Conversation.objects.get(pk=conversation_id).participant
        address, fields = f"/chat/{conversation_id}/withdraw/", {}
        if deletes_everything:
            address, fields = f"/withdraw/{withdrawal_token(participant)}/", {"confirm": "on"}
        assert post(other_tab, address, **fields).status_code == 302
        return str(participant.tasks.get().public_id)

    task_id = await in_database(withdraw)()
    frame = await page.hears()
    assert (frame["code"], frame["ended"]) == ("closed", True)
    await page.socket.disconnect()

    def reload() -> str:
        return other_tab.get(f"/chat/{conversation_id}/", follow=True).request["PATH_INFO"]

    assert (await in_database(reload)()) in (f"/task/{task_id}/done/", f"/chat/{conversation_id}/done/")
