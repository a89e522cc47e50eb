"""Bot host: claims due replies, generates and stores them.

Each process has one `BotHostRuntime`. `BotHostConsumer` passes on requests from the channel layer; the runtime's sweep
over the database finds lost ones. `bots_health` reports it on the health page.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from channels.consumer import AsyncConsumer
from channels.layers import get_channel_layer
from channels.routing import get_default_application
from channels.worker import Worker
from django.conf import settings
from structlog.contextvars import bind_contextvars

import chatbots
from chatbots.bots.base import BotBusy, BotError
from chatbots.text import error_text
from webapp.bots.selectors import bot_entry_list, bot_find, bot_pools, bots_to_try
from webapp.conversations import events, frames, reply_pipeline, selectors, services
from webapp.conversations.filtering import filters_load
from webapp.conversations.heartbeats import heartbeat_ages_s
from webapp.conversations.models import Conversation
from webapp.conversations.reply_pipeline import reply_begin, reply_make
from webapp.conversations.services import replies
from webapp.core.clock import database_now
from webapp.core.database import DATABASE_AWAY, DirectDispatch, in_database
from webapp.core.health import Health
from webapp.core.processes import BOT_HOST, signs
from webapp.core.project_scope import in_project
from webapp.studies.lifecycle import DEMO_PAPER_KEY
from webapp.studies.models import Study, Task
from webapp.studies.protocol_settings import Filtering
from webapp.studies.settings import StudyValues

logger = logging.getLogger(__name__)

# Time before a bot that failed to load is tried again.
RETRY_LOAD_S = 60.0

BEGUN_WITHIN = timedelta(minutes=10)
"""Bots of chats and rehearsals begun within this time are loaded before the first message."""


def bot_host_channels() -> list[str]:
    """Return the channels of all pools."""
    return [events.bot_host_channel(pool) for pool in bot_pools()]


class BotHostConsumer(DirectDispatch, AsyncConsumer):
    """Consumer that passes requests to the runtime without waiting."""

    async def reply_request(self, message: dict[str, Any]) -> None:
        """Request the due reply in `conversation_id`."""
        runtime_get().request(uuid.UUID(message["conversation_id"]))

    async def tryout_request(self, message: dict[str, Any]) -> None:
        """Request a test reply for the dashboard."""
        runtime_get().tryout(message)


class BotHostRuntime:
    """Runtime with loaded bots, running replies and their leases.

    Args:
        pool: serve only this pool's bots; None: all bots.
    """

    def __init__(self, *, pool: str | None = None) -> None:
        from chatbots.serving import BotHost  # keeps web processes without bots light

        self.host_id = uuid.uuid4()
        self.pool = pool
        self.host = BotHost(
            get_bot=bot_find,
            device=settings.CONFAB_DEVICE,
            reply_timeout_s=settings.CONFAB_REPLY_TIMEOUT_S,
            load_timeout_s=settings.CONFAB_LOAD_TIMEOUT_S,
            memory_limit_bytes=settings.CONFAB_BOT_MEMORY_MB * 1_000_000 or None,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._load_tried_at: dict[str, float] = {}
        self._filters_loaded: list[Filtering] = []
        self._leases: dict[uuid.UUID, uuid.UUID] = {}  # conversation id -> lease

    async def run(self) -> None:
        """Load bots, listen to the channel layer and sweep until cancelled."""
        channels = [events.bot_host_channel(pool) for pool in (bot_pools() if self.pool is None else [self.pool])]
        worker = Worker(get_default_application(), channels=channels, channel_layer=get_channel_layer())
        signs.begin(BOT_HOST, pool=self.pool or "all")
        try:
            await asyncio.gather(*(self._listen(worker, channel) for channel in channels), self._beat(), signs.beat())
        finally:
            await self.close()
            await in_database(signs.end)()

    async def close(self) -> None:
        """Stop running replies and release their leases.

        No host then waits for them.
        """
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await in_database(replies.heartbeat_end)(host_id=self.host_id)
        await self.host.close()

    def request(self, conversation_id: uuid.UUID) -> None:
        """Start the conversation's due reply, unless it is already running here."""
        if conversation_id not in self._leases:
            self._spawn(self._answer(conversation_id))

    def tryout(self, message: dict[str, Any]) -> None:
        """Reply in the dashboard's test chat."""
        self._spawn(self._tryout(message))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Most likely the database is unavailable. Due replies are stored there, and the sweep continues.
            logger.error("a task of the bot host failed: %s", _describe_error(error))

    async def _answer(self, conversation_id: uuid.UUID) -> None:
        bind_contextvars(conversation_id=str(conversation_id))  # log context of this task only
        lease = self._leases[conversation_id] = uuid.uuid4()
        try:
            due = await in_database(reply_begin)(conversation_id, lease)
            if due is not None:
                await reply_make(self.host, due, lease)
            else:
                failure = await in_database(services.reply_give_up)(conversation_id=conversation_id)
                await self._tell(conversation_id, failure)
        except asyncio.CancelledError:
            await in_database(services.reply_release)(lease=lease)
            raise
        except DATABASE_AWAY as error:
            # Not the bot's fault; waiting participants get replies once the database is back.
            logger.warning("reply of %s waits for the database: %s", conversation_id, error)
            await in_database(services.reply_release)(lease=lease)
        except Exception as error:
            if not isinstance(error, BotError):
                logger.exception("reply of %s failed", conversation_id)
            else:
                logger.warning("reply of %s failed: %s", conversation_id, error)
            reason = f"{frames.BUSY if isinstance(error, BotBusy) else ''}{_describe_error(error)}"
            failure = await in_database(services.reply_fail)(
                conversation_id=conversation_id,
                lease=lease,
                error=reason,
                is_trouble=getattr(error, "is_trouble", True),
                is_content=getattr(error, "is_content", False),
            )
            await self._tell(conversation_id, failure)
        finally:
            self._leases.pop(conversation_id, None)

    @staticmethod
    async def _tell(conversation_id: uuid.UUID, failure: selectors.Failure | None) -> None:
        if failure is not None:
            await events.frame_publish(conversation_id, frames.bot_failed_frame(failure))

    async def _tryout(self, message: dict[str, Any]) -> None:
        try:
            context = chatbots.Conversation(
                id="try-out",
                turns=tuple(chatbots.Turn(t["speaker"], t["text"]) for t in message["turns"]),
                seed=int(message["seed"]),
            )
            with in_project(message.get("project")):
                text = await reply_pipeline.fetch_test_reply(self.host, message["bot_id"], context)
            await events.tryout_answer(message["answer_to"], text=text)
        except Exception as error:
            # Report any error at once, so that the researcher does not wait for the timeout.
            await events.tryout_answer(message["answer_to"], error=_describe_error(error))

    async def _load_bots(self) -> None:
        """Load the bots of studies before the first participant arrives.

        Repeated with every sweep: studies start and change, and failed loads may succeed later.
        """
        for bot_id in await in_database(bots_to_load)(self.pool):
            state = self.host.load_numbers().get(bot_id, {}).get("state", "not loaded")
            tried_at = self._load_tried_at.get(bot_id, -RETRY_LOAD_S)
            is_due = time.monotonic() - tried_at >= RETRY_LOAD_S
            # A bot unloaded to make room is loaded again when a participant writes to it.
            if state not in ("ready", "loading", "unloaded") and is_due:
                self._load_tried_at[bot_id] = time.monotonic()
                self._spawn(self._load_bot(bot_id))

    async def _load_filters(self) -> None:
        """Load the filters of running studies, once per setting."""
        for values in await in_database(values_to_load)(self.pool):
            if values.filtering not in self._filters_loaded:
                self._filters_loaded.append(values.filtering)
                self._spawn(filters_load(values))

    async def _load_bot(self, bot_id: str) -> None:
        try:
            await in_database(bot_find)(bot_id)
            await self.host.load(bot_id)
        except (BotError, LookupError) as error:
            logger.warning("bot %s is not available: %s", bot_id, error)

    @staticmethod
    async def _listen(worker: Worker, channel: str) -> None:
        """Listen to one channel forever; without Redis, the sweep finds the work."""
        while True:
            try:
                await worker.listener(channel)
            except Exception:
                logger.exception("the channel layer is unavailable; listening again in a second")
                await asyncio.sleep(1)

    async def _beat(self) -> None:
        """Renew leases, send a heartbeat and claim waiting replies.

        Runs three times per lease duration.
        """
        pause_s = settings.CONFAB_REPLY_LEASE_S / 3
        is_database_away = False
        while True:
            was_away = is_database_away
            try:
                await self._sweep()
                is_database_away = False
            except DATABASE_AWAY as error:
                is_database_away = True
                if not was_away:
                    logger.warning(
                        "the database is unavailable (%s); renewing leases and heartbeats will be retried",
                        _describe_error(error),
                    )
                    continue  # without delay: usually a connection was lost, and a new one works
            except Exception:
                logger.exception("the bot host's sweep failed; it will be retried")
            await asyncio.sleep(pause_s)

    async def _sweep(self) -> None:
        if self._leases:
            await in_database(services.reply_lease_renew)(
                leases=list(self._leases.values()), lease_s=settings.CONFAB_REPLY_LEASE_S
            )
        await in_database(replies.heartbeat_store)(
            host_id=self.host_id, pool=self.pool or "default", bots=self.host.load_numbers()
        )
        if settings.CONFAB_BEAT_FILE:
            Path(settings.CONFAB_BEAT_FILE).touch()
        await self._load_bots()
        await self._load_filters()
        for bot_id in await in_database(bots_to_try)(self.pool):
            self._spawn(reply_pipeline.try_disabled_bot(self.host, bot_id))
        for conversation_id in await in_database(selectors.replies_waiting)(pool=self.pool):
            self.request(conversation_id)


