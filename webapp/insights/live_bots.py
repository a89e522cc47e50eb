"""Bots of a study that collects: latency, failures, and waiting participants."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count
from django.urls import reverse
from django.utils import timezone

from webapp.bots.models import Alert, BotAside
from webapp.bots.selectors import alerts_of, bot_entry_list, bots_aside
from webapp.conversations.heartbeats import heartbeat_bots
from webapp.conversations.models import Conversation, ReplyFailure, ReplyMark, Turn
from webapp.core.language import plural
from webapp.insights.action_items import pay_action_items, watch_action_items
from webapp.insights.bots import bot_state
from webapp.insights.data_quality import NAMES_MODEL
from webapp.insights.live_progress import QUIET
from webapp.insights.narrative.phrases import listed
from webapp.ratings.selectors import BotInfo, study_bots
from webapp.studies.assignment.capacity import bots_beyond_cap
from webapp.studies.models import Slot, Study, Task, TaskCount

WINDOW = timedelta(hours=1)
"""Period of replies considered,"""
MOST_REPLIES = 2000
"""and maximum number of these replies, the latest ones."""
LEAST_FOR_95 = 20
"""Minimum number of replies for a 95th percentile of reply times."""
SLOW_S = 10.0
"""Participants who wait longer may think that no reply will come."""
FAILS_OFTEN = 0.1
"""Share of failed replies from which a bot counts as failing."""
LATE_MS = 500
"""Delay of a paced reply from which participants can notice it."""
_LISTED = 8


@dataclass(frozen=True, slots=True)
class LiveBot:
    """A bot of the study.

    Attributes:
        n_done: rated conversations; `n_wanted` of them, None without a limit; `n_held`: reserved by open tasks.
        median_s, most_s: median and 95th percentile of the time until a reply was shown, in seconds; None without any,
            the latter also with fewer than 20.
        n_replies, n_failed: replies and failures in the window.
        n_paced, n_late: paced replies in the window, and those among them that came noticeably late.
        n_naming: replies of the whole study that name their model, according to its filter.
        words, tone, reason: its state, by all its replies, including those to scripted participants.
        aside: why it is disabled.
        alert_sentence: sentence about alerts sent; empty without alerts.
    """

    info: BotInfo
    n_done: int
    n_held: int
    n_wanted: int | None
    median_s: float | None
    most_s: float | None
    n_replies: int
    n_failed: int
    n_paced: int
    n_late: int
    n_naming: int
    words: str
    tone: str
    reason: str
    aside: BotAside | None
    alert_sentence: str = ""

    @property
    def n_asked(self) -> int:
        """Number of requested replies."""
        return self.n_replies + self.n_failed

    @property
    def is_slow(self) -> bool:
        """True if replies are so slow that participants may give up."""
        return self.most_s is not None and self.most_s >= SLOW_S


@dataclass(frozen=True, slots=True)
class FailedReply:
    """A failed reply: its time, bot, reason and chat."""

    at: datetime
    bot: str
    reason: str
    chat: UUID


@dataclass(frozen=True, slots=True)
class WaitingParticipant:
    """Participant who waits for a reply, or decides after a failed one."""

    chat: UUID
    bot: str
    since: datetime
    has_failed: bool
    is_aside: bool


@dataclass(frozen=True, slots=True)
class _Replies:
    """Replies of the window by bot: times in seconds, and counts."""

    times: dict[str, list[float]]
    n_replies: dict[str, int]
    n_failed: dict[str, int]
    n_paced: Counter[str]
    n_late: Counter[str]

    def median_s(self, bot_id: str) -> float | None:
        """Return the median seconds until a reply was shown.

        None without any.
        """
        times = self.times.get(bot_id)
        return statistics.median(times) if times else None

    def trouble(self, bot_id: str) -> tuple[str, str] | None:
        """Return a label and a sentence about the bot's problem, or None."""
        n_failed = self.n_failed.get(bot_id, 0)
        n_asked = n_failed + self.n_replies.get(bot_id, 0)
        if n_failed and n_failed >= FAILS_OFTEN * n_asked:
            words = "{n} of {of} replies failed in the last hour, including rehearsals"
            return "Failing", words.format(n=n_failed, of=n_asked)
        median_s = self.median_s(bot_id)
        if median_s is not None and median_s >= SLOW_S:
            words = "half of its replies took {s} s or longer in the last hour, including rehearsals"
            return "Slow", words.format(s=round(median_s))
        return None


def _talks(study: Study, include_synthetic: bool) -> dict[str, Any]:
    """Return the condition on rows whose conversation counts."""
    people = {} if include_synthetic else {"conversation__is_synthetic": False}
    return {"conversation__study": study, **people}


