"""A test reply waits as long as the setting says."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from chatbots.bots.base import BotError
from webapp.conversations import events


class _Layer:
    async def new_channel(self) -> str:
        return "answer"

    async def send(self, _channel: str, _message: Any) -> None:
        return

    async def receive(self, _channel: str) -> Any:
        await asyncio.Event().wait()


def test_the_limit_follows_the_setting(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.CONFAB_REPLY_TIMEOUT_S = 123.0
    limits: list[float] = []

    async def wait_for(waiting: Any, limit_s: float) -> Any:
        waiting.close()
        limits.append(limit_s)
        raise TimeoutError

    monkeypatch.setattr(events, "get_channel_layer", _Layer)
    monkeypatch.setattr(events, "bot_pool", lambda _bot_id: "default")
    monkeypatch.setattr(events.asyncio, "wait_for", wait_for)
    with pytest.raises(BotError, match="no bot host responded within 133 s"):
        async_to_sync(events.tryout_reply)("eliza", [])
    assert limits == [133.0]