def _describe_error(error: BaseException) -> str:
    return error_text(error) or type(error).__name__


def bots_of_running_studies(pool: str | None) -> list[str]:
    """Return the bots of this pool that participants may meet now.

    The second demo study is left out until its first chat, because every installation has it but few use it: its six
    models would delay the start and take memory.
    """
    bot_ids = [bot_id for values in _values_of_running_studies() for bot_id in values.bots]
    recent_chats = Conversation.objects.filter(
        study__key=DEMO_PAPER_KEY, state=Conversation.State.OPEN, created_at__gte=database_now() - BEGUN_WITHIN
    )
    bot_ids += recent_chats.order_by().values_list("bot__bot_id", flat=True).distinct()
    return [bot_id for bot_id in dict.fromkeys(bot_ids) if _is_served(bot_id, pool)]


def bots_to_load(pool: str | None) -> list[str]:
    """Return this pool's bots of running studies, then of rehearsed ones.

    Researchers rehearse a study before opening it: each run uses one bot, and the others load meanwhile.
    """
    rehearsed = [bot_id for values in _values_of_rehearsed_studies() for bot_id in values.bots]
    served = [bot_id for bot_id in rehearsed if _is_served(bot_id, pool)]
    return list(dict.fromkeys([*bots_of_running_studies(pool), *served]))


