"""Queries for bots: registry, pools, health, alerts and spending."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots import Conversation
from chatbots.bots.base import Bot
from chatbots.bots.checkpoint import CheckpointBot
from chatbots.bots.person import PERSON
from chatbots.endpoints.metering import BoundedBot, PaidBot, ReplyCost
from chatbots.installation import TEXT_STORE_PATH
from chatbots.registry import UnknownName, bot_get, bot_list
from chatbots.registry import bots as registry
from chatbots.text import nearest_names, quote, sanitise
from chatbots.yaml_registry import ConfiguredBot, EntriesError, configured_bots
from webapp.bots.declared_bots import broken as declared_broken
from webapp.bots.declared_bots import declared_discover, is_declared, is_row_visible, is_visible
from webapp.bots.models import Alert, BotAside, BotHealth, Spending
from webapp.core.clock import database_now
from webapp.core.project_scope import active_project

if TYPE_CHECKING:
    from chatbots.encoders.cache import TextStore

LONGEST_CARD = 100_000
_KIND_TITLES = {"checkpoint": "trained with Confab", "gguf": "local model file", "transformers": "Hugging Face model"}
"""Kinds of bots whose names are technical."""
MOST_PAID_TRIES = 10
"""Number of automatic test replies of a disabled bot that may cost money (five hours); then a researcher must enable
it.
"""

log = logging.getLogger(__name__)
_TELLING = ("model", "base_url", "temperature", "decoding", "window", "max_new_tokens")


@dataclass(frozen=True)
class BotEntry:
    """Bot as shown in lists.

    Attributes:
        available: True if it can be loaded here and is within its cost limit.
        reason: why it is not available.
        health: health of its replies; None before the first.
        needs_trial: True for configured bots, whose configuration may be wrong.
    """

    id: str
    name: str
    kind: str
    is_control: bool
    available: bool
    reason: str | None
    params: dict
    health: BotHealth | None = None
    needs_trial: bool = False

    @property
    def kind_title(self) -> str:
        """Kind in words."""
        return _KIND_TITLES.get(self.kind, self.kind)

    @property
    def short_params(self) -> str:
        """Distinguishing settings without digests; empty if there are none."""
        parts: list[str] = []
        for name in _TELLING:
            value = self.params.get(name)
            if isinstance(value, str | int | float) and value != "" and len(parts) < 3:
                text = urlsplit(str(value)).netloc if name == "base_url" else str(value)
                parts.append(f"{name.replace('_', ' ')} {text}" if name not in ("model", "base_url") else text)
        return " · ".join(parts)

    @property
    def is_tried(self) -> bool:
        """True if the bot has replied, or is built in and cannot be misconfigured."""
        return not self.needs_trial or (self.health is not None and self.health.answered_at is not None)

    @property
    def is_set_aside(self) -> bool:
        """True if it is disabled because its replies kept failing.

        It gets no new participants until a reply works.
        """
        return self.health is not None and self.health.set_aside_at is not None

    @property
    def is_offered(self) -> bool:
        """True if participants may get the bot."""
        return self.available and not self.is_set_aside

    @property
    def trouble(self) -> str:
        """Description of the bot's failures: how often, since when and why.

        A sentence without its subject; empty for a healthy bot.
        """
        health = self.health
        if health is None:
            return ""
        if not health.n_failed or health.failed_since is None:
            if health.set_aside_at is None:
                return ""
            # Its latest reply worked, but too many earlier ones failed.
            return _("kept failing, the last time with: {reason}").format(reason=health.reason)
        template = ngettext(
            "failed at its last reply, {since}: {reason}",
            "failed at its last {n} replies, first {since}, the last with: {reason}",
            health.n_failed,
        )
        since = date_format(timezone.localtime(health.failed_since), "j M, H:i")
        return template.format(n=health.n_failed, since=since, reason=health.reason)


def bots_discover() -> None:
    """Register the configured bots of `CONFAB_BOTS` and those added in the browser.

    Raises:
        EntriesError: as in `bots_file_discover`.
    """
    bots_file_discover()
    declared_discover()


def bots_refresh(bot_id: str) -> None:
    """Register what the look-up of a bot needs.

    The registry calls this in every process.
    """
    try:
        bots_file_discover()
    except EntriesError as error:  # the bot may not need the file
        log.warning("%s", error)
    if bot_id and (is_declared(bot_id) or bot_id not in registry):
        try:
            declared_discover()
        except (DatabaseError, RuntimeError) as error:  # a look-up also works without a database
            log.warning("bots added in the browser are not available here: %s", error)


def bots_file_discover() -> None:
    """Register the configured bots of `CONFAB_BOTS`.

    Bots added to the file later are registered at their next use.

    Raises:
        EntriesError: if the file cannot be read, or if `CONFAB_BOTS` names a file that does not exist.
    """
    path = Path(settings.CONFAB_BOTS)
    is_first = configured_bots.file != path
    try:
        if not configured_bots.follow(path):
            return
    except FileNotFoundError:
        if is_first and path != settings.DATA_DIR / "bots.yaml":
            raise EntriesError(
                f"CONFAB_BOTS names {path}, which does not exist; correct the path, or unset CONFAB_BOTS to use "
                f"{settings.DATA_DIR / 'bots.yaml'} if it exists"
            ) from None
        return
    except EntriesError as error:
        if is_first:
            raise
        # A researcher may be editing the file; the registered bots continue to work.
        log.warning("bots added to the file cannot be used: %s", error)
        return
    if not is_first:
        bots_broken_warn()


def bots_broken_warn() -> None:
    """Log the broken entries of `bots.yaml`.

    A command reports one only if it needs that bot.
    """
    for broken in configured_bots.broken:
        log.warning("left out: %s", broken)


def bot_entry_list() -> list[BotEntry]:
    """Return the active project's bots and broken entries, by id.

    Entries are those of `bots.yaml`. Broken ones are never available.
    """
    bots_discover()
    healths = {health.bot_id: health for health in BotHealth.objects.all()}
    entries = [bot_entry(bot, healths.get(bot.name)) for bot in bot_list() if is_visible(bot.name)]
    known_ids = {entry.id for entry in entries}
    for broken in configured_bots.broken:
        # A broken entry without an id, or with another bot's id, is named by its number.
        name = broken.id if broken.id and broken.id not in known_ids else f"entry-{broken.number}"
        known_ids.add(name)
        entries.append(BotEntry(name, name, broken.kind, False, available=False, reason=str(broken), params={}))
    for bot_id, (title, kind, reason) in declared_broken.items():
        if not is_row_visible(bot_id):
            continue
        entries.append(BotEntry(bot_id, title, kind, False, available=False, reason=reason, params={}))
    return sorted(entries, key=lambda entry: entry.id)


def bot_entry(bot: Bot, health: BotHealth | None = None) -> BotEntry:
    """Return one bot as shown in lists, with its health if known."""
    reason = _unavailable_reason(bot)
    return BotEntry(
        id=bot.name,
        name=bot.title,
        kind=bot.kind,
        is_control=bot.is_control,
        available=reason is None,
        reason=reason,
        params=dict(bot.identity.params),
        health=health,
        needs_trial=isinstance(bot, ConfiguredBot) and bot.kind != PERSON,
    )


def bot_card(bot: Bot) -> str | None:
    """Return the Markdown model card of a bot's checkpoint, or None."""
    folder = getattr(bot, "folder", None)
    card = Path(folder) / "CARD.md" if folder else None
    if card is None or not card.is_file():
        return None
    return card.read_text(encoding="utf-8", errors="replace")[:LONGEST_CARD]


