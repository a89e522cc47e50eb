"""Writes of bot identities, of bots' health, and of what paid bots spend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chatbots import Identity
from chatbots.base import Bot
from chatbots.endpoints.metering import CapReached, ReplyCost
from chatbots.storable import storable
from webapp.bots.models import NANO, BotHealth, BotVersion, Spending

SET_ASIDE_AFTER = 3
"""Failures in a row after which a bot is set aside,"""
SET_ASIDE_CHATS = 2
"""if they were in so many chats: what one person writes may be all that the bot fails at."""
FIRST_TRY_AFTER = timedelta(minutes=1)
LONGEST_TRY_AFTER = timedelta(hours=1)
"""The first trial comes after a minute, each further one after twice as long, and at last every hour."""


def bot_version_record(*, bot: Bot) -> BotVersion:
    """Return the row of this bot as it is now, made on first use."""
    identity = bot.identity
    version, _ = BotVersion.objects.get_or_create(
        key=identity.key,
        defaults={
            "bot_id": bot.name,
            "title": bot.title,
            "kind": bot.kind,
            "version": identity.version,
            "params": dict(identity.params),
            "is_control": bot.is_control,
        },
    )
    return version


def bot_version_record_imported(*, bot_id: str, source: str) -> BotVersion:
    """Return the row of a bot that is known only by name, from imported conversations of `source`."""
    identity = Identity(bot_id, "imported", {"source": source})
    version, _ = BotVersion.objects.get_or_create(
        key=identity.key,
        defaults={
            "bot_id": bot_id,
            "title": bot_id,
            "kind": "imported",
            "version": identity.version,
            "params": dict(identity.params),
        },
    )
    return version


def bot_answered(*, bot_id: str) -> None:
    """Note that the bot gave a reply; one that was set aside is back."""
    now = timezone.now()
    is_known = BotHealth.objects.filter(
        bot_id=bot_id, n_failed=0, answered_at__gt=now - timedelta(minutes=1)
    ).exists()
    if not is_known:
        BotHealth.objects.update_or_create(
            bot_id=bot_id,
            defaults={
                "answered_at": now,
                "n_failed": 0,
                "failed_since": None,
                "failed_in": [],
                "set_aside_at": None,
                "try_at": None,
                "n_tries": 0,
            },
        )


def bot_failed(*, bot_id: str, reason: str, chat: str) -> None:
    """Note that a reply of the bot failed; after several in a row it is set aside.

    Args:
        chat: which one, so that one chat alone sets no bot aside.
    """
    now = timezone.now()
    with transaction.atomic():
        BotHealth.objects.get_or_create(bot_id=bot_id)
        health = BotHealth.objects.select_for_update().get(bot_id=bot_id)
        health.n_failed += 1
        health.failed_at = now
        health.failed_since = health.failed_since or now
        reason = reason.removeprefix(f"{bot_id}: ")  # it stands beside the bot's name
        health.reason = storable(reason, BotHealth._meta.get_field("reason").max_length)
        if chat not in health.failed_in and len(health.failed_in) < SET_ASIDE_CHATS:
            health.failed_in = [*health.failed_in, chat]
        is_enough = health.n_failed >= SET_ASIDE_AFTER and len(health.failed_in) >= SET_ASIDE_CHATS
        if is_enough and health.set_aside_at is None:
            health.set_aside_at = now
            health.try_at = now + FIRST_TRY_AFTER
        health.save()


def bot_try_claim(*, bot_id: str) -> bool:
    """Take the trial that is due and set the time of the next; False if another host was faster."""
    now = timezone.now()
    due = BotHealth.objects.filter(bot_id=bot_id, try_at__lte=now)
    n_tries = due.values_list("n_tries", flat=True).first()
    if n_tries is None:
        return False
    pause = min(FIRST_TRY_AFTER * 2 ** min(n_tries + 1, 10), LONGEST_TRY_AFTER)
    changed = due.filter(n_tries=n_tries).update(try_at=now + pause, n_tries=F("n_tries") + 1)
    return bool(changed)


@dataclass(frozen=True, slots=True)
class Purse:
    """An account that a call is charged to.

    Attributes:
        of, key: which account.
        cap: the most that may be spent from it, in the currency of the prices; None: no cap.
        name: what an error calls it, "the cap of study pilot".
    """

    of: str
    key: str
    cap: float | None
    name: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was set aside on which accounts, for `spending_settle`."""

    accounts: tuple[int, ...]
    amount_nano: int


def spending_reserve(*, purses: Sequence[Purse], bound: ReplyCost) -> Reservation:
    """Set a call's bound aside on every account, or on none.

    One conditional UPDATE an account: however many processes ask at once, no cap is passed.

    Raises:
        CapReached: if one of the caps leaves less, or the bound is unknown where there is a cap.
    """
    amount = math.ceil((bound.cost or 0.0) * NANO)
    accounts = []
    with transaction.atomic():
        for purse in purses:
            account, _ = Spending.objects.get_or_create(of=purse.of, key=purse.key)
            rows = Spending.objects.filter(pk=account.pk)
            if purse.cap is not None:
                if bound.cost is None:
                    raise CapReached(
                        f"{purse.name} is {purse.cap:g}, but the bot's price_in and price_out are "
                        "not set; add them to its entry in bots.yaml"
                    )
                rows = rows.filter(spent_nano__lte=math.floor(purse.cap * NANO) - amount)
            if not rows.update(spent_nano=F("spent_nano") + amount):
                account.refresh_from_db()
                raise CapReached(
                    f"{purse.name}, {purse.cap:g}, is reached: {account.spent:.6g} is spent or set "
                    f"aside, and this reply may cost {amount / NANO:.6g}"
                )
            accounts.append(account.pk)
    return Reservation(tuple(accounts), amount)


def spending_settle(*, reservation: Reservation, cost: ReplyCost) -> None:
    """Put what a call took in the place of its bound."""
    change = round((cost.cost or 0.0) * NANO) - reservation.amount_nano
    n_calls = int(cost.tokens_in + cost.tokens_out > 0)
    Spending.objects.filter(pk__in=reservation.accounts).update(
        spent_nano=F("spent_nano") + change,
        n_calls=F("n_calls") + n_calls,
        n_unpriced=F("n_unpriced") + (n_calls if cost.cost is None else 0),
        n_estimated=F("n_estimated") + (n_calls if cost.is_estimated else 0),
        tokens_in=F("tokens_in") + cost.tokens_in,
        tokens_out=F("tokens_out") + cost.tokens_out,
    )
