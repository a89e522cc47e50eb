"""Writes of bot identities, and of what paid bots spend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F

from chatbots import Identity
from chatbots.base import Bot
from chatbots.endpoints.metering import CapReached, ReplyCost
from webapp.bots.models import NANO, BotVersion, Spending


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
    """Amount reserved on some accounts, for `spending_settle`."""

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
