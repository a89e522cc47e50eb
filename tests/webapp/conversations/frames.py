"""Frames of a chat that a bot host of this process answers."""

import asyncio
import uuid
from typing import Any

from channels.layers import get_channel_layer

from webapp.conversations import events, services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.models import Conversation
from webapp.core.database import in_database


async def listened(conversation: Conversation) -> str:
    """Return a channel that gets the conversation's frames from now on."""
    layer = get_channel_layer(events.FRAMES)
    channel: str = await layer.new_channel()
    await layer.group_add(events.conversation_group(conversation.pk), channel)
    return channel


async def frames_to_the_end(channel: str) -> list[dict[str, Any]]:
    """Return the frames up to the reply, or to the news that it failed."""
    layer = get_channel_layer(events.FRAMES)
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["type"] not in ("reply", "error"):
        frames.append((await asyncio.wait_for(layer.receive(channel), 60))["frame"])
    return frames


async def frames_of(conversation: Conversation, text: str = "more") -> list[dict[str, Any]]:
    """Write a message, have a host of its own reply, and return the frames."""
    await in_database(services.turn_add_human)(conversation_id=conversation.pk, client_id=uuid.uuid4(), text=text)
    runtime = BotHostRuntime()
    channel = await listened(conversation)
    try:
        runtime.request(conversation.pk)
        return await frames_to_the_end(channel)
    finally:
        await runtime.close()
