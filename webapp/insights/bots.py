"""Bots on pages: state, roles, cost, and sample conversations.

The state combines the registry, the bot hosts, and replies to participants. Samples are drawn at random, to be read
next to the numbers of two bots.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format

from chatbots.endpoints.metering import PaidBot
from chatbots.registry import bot_list
from evaluation.analysis.bot_means import BotMeans
from webapp.bots.models import BotVersion, Spending
from webapp.bots.selectors import BotEntry, bot_entry_list, bots_discover, spending_by_key
from webapp.conversations.heartbeats import heartbeat_bots
from webapp.conversations.models import Conversation, Turn
from webapp.core.language import plural
from webapp.ratings.selectors import BotInfo, study_dimensions
from webapp.search.fields import Number, QueryTerm, line_of
from webapp.search.pagination import Listing, conversations_of_study, filter_conversations, page_of, study_numbers
from webapp.search.query import parse_query
from webapp.studies.assignment.capacity import bots_beyond_cap
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol


@dataclass(frozen=True, slots=True)
class BotState:
    """State of a bot in words.

    Attributes:
        tone: its colour.
        reason: what is wrong; empty if nothing is known to be.
        is_offered: whether participants can be assigned to the bot.
        is_loaded: whether a bot host has it in memory.
        detail: duration and time of its latest reply.
    """

    words: str
    tone: str
    reason: str
    is_offered: bool
    is_loaded: bool = False
    detail: str = ""

    @property
    def is_well(self) -> bool:
        """True if participants can get the bot and its latest reply worked."""
        return self.tone == "good"


_NO_CONNECTION = re.compile(r"cannot be reached|no connection|belongs to this machine or a private network")


def bot_state(entry: BotEntry, reports: Mapping[str, Mapping[str, Any]]) -> BotState:
    """Return the worst known state of the bot.

    Args:
        reports: reports of the live bot hosts, by bot.
    """
    report = reports.get(entry.id, {})
    if entry.reason:
        return BotState("Unavailable", "bad", entry.reason, is_offered=False)
    is_loaded = report.get("state") in ("loaded", "ready")
    if report.get("state") == "unavailable":
        reason = report.get("reason") or "the bot host could not load it"
        return BotState(_failing_words(reason, "Unavailable"), "bad", reason, is_offered=False)
    if entry.is_set_aside:
        return BotState("Disabled", "bad", entry.trouble, is_offered=False, is_loaded=is_loaded)
    if entry.trouble:
        words = _failing_words(entry.trouble, "Failing")
        return BotState(words, "bad" if words == "Unreachable" else "warn", entry.trouble, True, is_loaded)
    health = entry.health
    if health is None or health.answered_at is None:
        return BotState("Not tried", "", "", is_offered=True, is_loaded=is_loaded)
    took = "" if health.answer_s is None else f"{health.answer_s:.1f} s, "
    when = date_format(timezone.localtime(health.answered_at), "j M, H:i")
    rejected = (
        f", without {', '.join(health.rejected_params)} (rejected by its model)" if health.rejected_params else ""
    )
    return BotState("Answers", "good", "", True, is_loaded, f"{took}{when}{rejected}")


def troubled_bots() -> list[tuple[BotEntry, BotState]]:
    """Return failing bots, and unassigned bots of collecting studies.

    Each comes with its state.
    """
    reports = heartbeat_bots()
    in_use = {bot for study in Study.objects.filter(state=Study.State.COLLECTING) for bot in study.bots}
    states = [(entry, bot_state(entry, reports)) for entry in bot_entry_list()]
    return [(entry, state) for entry, state in states if state.reason and (entry.trouble or entry.id in in_use)]


def _failing_words(reason: str, otherwise: str) -> str:
    """Return “Unreachable” if no connection was made."""
    return "Unreachable" if _NO_CONNECTION.search(reason) else otherwise


@dataclass(frozen=True, slots=True)
class BotRole:
    """Role of a bot in a study: control or not.

    Attributes:
        is_marked: marked as a control on the bot's page, or by an import.
        otherwise: other places that name it a control, in words; empty without any.
    """

    study: Study
    is_marked: bool
    otherwise: str


def roles_of_bot(bot_id: str) -> list[BotRole]:
    """Return the bot's role in every study with conversations of it."""
    versions = BotVersion.objects.filter(bot_id=bot_id)
    bot_conversations = Conversation.objects.filter(study=OuterRef("pk"), bot__in=versions).order_by()
    by_code = "in the bot’s code" if versions.filter(is_control=True).exists() else ""
    roles = []
    for study in Study.objects.filter(Exists(bot_conversations)).order_by("name"):
        columns = BotColumns.from_json(study.bot_columns)
        by_table = "in the study’s table of bots" if bot_id in columns.control else ""
        roles.append(BotRole(study, bot_id in columns.marked, by_code or by_table))
    return roles


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of a bot's calls so far, and its limit, formatted.

    Attributes:
        spent: in the currency of the prices; None if no price is known.
        cap: cost limit; None without one.
        is_reached: whether another reply would exceed the limit.
        about: calls and tokens, and what is uncertain about them.
    """

    spent: float | None
    cap: float | None
    is_reached: bool
    about: str


def bots_spent(bot_ids: Collection[str] | None = None) -> dict[str, Spent]:
    """Return the accounts of paid bots by id; None means all bots."""
    bots_discover()
    paid = [bot for bot in bot_list() if isinstance(bot, PaidBot) and (bot_ids is None or bot.name in bot_ids)]
    accounts = spending_by_key(Spending.Of.BOT, [bot.name for bot in paid]) if paid else {}
    spending = {}
    for bot in paid:
        account = accounts.get(bot.name)
        spent = account.spent if account is not None else 0.0
        least = bot.least_bound.cost
        reached = bot.max_cost is not None and spent + (least or 0.0) > bot.max_cost
        spending[bot.name] = Spent(
            None if least is None and not spent else spent, bot.max_cost, reached, _about(account)
        )
    return spending


def study_spent(study: Study) -> Spent | None:
    """Return the study's account.

    None if its bots are free and it has no cost limit.
    """
    account = spending_by_key(Spending.Of.STUDY, [str(study.pk)]).get(str(study.pk))
    if account is None and study.values.quotas.max_cost is None and not bots_spent(study.bots):
        return None
    spent = account.spent if account is not None else 0.0
    unknown = account is not None and account.n_calls == account.n_unpriced > 0
    return Spent(
        None if unknown else spent, study.values.quotas.max_cost, bool(bots_beyond_cap(study)), _about(account)
    )


def _about(account: Spending | None) -> str:
    if account is None or not account.n_calls:
        return "no calls yet"
    parts = [
        plural(account.n_calls, "{n} call", "{n} calls").format(n=f"{account.n_calls:,}"),
        "{n_in} tokens in, {n_out} out".format(n_in=f"{account.tokens_in:,}", n_out=f"{account.tokens_out:,}"),
    ]
    if account.n_estimated:
        parts.append("tokens of {n} estimated".format(n=f"{account.n_estimated:,}"))
    if 0 < account.n_unpriced < account.n_calls:
        parts.append("unknown price for {n}".format(n=f"{account.n_unpriced:,}"))
    return "; ".join(parts)


EACH = 5
"""Conversations drawn per bot."""
SHOWN = 2
"""Number of conversations per bot quoted on the page; the rest are shown side by side."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A drawn conversation: its middle reply, and its mean rating if any."""

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
        lines: each bot with the address that lists its sample in the conversation browser.
        is_middle: whether they are from the middle half of each bot's ratings.
    """

    quotes: list[Quote]
    pairs: list[str]
    lines: list[tuple[BotInfo, str]]
    is_middle: bool
    max_rating: float


def samples_of(
    study: Study,
    bots: Sequence[BotInfo],
    means: BotMeans,
    key: str,
    *,
    seed: int,
    synthetic: bool,
    excluded_flags: Sequence[str],
) -> Samples | None:
    """Sample conversations of two bots; None for studies that rate items.

    Args:
        key: key of the question whose ratings select the middle half of each bot's conversations. The index has no such
            number for a mean of several questions or a reversed question: then all rated conversations are drawn from.
    """
    if get_protocol(study).judges_items:
        return None
    dimensions = study_dimensions(study)
    numbers = study_numbers(study)
    dimension = next((d for d in dimensions if d.key == key and not d.reversed), None)
    number = numbers.get(f"rating.{key}") if dimension is not None else None
    params = [("synthetic", "1")] if synthetic else []
    params += [("without", ",".join(excluded_flags))] if excluded_flags else []
    samples, lines = [], []
    chats = filter_conversations(conversations_of_study(study), synthetic=synthetic, excluded_flags=excluded_flags)
    for bot in bots:
        line = _line(bot, means, number, seed)
        asking = parse_query(line, numbers, bots=[candidate.bot_id for candidate in bots], study=study)
        page = page_of(Listing(chats, asking), [number] if number else [], size=EACH, total=EACH)
        samples.append(page.rows)
        address = reverse("dashboard:study_conversations", args=[study.key])
        lines.append((bot, f"{address}?{urlencode([('q', line), *params], safe=',:')}"))
    middle_replies = _middle_replies([row.conversation.pk for rows in samples for row in rows])
    quotes = []
    for n in range(SHOWN):
        for bot, rows in zip(bots, samples, strict=True):
            if n < len(rows):
                chat = rows[n].conversation
                quotes.append(
                    Quote(
                        bot,
                        chat.pk,
                        _reader(chat, params),
                        middle_replies.get(chat.pk, ""),
                        rows[n].figures[0] if rows[n].figures else None,
                    )
                )
    pairs = [
        reverse("dashboard:side_by_side", args=[a.conversation.pk, b.conversation.pk])
        for a, b in zip(*samples, strict=False)
    ]
    return Samples(quotes, pairs, lines, number is not None, dimension.high if dimension else 0.0)


def _line(bot: BotInfo, means: BotMeans, number: Number | None, seed: int) -> str:
    """Return the conversation browser's query that draws a bot's conversations."""
    terms = [QueryTerm(bot.bot_id, "bot", ":")]
    mean_row = means.rows.get((bot.bot_id, number.name)) if number is not None else None
    if mean_row is not None and mean_row.quantiles:
        low, high = mean_row.quantiles[1], mean_row.quantiles[3]
        terms.append(QueryTerm(f"{low:g}..{high:g}", f"rating.{mean_row.dimension}", ":"))
    else:
        terms.append(QueryTerm("rated", "is", ":"))
    return line_of([*terms, QueryTerm(str(EACH), "sample", ":"), QueryTerm(str(seed), "seed", ":")])


def _middle_replies(chats: Sequence[UUID]) -> dict[UUID, str]:
    """Return the bot's middle reply by conversation."""
    turns = Turn.objects.filter(conversation__in=chats, speaker=Turn.Speaker.BOT).exclude(text="")
    replies: dict[Any, list[str]] = {}
    for chat, text in turns.order_by("conversation", "index").values_list("conversation", "text"):
        replies.setdefault(chat, []).append(text)
    return {chat: texts[len(texts) // 2] for chat, texts in replies.items()}


def _reader(chat: Conversation, params: Sequence[tuple[str, str]]) -> str:
    address = reverse("dashboard:conversation", args=[chat.pk])
    return f"{address}?{urlencode(params)}" if params else address
