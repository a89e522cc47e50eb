"""Replies that no participant waits for: the dashboard's test chat, and test replies of disabled bots.

They count for a bot's health as replies to participants do, and a reply that works enables a bot again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import chatbots
from chatbots.base import BotError
from webapp.bots.health import bot_answered, bot_failed, bot_try_claim
from webapp.bots.selectors import bot_find
from webapp.core.database import in_database

if TYPE_CHECKING:
    from chatbots.serving import BotHost

logger = logging.getLogger(__name__)

GREETING = "Hello! How are you?"
"""What a bot is asked in a trial: short, for it may cost money."""


async def ask(host: BotHost, bot_id: str, context: chatbots.Conversation) -> str:
    """Return the bot's own reply, by no other in its place, and note in its health how it went.

    Raises:
        BotError: there is none; the message gives the reason.
        UnknownName: there is no such bot.
    """
    bot_find(bot_id)
    try:
        pieces = [piece async for piece in host.stream(bot_id, context, by_others=False)]
    except BotError as error:
        if error.is_trouble:
            await in_database(bot_failed)(bot_id=bot_id, reason=str(error), chat=context.id)
        raise
    await in_database(bot_answered)(bot_id=bot_id)
    return "".join(pieces)


async def set_aside_try(host: BotHost, bot_id: str) -> None:
    """Request a test reply of a disabled bot, unless another host is faster."""
    if not await in_database(bot_try_claim)(bot_id=bot_id):
        return
    context = chatbots.Conversation(id="trial").with_turn("human", GREETING)
    try:
        await ask(host, bot_id, context)
    except BotError as error:
        logger.warning("a trial of %s failed: %s", bot_id, error)
    else:
        logger.info("a trial of %s gave a reply; it is given to people again", bot_id)
