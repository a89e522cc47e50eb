"""Reply pipeline: a due reply from the bot's first piece to storage.

Pages show replies in one of three ways. Streamed: pieces are forwarded as they arrive; a reply available at once is
stored and then typed. Paced (`studies/protocol_settings.py`): words are shown at a random pace, and the reply is stored
after it was shown, so that reloading the page reveals nothing early. Held: if a filter may block the reply, it is
checked as a whole before any of it is shown.

Test replies have no waiting participant: they are those of the dashboard's test chat, and of disabled bots. They count
for a bot's health like replies to participants, and a successful one enables the bot again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import translation

import chatbots
from chatbots.bots.base import BotError, FallbackBot
from chatbots.bots.person import PERSON
from chatbots.endpoints.metering import PaidBot, ReplyCost
from chatbots.registry import UnknownName
from chatbots.trace import TraceLog, TraceStep, listen_to_trace
from webapp.bots.models import BotVersion
from webapp.bots.selectors import bot_find
from webapp.bots.services import bot_answered, bot_failed, bot_try_claim
from webapp.conversations import events, frames, selectors, services
from webapp.conversations.filtering import FilterLabel, names_of, reply_check, withheld_notice, withholds
from webapp.conversations.images import bot_image_store, image_fields, images_attached, images_for_bot
from webapp.conversations.models import ChatImage, Conversation, PartnerSeat
from webapp.conversations.pacing import FRAME_EVERY_S, PacedReply, ReplyTimes
from webapp.conversations.picked_replies import conversation_picked, picks_replies
from webapp.core.clock import database_now
from webapp.core.database import DATABASE_AWAY, in_database
from webapp.core.errors import Refused
from webapp.core.language import locale_of
from webapp.core.markdown import BlockStream
from webapp.studies.assignment.counterbalance import pair_of_slot
from webapp.studies.conditions import Condition, condition_texts
from webapp.studies.languages import values_in
from webapp.studies.protocol_settings import LONGEST_PACED_REPLY_S, ReplyPace
from webapp.studies.reply_filters.base import FilterInput
from webapp.studies.settings import StudyValues

if TYPE_CHECKING:
    from chatbots.serving import BotHost

logger = logging.getLogger(__name__)

# Maximum typing time of a reply, at any pace.
TYPING_MAX_S = 8.0
# Interval at which the ready one of two chatbots checks for the other.
PAIR_LOOK_EVERY_S = 0.25
# Interval for retrying to store a reply while the database is unavailable.
STORE_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """Due reply, with the study's settings for showing it.

    Attributes:
        turn: its number; since: when the message that it answers was stored.
        pace: pace at which it is shown; None: as it arrives.
        pair: the other chat of the pair, if both replies start together.
        images: files of the images that the bot sees, by the number of their turn.
        given: text of the human partner; None: the bot generates it.
        waited_s: time from that message until the human partner's text; not part of the pace.
    """

    conversation_id: uuid.UUID
    turn: int
    since: datetime
    bot: BotVersion
    context: chatbots.Conversation
    values: StudyValues
    pace: ReplyPace | None = None
    pair: uuid.UUID | None = None
    images: Mapping[int, str] = field(default_factory=dict)
    partner_text: str | None = None
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FinishedReply:
    """Whole reply after filtering.

    Attributes:
        text: text shown to participants; withheld_text: the bot's original text, if different.
        trace: reasoning and tool calls before it.
        image: unsaved row of its image, or why it was dropped.
    """

    text: str
    times: ReplyTimes
    cost: ReplyCost | None
    stand_in: FallbackBot | None
    marks: tuple[FilterLabel, ...] = ()
    withheld_text: str = ""
    trace: tuple[TraceStep, ...] = ()
    image: ChatImage | Refused | None = None


def reply_begin(conversation_id: uuid.UUID, lease: uuid.UUID) -> ReplyPlan | None:
    """Claim and read the conversation's due reply.

    None if another host holds it or it was tried too often.

    Raises:
        LookupError: no reply is due.
    """
    lease_s = settings.CONFAB_REPLY_LEASE_S
    if not services.reply_claim(conversation_id=conversation_id, lease=lease, lease_s=lease_s):
        return None
    row = selectors.chats_under_way().get(pk=conversation_id)
    if row.due_turn is None or row.version is None:
        raise LookupError(f"no reply is due in {conversation_id}")
    seat = PartnerSeat.objects.filter(pk=conversation_id).first() if row.bot.kind == PERSON else None
    if seat is not None and seat.given_turn != row.due_turn:
        services.reply_release(lease=lease, was_tried=False)
        return None
    with suppress(UnknownName):  # a bot added in the browser may have changed since this process loaded it
        bot_find(row.bot.bot_id)
    context, is_picked = selectors.conversation_remembered(row), picks_replies(row)
    is_paced = row.version.values.pacing.paces_alike
    slots = pair_of_slot(row.slot) if row.slot is not None and (is_paced or is_picked) else None
    if slots is not None and is_picked:
        context = conversation_picked(context, slots)
    due = ReplyPlan(
        conversation_id,
        row.due_turn,
        row.due_since or database_now(),
        row.bot,
        conversation_conditioned(context, row.version.values, row.condition),
        _values_read(row),
        images=images_for_bot(row) if row.version.values.chat.images else {},
    )
    if seat is not None and seat.given_at is not None:
        waited = seat.given_at - due.since
        due = replace(due, partner_text=seat.given_text, waited_s=max(0.0, waited.total_seconds()))
    if not is_paced:
        return due
    if slots is None:
        pace = due.values.pacing.draw(row.seed, due.turn)
        return replace(due, pace=replace(pace, first_s=due.waited_s + pace.first_s))
    # Both sides draw the same time, whatever the bots.
    chats = Conversation.objects.filter(slot__in=slots).exclude(pk=conversation_id)
    pair = chats.values_list("pk", flat=True).first()
    return replace(due, pace=due.values.pacing.draw(slots[0].pk, due.turn), pair=pair)


def _values_read(row: Conversation) -> StudyValues:
    """Return the study's values in the participant's language.

    Studies with one language need no query.
    """
    assert row.version is not None
    values = row.version.values
    person = row.participant if values.texts.languages else None
    return values_in(values, person.language) if person is not None else values


def conversation_conditioned(
    context: chatbots.Conversation, values: StudyValues, condition: Condition
) -> chatbots.Conversation:
    """Return the conversation with the condition's text for its bot."""
    if not condition:
        return context
    texts = condition_texts(values, condition)
    return replace(context, bot_prompt=texts.bot_prompt, is_opened=bool(texts.opening))