def _unavailable_reason(bot: Bot) -> str | None:
    return sanitise(bot.unavailable_reason() or "") or _cap_reason(bot)


def bots_to_try(pool: str | None) -> list[str]:
    """Return the pool's disabled bots whose next test reply is due.

    None stands for all pools.
    """
    due = BotHealth.objects.filter(set_aside_at__isnull=False, try_at__lte=database_now())
    return [
        bot_id
        for bot_id, n_tries in due.values_list("bot_id", "n_tries")
        if pool in (None, bot_pool(bot_id)) and _may_be_tried(bot_id, n_tries)
    ]


def _may_be_tried(bot_id: str, n_tries: int) -> bool:
    try:
        bot = bot_find(bot_id)
    except UnknownName:
        return False
    is_free = not isinstance(bot, PaidBot) or bot.least_bound.cost == 0
    return is_free or n_tries < MOST_PAID_TRIES


def bot_tries_itself(entry: BotEntry) -> bool:
    """Return True if bot hosts keep testing a disabled bot."""
    health = entry.health
    if health is None or health.set_aside_at is None or health.try_at is None:
        return False
    return _may_be_tried(entry.id, health.n_tries)


def bots_aside(bot_ids: Collection[str] | None = None) -> dict[str, BotAside]:
    """Return the current disabled periods by bot id; None means all bots."""
    rows = BotAside.objects.filter(ended_at=None)
    if bot_ids is not None:
        rows = rows.filter(bot_id__in=list(bot_ids))
    return {aside.bot_id: aside for aside in rows if is_visible(aside.bot_id)}