def _replies(talks: dict[str, Any], since: datetime) -> _Replies:
    """Read the replies and the failures since a time."""
    replies = Turn.objects.filter(speaker=Turn.Speaker.BOT, latency_ms__isnull=False, created_at__gte=since, **talks)
    columns = ("conversation__bot__bot_id", "latency_ms", "late_ms")
    latest = list(replies.order_by("-created_at").values_list(*columns)[:MOST_REPLIES])
    times: dict[str, list[float]] = {}
    n_paced, n_late = Counter[str](), Counter[str]()
    for bot_id, ms, late_ms in latest:
        times.setdefault(bot_id, []).append((ms or 0) / 1000)
        if late_ms is not None:
            n_paced[bot_id] += 1
            n_late[bot_id] += late_ms > LATE_MS
    n_replies = {bot_id: len(latencies) for bot_id, latencies in times.items()}
    if len(latest) == MOST_REPLIES:
        by_bot = replies.order_by().values_list("conversation__bot__bot_id")
        n_replies = dict(by_bot.annotate(n=Count("pk")))
    failures = ReplyFailure.objects.filter(at__gte=since, **talks).order_by()
    n_failed = dict(failures.values_list("bot_id").annotate(n=Count("pk")))
    return _Replies(times, n_replies, n_failed, n_paced, n_late)