async def reply_make(host: BotHost, due: ReplyPlan, lease: uuid.UUID) -> None:
    """Generate, show, store and announce the due reply.

    Nothing is announced if the lease is lost meanwhile.

    Raises:
        BotError: there is no reply, or a blocking filter could not check it.
        OperationalError, InterfaceError: the database is unavailable.
    """
    await _Replying(host, due, lease).make()


class _Replying:
    """Due reply in progress."""

    def __init__(self, host: BotHost, due: ReplyPlan, lease: uuid.UUID) -> None:
        self.host, self.due, self.lease = host, due, lease
        self.is_typed = hasattr(bot_find(due.bot.bot_id), "answer")  # a `WholeBot`: its reply is known at once
        self.is_held = withholds(due.values)
        self._zero = time.monotonic() - (database_now() - due.since).total_seconds()
        self._sent = self._sent_html = ""
        rules = due.values.chat
        self._blocks = BlockStream(links_as_text=rules.links == "text") if rules.format == "markdown" else None
        self._shows_trace = rules.trace != "hidden"
        self._trace = TraceLog(self._tell_step, takes_image=rules.images)
        self._telling: set[asyncio.Task[None]] = set()

    def _clock(self) -> float:
        """Return the seconds since the message was stored."""
        return time.monotonic() - self._zero

    async def make(self) -> None:
        if self.due.pace is None:
            reply = await self._make_reply(None)
            if await self._store(reply) and (self.is_typed or self.is_held):
                await self._type(reply.text)
            await self._finish(reply)
            return
        longest_s = self.due.waited_s + min(LONGEST_PACED_REPLY_S, settings.CONFAB_REPLY_TIMEOUT_S)
        showing = PacedReply(
            self.due.pace, tell=self._tell, clock=self._clock, sleep=asyncio.sleep, longest_s=longest_s
        )
        both_ready = self._both_ready if self.due.pair is not None else None
        show_task = asyncio.get_running_loop().create_task(showing.run(both_ready))
        try:
            reply = await self._make_reply(showing)
            try:
                await show_task
            except asyncio.CancelledError:
                # The host stops: keep the finished reply, so that it need not be generated and paid for again.
                await self._store(reply)
                raise
        finally:
            show_task.cancel()
        times = replace(
            reply.times, shown_first_s=showing.shown_first_s, shown_s=showing.shown_s, late_s=showing.late_s
        )
        reply = replace(reply, times=times)
        await self._store(reply)
        await self._finish(reply)

    async def _make_reply(self, showing: PacedReply | None) -> FinishedReply:
        """Generate and filter the whole reply, showing pieces if allowed."""
        context = self.due.context
        if self.due.images:
            context = await asyncio.to_thread(images_attached, context, self.due.images)
        listen_to_trace(self._trace)
        gathered, told_at = "", 0.0
        first_s: float | None = None
        async for piece in self._pieces(context):
            gathered += piece
            if first_s is None and gathered.strip():
                first_s = self._clock()
            if self.is_held:
                continue
            if showing is not None:
                showing.add(gathered)
            elif not self.is_typed and time.monotonic() - told_at >= FRAME_EVERY_S:
                await self._tell(self._sent, gathered)
                told_at = time.monotonic()
        times = ReplyTimes(first_s, self._clock())
        stand_in = self.host.stand_in_take(context)
        answered = bot_find(stand_in.bot_id if stand_in is not None else self.due.bot.bot_id)
        cost = answered.cost_take(context) if isinstance(answered, PaidBot) else None
        names = names_of(self.due.bot)
        if stand_in is not None:
            names += (answered.name, answered.title)
        trace = self._trace.steps
        marks = tuple(await reply_check(gathered, FilterInput(self.due.values, names)))
        if self.is_held and self._shows_trace and trace:
            trace_text = "\n".join(f"{step.name} {step.arguments} {step.text or ''}" for step in trace)
            trace_labels = await reply_check(trace_text, FilterInput(self.due.values, names))
            marks += tuple(label for label in trace_labels if label.is_withheld)
        image = await asyncio.to_thread(bot_image_store, *self._trace.image) if self._trace.image else None
        if isinstance(image, Refused) and not gathered.strip():
            raise BotError(image.message)
        reply = FinishedReply(gathered, times, cost, stand_in, marks, trace=trace, image=image)
        if any(label.is_withheld for label in marks):
            reply = replace(reply, text=withheld_notice(self.due.values), withheld_text=gathered)
            if isinstance(image, ChatImage):
                image.withheld_at, image.withheld_by = database_now(), "a filter"
        if showing is not None:
            showing.add(reply.text, is_whole=True)
        return reply

    async def _pieces(self, context: chatbots.Conversation) -> AsyncIterator[str]:
        """Yield the reply's pieces; a human partner's text is one piece."""
        if self.due.partner_text is not None:
            yield self.due.partner_text
            return
        async for piece in self.host.stream(self.due.bot.bot_id, context):
            yield piece

    async def _store(self, reply: FinishedReply) -> bool:
        """Store the reply; False if another host has taken over.

        While the database is unavailable, storing is retried for the maximum duration of a reply, because the reply may
        have been paid for. The lease prevents storing it twice.

        Raises:
            OperationalError, InterfaceError: the database stayed unavailable.
        """
        until = time.monotonic() + settings.CONFAB_REPLY_TIMEOUT_S
        while True:
            try:
                self._stored = await in_database(services.turn_add_bot)(
                    conversation_id=self.due.conversation_id,
                    lease=self.lease,
                    text=reply.text,
                    cost=reply.cost,
                    stand_in=reply.stand_in,
                    times=reply.times,
                    marks=reply.marks,
                    withheld_text=reply.withheld_text,
                    trace=reply.trace,
                    image=reply.image,
                )
            except DATABASE_AWAY as error:
                if time.monotonic() >= until:
                    raise
                logger.warning("the reply of %s waits: %s", self.due.conversation_id, error)
                await asyncio.sleep(STORE_AGAIN_S)
            else:
                return self._stored is not None

    async def _finish(self, reply: FinishedReply) -> None:
        if self._stored is None:
            return
        if self._sent:  # a reply of which nothing was shown arrives with the final frame
            await self._tell(self._sent, reply.text)
        if self._telling:
            await asyncio.wait(self._telling)
        turn, html = self._stored.turn, self.due.values.reply_html(self._stored.turn.text)
        frame = frames.reply_frame(
            turn=self.due.turn,
            text=turn.text,
            can_rate=self._stored.can_rate,
            html=html,
            trace=turn.trace if self._shows_trace and not turn.withheld_text else (),
        )
        if isinstance(reply.image, ChatImage):
            with translation.override(locale_of(self.due.values.texts.language)):
                frame |= image_fields(reply.image, turn.text, html)
        await events.frame_publish(self.due.conversation_id, frame)

    def _tell_step(self, number: int, step: TraceStep) -> None:
        """Send a step of a streamed reply to its pages.

        The final frame of paced and held replies has their trace.
        """
        if self._shows_trace and not self.is_held and self.due.pace is None:
            frame = frames.trace_frame(turn=self.due.turn, number=number, step=step.model_dump())
            sending = events.frame_publish(self.due.conversation_id, frame)
            self._telling.add(asyncio.get_running_loop().create_task(sending))

    async def _tell(self, sent: str, gathered: str) -> None:
        """Send the new part of the reply to its pages."""
        if len(gathered) > len(sent):
            frame = frames.token_frame(turn=self.due.turn, offset=len(sent), text=gathered[len(sent) :])
            await events.frame_publish(self.due.conversation_id, frame)
            self._sent = gathered
        if self._blocks is not None and (html := self._blocks.add(gathered)):
            frame = frames.html_frame(turn=self.due.turn, offset=len(self._sent_html), html=html)
            await events.frame_publish(self.due.conversation_id, frame)
            self._sent_html += html

    async def _type(self, text: str) -> None:
        """Send an already stored reply word by word at the study's pace."""
        chars_per_s = self.due.values.chat.typing_chars_per_s
        if chars_per_s <= 0:
            return
        pace = max(chars_per_s, len(text) / TYPING_MAX_S)
        for word in re.findall(r"\s*\S+\s*", text):
            await asyncio.sleep(len(word) / pace)
            await self._tell(self._sent, self._sent + word)

    async def _both_ready(self) -> None:
        """Report that this reply is ready, and wait for the other chatbot's.

        Stops waiting if the other fails or takes too long.
        """
        assert self.due.pair is not None, "asked without a pair"
        await in_database(services.reply_ready)(lease=self.lease)
        while self._clock() < min(LONGEST_PACED_REPLY_S, settings.CONFAB_REPLY_TIMEOUT_S):
            if not await in_database(selectors.reply_is_awaited)(self.due.pair, self.due.turn):
                return
            await asyncio.sleep(PAIR_LOOK_EVERY_S)