def alerts_of(asides: Collection[BotAside]) -> dict[int, list[Alert]]:
    """Return all alerts about these disabled periods, by period."""
    alerts: dict[int, list[Alert]] = {}
    event = Alert.Event.SET_ASIDE
    for alert in Alert.objects.filter(aside__in=asides, event=event).order_by("channel"):
        if alert.aside_id is not None:
            alerts.setdefault(alert.aside_id, []).append(alert)
    return alerts


def alerts_newest(n: int) -> list[Alert]:
    """Return the newest alerts, sent or waiting, newest first."""
    return list(Alert.objects.select_related("aside").order_by("-created_at", "channel")[:n])


def _cap_reason(bot: Bot) -> str | None:
    """Explain that the cost limit leaves no room for a reply.

    None if it does.
    """
    if not isinstance(bot, PaidBot) or bot.max_cost is None:
        return None
    spent = spending_spent(Spending.Of.BOT, bot.name)
    if spent + (bot.least_bound.cost or 0.0) <= bot.max_cost:
        return None
    return _("its cost limit of {cap} is reached: {spent} is spent; the limit is max_cost in bots.yaml").format(
        cap=f"{bot.max_cost:g}", spent=f"{spent:.6g}"
    )


def _paid(bot_ids: Collection[str]) -> list[PaidBot]:
    bots_discover()
    return [bot for bot in bot_list() if bot.name in bot_ids and isinstance(bot, PaidBot)]


def bots_unpriced(bot_ids: Collection[str]) -> list[str]:
    """Return the bots that may cost money at an unknown price."""
    return [bot.name for bot in _paid(bot_ids) if bot.least_bound.cost is None]


def bots_with_cost(bot_ids: Collection[str]) -> list[str]:
    """Return the bots whose replies cost money, or may: their prices are unknown or above 0."""
    return [bot.name for bot in _paid(bot_ids) if bot.least_bound.cost != 0]


def bots_chat_bound(bot_ids: Collection[str], *, n_exchanges: int, message_bytes: int) -> float | None:
    """Return the maximum cost of a chat with the most expensive of the bots; None if a price is unknown.

    Args:
        message_bytes: length of the longest message; a byte is at most one token.
    """
    bounds = [_chat_bound(bot, n_exchanges, message_bytes) for bot in _paid(bot_ids)]
    return None if None in bounds else max(filter(None, bounds), default=0.0)


def _chat_bound(bot: PaidBot, n_exchanges: int, message_bytes: int) -> float | None:
    if not isinstance(bot, BoundedBot):
        return None
    total, context = ReplyCost(cost=0.0), Conversation("")
    for _exchange in range(n_exchanges):
        context = context.with_turn("human", "x" * message_bytes)
        bound = bot.bound(context)
        total, context = total.plus(bound), context.with_turn("bot", "x" * bound.tokens_out)
    return total.cost


def bots_least_cost(bot_ids: Collection[str]) -> dict[str, float]:
    """Return the maximum cost of the cheapest reply, for paid bots."""
    return {bot.name: bot.least_bound.cost or 0.0 for bot in _paid(bot_ids)}


def spending_spent(kind: str, key: str) -> float:
    """Return the sum spent or reserved, in the currency of the prices."""
    account = Spending.objects.filter(of=kind, key=key).first()
    return account.spent if account is not None else 0.0


