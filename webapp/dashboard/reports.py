"""Replies that participants reported or filters marked: lists, counts and words, in few queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import Count, F, Q

from chatbots.registry import title_of
from webapp.conversations.models import Conversation, ReplyMark, ReplyReport, Turn
from webapp.studies.models import Study
from webapp.studies.reply_filters.base import reply_filters

ON_A_PAGE = 50
NAMES_MODEL = "names_model"


@dataclass(frozen=True, slots=True)
class Reported:
    """One report as its list shows it.

    Attributes:
        by: the title of the bot, or the item's name for the model.
        chat, turn: of a reply of a conversation; item: the name of the item of any other.
        is_synthetic: a scripted participant made it.
    """

    pk: int
    reason: str
    words: str
    text: str
    by: str
    at: datetime
    seen_at: datetime | None
    seen_by: str
    is_synthetic: bool
    chat: UUID | None = None
    turn: int | None = None
    item: str = ""


@dataclass(frozen=True, slots=True)
class Marked:
    """Counts of a bot's replies that a filter matched.

    Attributes:
        marked: matched replies, out of `replies`; withheld: those blocked, which participants did not read.
    """

    bot_id: str
    filter: str
    marked: int
    withheld: int
    replies: int


def reports_page(study: Study, number: str) -> Page[Any]:
    """Return a page of the study's reports: what nobody has seen first, then the newest."""
    found = ReplyReport.objects.filter(participant__study=study).select_related(
        "participant", "turn__conversation__bot", "item"
    )
    page: Page[Any] = Paginator(
        found.order_by(F("seen_at").asc(nulls_first=True), "-created_at", "-pk"), ON_A_PAGE
    ).get_page(number)
    page.object_list = [_reported(one) for one in page.object_list]
    return page


def _reported(one: ReplyReport) -> Reported:
    about: dict[str, Any] = {}
    if one.turn is not None:
        chat = one.turn.conversation
        text, by = one.turn.withheld_text or one.turn.text, chat.bot.title
        about = {"chat": chat.pk, "turn": one.turn.index}
    else:
        assert one.item is not None, "a report is of a turn or of an item"
        replies = one.item.responses
        at = one.response or 0
        reply = replies[at] if at < len(replies) else {}
        text, by = reply.get("text", ""), reply.get("model") or "unknown"
        about = {"item": one.item.key}
    return Reported(
        one.pk,
        str(ReplyReport.Reason(one.reason).label),
        one.words,
        text,
        by,
        one.created_at,
        one.seen_at,
        one.seen_by,
        one.participant.is_synthetic,
        **about,
    )


def reports_unseen(studies: Collection[Study]) -> dict[int, int]:
    """Return numbers of unseen reports by participants, by the study's primary key, in one query."""
    rows = (
        ReplyReport.objects.filter(
            seen_at=None, participant__study__in=studies, participant__is_synthetic=False
        )
        .order_by()
        .values_list("participant__study")
        .annotate(n=Count("pk"))
    )
    return dict(rows)


def marks_of_study(study: Study) -> list[Marked]:
    """Return for each bot of the study's chats and each filter how often it found something, in two queries."""
    chats = Q(
        conversation__study=study,
        conversation__source=Conversation.Source.CHAT,
        conversation__is_synthetic=False,
        speaker=Turn.Speaker.BOT,
    )
    return _marked(chats)


def marks_of_bots(bot_ids: Collection[str], name: str = NAMES_MODEL) -> dict[str, Marked]:
    """Return counts of these bots' replies that a filter matched, self-play included, in two queries."""
    replies = Q(conversation__bot__bot_id__in=list(bot_ids), speaker=Turn.Speaker.BOT)
    return {one.bot_id: one for one in _marked(replies, name)}


def _marked(replies: Q, name: str = "") -> list[Marked]:
    """Return a row for each bot and filter that found something in these replies."""
    marks = ReplyMark.objects.filter(turn__in=Turn.objects.filter(replies))
    if name:
        marks = marks.filter(filter=name)
    found = (
        marks.order_by("turn__conversation__bot__bot_id", "filter")
        .values_list("turn__conversation__bot__bot_id", "filter")
        .annotate(n=Count("pk"), withheld=Count("pk", filter=Q(is_withheld=True)))
    )
    rows = list(found)
    if not rows:
        return []
    counted = (
        Turn.objects.filter(replies, conversation__bot__bot_id__in={row[0] for row in rows})
        .order_by()
        .values_list("conversation__bot__bot_id")
        .annotate(n=Count("pk"))
    )
    n_replies = dict(counted)
    return [
        Marked(bot_id, title_of(reply_filters, name), n, withheld, n_replies[bot_id])
        for bot_id, name, n, withheld in rows
    ]