def bots_of(study: Study, *, include_synthetic: bool, now: datetime) -> list[LiveBot]:
    """Return the state of the study's bots; empty for studies without chats."""
    if not study.bots:
        return []
    talks = _talks(study, include_synthetic)
    replies = _replies(talks, now - WINDOW)
    # A bot's health includes replies to scripted participants, even if the page does not count these.
    of_all = replies if include_synthetic else _replies(_talks(study, True), now - WINDOW)
    naming = ReplyMark.objects.filter(
        filter=NAMES_MODEL, **{f"turn__{name}": value for name, value in talks.items()}
    ).order_by()
    n_naming = dict(naming.values_list("turn__conversation__bot__bot_id").annotate(n=Count("pk")))
    counts = TaskCount.objects.filter(study=study, conversation=None, item=None, bot_id__in=study.bots)
    done = Counter[str]()
    for bot_id, is_synthetic, n in counts.values_list("bot_id", "is_synthetic", "n_completed"):
        if include_synthetic or not is_synthetic:
            done[bot_id] += n
    reserved = _count_reserved(study, now, include_synthetic=include_synthetic)
    entries = {entry.id: entry for entry in bot_entry_list()}
    reports, asides, beyond = heartbeat_bots(), bots_aside(study.bots), bots_beyond_cap(study)
    infos = study_bots(study)
    alerts = alerts_of(asides.values()) if asides else {}
    live_bots = []
    for bot_id in study.bots:
        latencies = sorted(replies.times.get(bot_id, []))
        trouble = of_all.trouble(bot_id)
        state = bot_state(entries[bot_id], reports) if bot_id in entries else None
        n_wanted = study.values.assignment.quota_of(bot_id)
        if state is None:
            words, tone, reason = "Unknown", "bad", "no bot of this name is registered"
        elif bot_id in asides:
            words, tone, reason = "Disabled", "warn", state.reason
        elif not state.is_offered or state.reason:
            words, tone, reason = state.words, state.tone, state.reason
        elif bot_id in beyond:
            words, tone, reason = "Cost limit reached", "warn", beyond[bot_id]
        elif trouble is not None:
            (words, reason), tone = trouble, "warn"
        elif n_wanted is not None and done[bot_id] >= n_wanted:
            words, tone, reason = "Complete" if n_wanted else "Closed", "", ""
        else:
            words, tone, reason = state.words, state.tone, ""
        live_bots.append(
            LiveBot(
                infos[bot_id],
                done[bot_id],
                reserved[bot_id],
                n_wanted,
                replies.median_s(bot_id),
                latencies[-(-len(latencies) * 95 // 100) - 1] if len(latencies) >= LEAST_FOR_95 else None,
                replies.n_replies.get(bot_id, 0),
                replies.n_failed.get(bot_id, 0),
                replies.n_paced[bot_id],
                replies.n_late[bot_id],
                n_naming.get(bot_id, 0),
                words,
                tone,
                reason,
                asides.get(bot_id),
                _render_alerts(alerts.get(asides[bot_id].pk, [])) if bot_id in asides else "",
            )
        )
    return live_bots


def _count_reserved(study: Study, now: datetime, *, include_synthetic: bool) -> Counter[str]:
    """Count the places that open tasks reserve, by bot."""
    slots = Slot.objects.filter(
        task__participant__study=study,
        task__state=Task.State.OPEN,
        task__created_at__gte=now - study.values.assignment.place_held_for,
    )
    if not include_synthetic:
        slots = slots.filter(task__participant__is_synthetic=False)
    return Counter(dict(slots.order_by().values_list("bot_id").annotate(n=Count("pk"))))


def _render_alerts(alerts: list[Alert]) -> str:
    """Describe which alerts were sent and which failed."""
    sentences = []
    if sent := [str(alert.get_channel_display()).lower() for alert in alerts if alert.sent_at]:
        sentences.append(f"You were notified by {listed(sent)}.")
    sentences += [
        f"The {str(alert.get_channel_display()).lower()} could not be sent: {alert.error}"
        for alert in alerts
        if alert.error
    ]
    return " ".join(sentences)


def failures_of(study: Study, bots: list[LiveBot], *, include_synthetic: bool, now: datetime) -> list[FailedReply]:
    """Return up to eight failed replies of the window, newest first."""
    if not any(bot.n_failed for bot in bots):
        return []
    rows = ReplyFailure.objects.filter(conversation__study=study, at__gte=now - WINDOW)
    if not include_synthetic:
        rows = rows.filter(conversation__is_synthetic=False)
    titles = {bot.info.bot_id: bot.info.title for bot in bots}
    columns = ("at", "bot_id", "reason", "conversation")
    return [
        FailedReply(failed_at, titles.get(bot_id, bot_id), reason.removeprefix(f"{bot_id}: "), chat)
        for failed_at, bot_id, reason, chat in rows.order_by("-at", "-pk").values_list(*columns)[:_LISTED]
    ]


def waiting_of(
    study: Study, bots: list[LiveBot], *, include_synthetic: bool, now: datetime
) -> tuple[list[WaitingParticipant], int]:
    """Return up to eight waiting participants, and their total.

    Those who have waited longest come first.
    """
    rows = study.conversations.filter(
        source=Conversation.Source.CHAT,
        state=Conversation.State.OPEN,
        due_turn__isnull=False,
        due_since__gte=now - QUIET,
    )
    if not include_synthetic:
        rows = rows.filter(is_synthetic=False)
    aside = {bot.info.bot_id for bot in bots if bot.aside is not None}
    titles = {bot.info.bot_id: bot.info.title for bot in bots}
    waiting = [
        WaitingParticipant(pk, titles.get(bot_id, bot_id), since, bool(error), bot_id in aside)
        for pk, bot_id, since, error in rows.order_by("due_since", "pk").values_list(
            "pk", "bot__bot_id", "due_since", "due_error"
        )
        if since is not None
    ]
    return waiting[:_LISTED], len(waiting)


@dataclass(frozen=True, slots=True)
class LiveActionItem:
    """Action item of the live page.

    It has bold words, further text and a link; `bot_id` is a bot that can be enabled again.
    """

    lead: str
    rest: str
    action: str
    href: str
    bot_id: str = ""


def live_action_items(study: Study, bots: list[LiveBot], *, may_pay: bool) -> list[LiveActionItem]:
    """Return the matters in the study that need a researcher."""
    items = [_aside(bot) for bot in bots if bot.aside is not None]
    for need in [*watch_action_items([study]), *pay_action_items(may_pay=may_pay, study=study)]:
        items.append(LiveActionItem(need.lead, need.rest, need.action, need.address))
    return items


def _aside(bot: LiveBot) -> LiveActionItem:
    aside = bot.aside
    assert aside is not None
    began = timezone.localtime(aside.began_at)
    since = f"{began:%H:%M}" if began.date() == timezone.localdate() else f"{began.day} {began:%b}"
    sentences = [
        f"{aside.n_failed} of its last {aside.of_n} replies failed."
        if aside.of_n
        else plural(aside.n_failed, "It failed %(n)d time in a row.", "It failed %(n)d times in a row.")
        % {"n": aside.n_failed},
        "New participants do not get it. Participants who are chatting with it can choose another bot or finish early.",
        "You need to re-enable it."
        if aside.needs_person
        else ("It is re-enabled automatically after a successful reply."),
        bot.alert_sentence,
    ]
    return LiveActionItem(
        f"{bot.info.title} has been disabled since {since}.",
        " ".join(sentence for sentence in sentences if sentence),
        "See errors and test the bot",
        reverse("dashboard:bot", args=[bot.info.bot_id]),
        bot.info.bot_id,
    )
