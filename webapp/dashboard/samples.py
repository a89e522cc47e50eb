"""Conversations of two bots, drawn at random to be read beside their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from evaluation.analysis.comparisons import BotMeans
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.bots import BotInfo
from webapp.ratings.selectors import study_dimensions
from webapp.reading.asking import asked_of
from webapp.reading.fields import Number, Numbers
from webapp.reading.listing import Listing, of_study, page_of, people_kept
from webapp.reading.syntax import Term, line_of
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items

EACH = 5
"""Conversations drawn of each bot."""
SHOWN = 2
"""So many of each are quoted on the page; the rest are read side by side."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A drawn conversation: its middle reply, and its mean rating where there is one."""

    bot: BotInfo
    pk: UUID
    href: str
    text: str
    rating: tuple[Number, float | datetime | None] | None


@dataclass(frozen=True, slots=True)
class Samples:
    """Sample of conversations of two bots.

    Attributes:
        quotes: quotes of both bots in turn.
        pairs: addresses that show one conversation of each bot side by side.
        lines: each bot with the address of the conversation browser that lists its sample.
        is_middle: whether they are from the middle half of each bot's ratings.
    """

    quotes: list[Quote]
    pairs: list[str]
    lines: list[tuple[BotInfo, str]]
    is_middle: bool
    most: float


def samples_of(
    study: Study,
    bots: Sequence[BotInfo],
    means: BotMeans,
    key: str,
    *,
    seed: int,
    synthetic: bool,
    without: Sequence[str],
) -> Samples | None:
    """Draw conversations of two bots, in a constant number of queries; None where items are judged, not chats.

    Args:
        key: of the question by whose ratings the middle half of each bot's conversations is taken. The mean of
            several, and a question that counts the other way, have no such number in the index: then all rated ones
            are drawn of.
    """
    if judges_items(study):
        return None
    dimensions = study_dimensions(study)
    numbers = Numbers(dimensions)
    asked = next((d for d in dimensions if d.key == key and not d.reversed), None)
    number = numbers.get(f"rating.{key}") if asked is not None else None
    kept = [("synthetic", "1")] if synthetic else []
    kept += [("without", ",".join(without))] if without else []
    drawn, lines = [], []
    chats = people_kept(of_study(study), synthetic=synthetic, without=without)
    for bot in bots:
        line = _line(bot, means, number, seed)
        asking = asked_of(line, numbers, bots=[one.bot_id for one in bots], study=study)
        found = page_of(Listing(chats, asking), [number] if number else [], size=EACH, total=EACH)
        drawn.append(found.rows)
        where = reverse("dashboard:study_conversations", args=[study.key])
        lines.append((bot, f"{where}?{urlencode([('q', line), *kept], safe=',:')}"))
    said = _middle_replies([row.conversation.pk for rows in drawn for row in rows])
    quotes = []
    for n in range(SHOWN):
        for bot, rows in zip(bots, drawn, strict=True):
            if n < len(rows):
                chat = rows[n].conversation
                quotes.append(
                    Quote(
                        bot,
                        chat.pk,
                        _reader(chat, kept),
                        said.get(chat.pk, ""),
                        rows[n].figures[0] if rows[n].figures else None,
                    )
                )
    pairs = [
        reverse("dashboard:side_by_side", args=[a.conversation.pk, b.conversation.pk])
        for a, b in zip(*drawn, strict=False)
    ]
    return Samples(quotes, pairs, lines, number is not None, asked.high if asked else 0.0)


def _line(bot: BotInfo, means: BotMeans, number: Number | None, seed: int) -> str:
    """Return the line of the workbench that draws a bot's conversations."""
    terms = [Term(bot.bot_id, "bot", ":")]
    found = means.rows.get((bot.bot_id, number.name)) if number is not None else None
    if found is not None and found.quantiles:
        low, high = found.quantiles[1], found.quantiles[3]
        terms.append(Term(f"{low:g}..{high:g}", f"rating.{found.dimension}", ":"))
    else:
        terms.append(Term("rated", "is", ":"))
    return line_of([*terms, Term(str(EACH), "sample", ":"), Term(str(seed), "seed", ":")])


def _middle_replies(chats: Sequence[UUID]) -> dict[UUID, str]:
    """Return by conversation the bot's reply in its middle."""
    turns = Turn.objects.filter(conversation__in=chats, speaker=Turn.Speaker.BOT).exclude(text="")
    replies: dict[Any, list[str]] = {}
    for chat, text in turns.order_by("conversation", "index").values_list("conversation", "text"):
        replies.setdefault(chat, []).append(text)
    return {chat: texts[len(texts) // 2] for chat, texts in replies.items()}


def _reader(chat: Conversation, kept: Sequence[tuple[str, str]]) -> str:
    address = reverse("dashboard:conversation", args=[chat.pk])
    return f"{address}?{urlencode(kept)}" if kept else address
