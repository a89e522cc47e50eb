"""The chat's socket where the channel layer loses what it is given, or is away."""

from __future__ import annotations

import json
import uuid

import pytest
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway

from tests.builders import make_study
from tests.webapp.participant.conftest import begin
from webapp.asgi import application
from webapp.conversations import services
from webapp.core.database import in_database
from webapp.participant import consumers

pytestmark = pytest.mark.django_db(transaction=True)


async def lost(*_args: object) -> None:
    """Taken, and never heard of again."""


async def away(*_args: object) -> None:
    raise RedisAway("Error 111 connecting to 127.0.0.1:6379. Connection refused.")


def started() -> tuple[str, str]:
    """A conversation's id and its browser's cookies."""
    make_study("s", min_exchanges=1)
    browser = Client(enforce_csrf_checks=True)
    conversation = begin(browser)
    return str(conversation.pk), "; ".join(f"{c.key}={c.value}" for c in browser.cookies.values())


def answer(conversation_id: str) -> None:
    """What a bot host does that swept the database."""
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=conversation_id, lease=lease, lease_s=30)
    services.turn_add_bot(conversation_id=conversation_id, lease=lease, text="Here I am.")


@pytest.mark.parametrize("sends", [lost, away])
async def test_a_page_hears_of_all_that_is_stored(monkeypatch, sends) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.05)
    layer = get_channel_layer()
    monkeypatch.setattr(layer, "group_send", sends)
    monkeypatch.setattr(layer, "send", sends)
    conversation_id, cookies = await in_database(started)()
    page = WebsocketCommunicator(
        application, f"/ws/chat/{conversation_id}/", headers=[(b"cookie", cookies.encode())]
    )
    assert (await page.connect())[0]

    async def heard() -> dict:
        return json.loads(await page.receive_from(timeout=10))

    assert (await heard())["type"] == "history"
    client_id = str(uuid.uuid4())
    message = {"type": "message", "client_id": client_id, "text": "hello"}
    await page.send_to(json.dumps(message))
    stored = await heard()
    assert (stored["type"], stored["turn"], stored["client_id"]) == ("turn", 0, client_id)
    await in_database(answer)(conversation_id)
    reply = await heard()
    assert (reply["type"], reply["turn"], reply["text"]) == ("reply", 1, "Here I am.")
    await page.send_to(json.dumps({"type": "vote", "turn": 1, "value": -1}))
    vote = await heard()
    assert (vote["type"], vote["turn"], vote["value"]) == ("vote", 1, -1)
    await page.disconnect()