def values_to_load(pool: str | None) -> list[StudyValues]:
    """Return the values of running and rehearsed studies with bots of this pool."""
    return [
        values
        for values in [*_values_of_running_studies(), *_values_of_rehearsed_studies()]
        if any(_is_served(bot_id, pool) for bot_id in values.bots)
    ]


def _values_of_rehearsed_studies() -> list[StudyValues]:
    """Return the values of studies in which a rehearsal recently began a task.

    They are drafts and paused studies.
    """
    recent_tasks = Task.objects.filter(participant__is_synthetic=True, created_at__gte=database_now() - BEGUN_WITHIN)
    studies = Study.objects.filter(
        state__in=(Study.State.DRAFT, Study.State.PAUSED), pk__in=recent_tasks.values("participant__study")
    ).exclude(key=DEMO_PAPER_KEY)
    return [study.values for study in studies]


def _values_of_running_studies() -> list[StudyValues]:
    studies = Study.objects.filter(state=Study.State.COLLECTING).exclude(key=DEMO_PAPER_KEY)
    return [study.values for study in studies]


def _is_served(bot_id: str, pool: str | None) -> bool:
    return pool is None or settings.CONFAB_BOT_POOLS.get(bot_id, "default") == pool


_runtime: BotHostRuntime | None = None


def runtime_get(*, pool: str | None = None) -> BotHostRuntime:
    """Return this process's runtime, made on first use."""
    global _runtime
    if _runtime is None:
        _runtime = BotHostRuntime(pool=pool)
    return _runtime


def runtime_existing() -> BotHostRuntime | None:
    """Return this process's runtime, if it has one."""
    return _runtime


def bots_health() -> Health:
    """Return heartbeat ages and, if embedded, the state of the bots.

    It names no bot: participants can open the page and must not learn which bot is loading or busy. `ok` refers to the
    bots only: pages still work without them, and replies arrive when the bots are back.
    """
    details: dict[str, object] = {"heartbeat_age_s": heartbeat_ages_s()}
    if not settings.CONFAB_BOT_HOST_IN_PROCESS:
        return Health(True, details, is_needed=False)
    runtime = runtime_existing()
    if runtime is None:
        return Health(False, {**details, "error": "the bot host has not started"}, is_needed=False)
    numbers = runtime.host.load_numbers()
    states = {bot_id: numbers.get(bot_id, {}).get("state", "not loaded") for bot_id in bots_of_running_studies(None)}
    # An unregistered bot is an error in the study, not in this process; no participant gets it.
    known = {entry.id for entry in bot_entry_list()}
    states = {bot: state if bot in known else "unknown" for bot, state in states.items()}
    # A bot that failed to load is retried regularly and keeps its error until it is ready.
    retried = {bot for bot in states if states[bot] == "loading" and numbers.get(bot, {}).get("reason")}
    ok = all(
        state in ("ready", "unloaded", "unavailable", "unknown") or bot in retried for bot, state in states.items()
    )
    load = runtime.host.totals()
    return Health(
        ok,
        {**details, "states": dict(Counter(states.values())), "load": {**load, "busy": len(load["busy"])}},
        is_needed=False,
    )