def spending_by_key(kind: str, keys: Collection[str] | None = None) -> dict[str, Spending]:
    """Return existing accounts by bot id or study number.

    None stands for all keys.
    """
    rows = Spending.objects.filter(of=kind)
    if keys is not None:
        rows = rows.filter(key__in=list(keys))
    return {account.key: account for account in rows}


def bot_name(bot_id: str) -> str:
    """Return the bot's title, or the id of an unregistered bot."""
    return registry.get(bot_id).title if bot_id in registry and is_visible(bot_id) else bot_id


def bot_find(bot_id: str) -> Bot:
    """Return the registered bot.

    Raises:
        UnknownName: there is no such bot, or its entry in `bots.yaml` is broken; the message suggests similar ids.
    """
    return _bot_known(bot_id)


def bots_find(bot_ids: Collection[str]) -> dict[str, Bot]:
    """Return the registered bots by their ids, in one query at most.

    Raises:
        UnknownName: as `bot_find`.
    """
    bots_discover()
    return {bot_id: _bot_known(bot_id) for bot_id in bot_ids}


def _bot_known(bot_id: str) -> Bot:
    try:
        return _get_visible_bot(bot_id)
    except UnknownName:
        if bot_id in declared_broken and is_row_visible(bot_id):
            raise UnknownName(f"{bot_id} cannot be used: {declared_broken[bot_id][2]}") from None
        for broken in configured_bots.broken:
            if broken.id == bot_id:
                raise UnknownName(str(broken)) from None
        raise


def _get_visible_bot(bot_id: str) -> Bot:
    """Return a bot of the active project.

    Bots of other projects are unknown, and never suggested.
    """
    try:
        bot = bot_get(bot_id)
        if is_visible(bot_id):
            return bot
    except UnknownName:
        if active_project() is None:
            raise
    near = nearest_names(bot_id, [bot.name for bot in bot_list() if is_visible(bot.name)])
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UnknownName(f"there is no bot called {quote(bot_id)}{hint}")


def bots_unknown(bot_ids: Collection[str]) -> list[str]:
    """Return a sentence for each unknown bot id, with similar ones."""
    bots_discover()
    errors = []
    for bot_id in bot_ids:
        try:
            _bot_known(bot_id)
        except UnknownName as error:
            errors.append(capfirst(str(error)))
    return errors


def bots_trained(bot_ids: Collection[str]) -> dict[str, CheckpointBot]:
    """Return those of these bots that run a checkpoint of this server."""
    bots_discover()
    installed = {bot_id: registry.get(bot_id) for bot_id in bot_ids if bot_id in registry and is_visible(bot_id)}
    return {bot_id: bot for bot_id, bot in installed.items() if isinstance(bot, CheckpointBot)}


def bots_taking_images(bot_ids: Collection[str]) -> list[str]:
    """Return the bots that can see images in messages."""
    bots_discover()
    return [bot_id for bot_id in bot_ids if bot_id in registry and getattr(registry.get(bot_id), "takes_images", False)]


def bot_available_ids(bot_ids: list[str]) -> list[str]:
    """Return the bots that can be assigned to participants now.

    The order is kept.
    """
    # Check only these bots: checking may read their files.
    bots_discover()
    set_aside = BotHealth.objects.filter(bot_id__in=bot_ids, set_aside_at__isnull=False)
    disabled_ids = set(set_aside.values_list("bot_id", flat=True))
    bots_by_id = {bot.name: bot for bot in bot_list() if bot.name in bot_ids}
    return [
        bot_id
        for bot_id in bot_ids
        if bot_id in bots_by_id and bot_id not in disabled_ids and _unavailable_reason(bots_by_id[bot_id]) is None
    ]


def bot_pool(bot_id: str) -> str:
    """Return the pool of bot hosts that serves this bot."""
    return settings.CONFAB_BOT_POOLS.get(bot_id, "default")


def bot_pools() -> list[str]:
    """Return all pools, "default" first."""
    return ["default", *sorted(set(settings.CONFAB_BOT_POOLS.values()) - {"default"})]


def text_store() -> TextStore:
    """Return the store in the data folder.

    All processes of a host share its file.
    """
    from chatbots.encoders.cache import TextStore

    return TextStore(settings.DATA_DIR / TEXT_STORE_PATH)