TEST_MESSAGE = "Hello! How are you?"
"""Message for test replies; short, because replies may cost money."""


async def fetch_test_reply(host: BotHost, bot_id: str, context: chatbots.Conversation) -> str:
    """Return the bot's own reply without fallback, and update its health.

    Raises:
        BotError: there is no reply; the message gives the reason.
        UnknownName: there is no such bot.
    """
    await in_database(bot_find)(bot_id)
    began = time.monotonic()
    try:
        pieces = [piece async for piece in host.stream(bot_id, context, by_others=False)]
    except BotError as error:
        if error.is_trouble:
            await in_database(bot_failed)(bot_id=bot_id, reason=str(error), chat=context.id)
        raise
    bot = bot_find(bot_id)
    cost = bot.cost_take(context) if isinstance(bot, PaidBot) else None
    rejected = cost.rejected_params if cost is not None else ()
    await in_database(bot_answered)(bot_id=bot_id, seconds=time.monotonic() - began, rejected_params=rejected)
    return "".join(pieces)


async def try_disabled_bot(host: BotHost, bot_id: str) -> None:
    """Request a disabled bot's test reply unless another host has."""
    if not await in_database(bot_try_claim)(bot_id=bot_id):
        return
    context = chatbots.Conversation(id="trial").with_turn("human", TEST_MESSAGE)
    try:
        await fetch_test_reply(host, bot_id, context)
    except BotError as error:
        logger.warning("a test reply of %s failed: %s", bot_id, error)
    else:
        logger.info("a test reply of %s worked; the bot is assigned to participants again", bot_id)
