"""Reads about bots: which there are here, and where they run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from chatbots.base import Bot
from chatbots.configured import BotsFileError, configured_extend, configured_register
from chatbots.metering import PaidBot
from chatbots.registry import bot_get, bot_list
from webapp.bots.models import Spending

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BotEntry:
    """A bot as lists show it."""

    id: str
    name: str
    kind: str
    is_control: bool
    available: bool
    reason: str | None
    params: dict


_registered_from: tuple[Path, int] | None = None
_discovering = threading.Lock()


def bots_discover() -> None:
    """Register the configured bots of `CONFAB_BOTS`; those added to the file later, when next asked.

    An entry that has changed stays as it was until the process starts anew: conversations are under way
    with the bot as it is loaded.

    Raises:
        BotsFileError: for a mistake in the file, or if a file other than the usual one is not there.
    """
    global _registered_from
    path = Path(settings.CONFAB_BOTS)
    with _discovering:
        is_first = _registered_from is None or _registered_from[0] != path
        try:
            stamp = path.stat().st_mtime_ns
        except FileNotFoundError:
            if is_first and path != settings.DATA_DIR / "bots.yaml":
                raise BotsFileError(
                    f"CONFAB_BOTS names {path}, and there is no such file; correct the path, or unset "
                    f"CONFAB_BOTS to use {settings.DATA_DIR / 'bots.yaml'} where there is one"
                ) from None
            return
        if _registered_from == (path, stamp):
            return
        if is_first:
            configured_register(path)
        else:
            try:
                configured_extend(path)
            except BotsFileError as error:
                # Somebody is in the middle of an edit, perhaps; what is registered serves on.
                log.warning("bots added to the file cannot be used: %s", error)
        _registered_from = (path, stamp)


def bot_entry_list() -> list[BotEntry]:
    """Every registered bot, by name."""
    bots_discover()
    return [bot_entry(bot) for bot in bot_list()]


def bot_entry(bot: Bot) -> BotEntry:
    """One bot as lists show it."""
    reason = bot.unavailable_reason() or _cap_reason(bot)
    return BotEntry(
        id=bot.name,
        name=bot.title,
        kind=bot.kind,
        is_control=bot.is_control,
        available=reason is None,
        reason=reason,
        params=dict(bot.identity.params),
    )


def _cap_reason(bot: Bot) -> str | None:
    """That the bot's cap leaves too little for one more reply; None if it has room or no cap."""
    if not isinstance(bot, PaidBot) or bot.max_cost is None:
        return None
    spent = spending_spent(Spending.Of.BOT, bot.name)
    if spent + (bot.least_bound.cost or 0.0) <= bot.max_cost:
        return None
    return _(
        "its cap of {cap} is reached: {spent} is spent; max_cost in bots.yaml is the cap"
    ).format(cap=f"{bot.max_cost:g}", spent=f"{spent:.6g}")


def _paid(bot_ids: Collection[str]) -> list[PaidBot]:
    bots_discover()
    return [bot for bot in bot_list() if bot.name in bot_ids and isinstance(bot, PaidBot)]


def bots_unpriced(bot_ids: Collection[str]) -> list[str]:
    """Those of them that may cost money, nobody knows how much."""
    return [bot.name for bot in _paid(bot_ids) if bot.least_bound.cost is None]


def bots_least_cost(bot_ids: Collection[str]) -> dict[str, float]:
    """Of those that may cost money, the most that their cheapest reply may cost."""
    return {bot.name: bot.least_bound.cost or 0.0 for bot in _paid(bot_ids)}


def spending_spent(of: str, key: str) -> float:
    """What has been spent or set aside, in the currency of the prices."""
    account = Spending.objects.filter(of=of, key=key).first()
    return account.spent if account is not None else 0.0


def spending_by_key(of: str, keys: Collection[str] | None = None) -> dict[str, Spending]:
    """The accounts there are, by bot id or study number; None: all."""
    rows = Spending.objects.filter(of=of)
    if keys is not None:
        rows = rows.filter(key__in=list(keys))
    return {account.key: account for account in rows}


def bot_find(bot_id: str) -> Bot:
    """The registered bot.

    Raises:
        UnknownName: with the nearest names.
    """
    bots_discover()
    return bot_get(bot_id)


def bot_available_ids(bot_ids: list[str]) -> list[str]:
    """Those of `bot_ids` that can be offered to people now, in the same order."""
    entries = {entry.id: entry for entry in bot_entry_list()}
    return [bot_id for bot_id in bot_ids if bot_id in entries and entries[bot_id].available]


def bot_pool(bot_id: str) -> str:
    """The pool of bot hosts that serves this bot."""
    return settings.CONFAB_BOT_POOLS.get(bot_id, "default")


def bot_pools() -> list[str]:
    """All pools, "default" first."""
    return ["default", *sorted(set(settings.CONFAB_BOT_POOLS.values()) - {"default"})]
