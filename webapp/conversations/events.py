"""Events on the channel layers, which only this module sends.

Events may be lost, so nothing depends on them: the rows are authoritative, and receivers look them up after a while.

Call it on the server's event loop only: the in-memory layer is not safe from other threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from django.conf import settings
from django.utils.translation import gettext as _

from chatbots.bots.base import BotError
from webapp.bots.selectors import bot_pool
from webapp.conversations.frames import error_frame
from webapp.core.health import redis_errors
from webapp.core.project_scope import active_project

logger = logging.getLogger(__name__)

FRAMES = "frames"
"""Channel layer of open pages; bot hosts use the default one."""


def conversation_group(conversation_id: UUID | str) -> str:
    """Return the group that every open page of a conversation belongs to."""
    return f"conversation.{conversation_id}"


def bot_host_channel(pool: str) -> str:
    """Return the channel on which a pool's bot hosts receive work."""
    return f"bot-host.{pool}"


async def frame_publish(conversation_id: UUID | str, frame: dict[str, Any], *, sender: str = "") -> None:
    """Send a frame to the conversation's open pages except the sender's channel."""
    await _try(
        get_channel_layer(FRAMES).group_send(
            conversation_group(conversation_id), {"type": "frame.publish", "frame": frame, "sender": sender}
        )
    )


def publish_end(conversation_ids: Iterable[UUID]) -> None:
    """Let every open page of these conversations reload.

    The caller is in a view's thread.

    The reloaded page shows the task's outcome.
    """
    frame = error_frame(code="closed", message=str(_("This chat has ended.")), ended=True)

    async def publish() -> None:
        for conversation_id in conversation_ids:
            await frame_publish(conversation_id, frame)

    async_to_sync(publish)()  # runs on the server's event loop


async def move_publish(conversation_id: UUID | str, n_moves: int) -> None:
    """Send the participant's number of moves to the conversation's open pages."""
    await _try(
        get_channel_layer(FRAMES).group_send(conversation_group(conversation_id), {"type": "moved", "n_moves": n_moves})
    )


async def reply_request(*, conversation_id: UUID | str, bot_id: str) -> None:
    """Request the due reply from a bot host.

    If the event is lost, the host's sweep finds the reply.
    """
    await _try(
        get_channel_layer().send(
            bot_host_channel(bot_pool(bot_id)), {"type": "reply.request", "conversation_id": str(conversation_id)}
        )
    )


async def page_join(conversation_id: UUID | str, channel: str) -> bool:
    """Subscribe a page's channel to the conversation.

    False if the layer is unavailable.
    """
    return await _try(get_channel_layer(FRAMES).group_add(conversation_group(conversation_id), channel))


async def page_leave(conversation_id: UUID | str, channel: str) -> None:
    """Unsubscribe a page's channel from the conversation."""
    await _try(get_channel_layer(FRAMES).group_discard(conversation_group(conversation_id), channel))


async def _try(sending: Awaitable[None]) -> bool:
    """Send an event; False if the channel layer is unavailable."""
    try:
        await sending
    except (ChannelFull, *redis_errors()) as error:
        logger.warning("the channel layer rejected a message: %s", error)
        return False
    return True


_BEYOND_REPLY_S = 10.0
"""Additional wait, so that the bot host's own limit, whose error says more, ends a test reply first."""


async def tryout_reply(bot_id: str, turns: list[dict[str, str]], seed: int = 0) -> str:
    """Return a reply for the dashboard's test chat; nothing is stored.

    Args:
        turns: `{"speaker": "human"|"bot", "text": …}`, oldest first.

    Raises:
        BotError: there is no reply, or no bot host responds in time; the message gives the reason.
    """
    limit_s = settings.CONFAB_REPLY_TIMEOUT_S + _BEYOND_REPLY_S
    layer = get_channel_layer()
    answer_to = await layer.new_channel()
    message = {"bot_id": bot_id, "turns": turns, "seed": seed, "project": active_project(), "answer_to": answer_to}
    await layer.send(bot_host_channel(bot_pool(bot_id)), {"type": "tryout.request", **message})
    try:
        answer = await asyncio.wait_for(layer.receive(answer_to), limit_s)
    except TimeoutError:
        raise BotError(f"no bot host responded within {limit_s:g} s") from None
    if answer["error"]:
        raise BotError(answer["error"])
    return answer["text"]


async def tryout_answer(answer_to: str, *, text: str = "", error: str = "") -> None:
    """Send the bot host's answer to `tryout_reply`."""
    await get_channel_layer().send(answer_to, {"type": "tryout.answer", "text": text, "error": error})
