"""Writes of bots: identities, costs of paid bots, and health.

Bots that keep failing are disabled, and enabled again. Two rules disable a bot. Failures in a row mean that it is down:
any successful reply, such as a test reply, enables it. Failures among its latest replies mean that it is unreliable,
and one good reply does not change that: such a bot waits for a researcher, and so does one that was disabled twice
within a day.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.dispatch import Signal

from chatbots import Identity
from chatbots.bots.base import Bot
from chatbots.endpoints.metering import CapReached, ReplyCost
from chatbots.text import sanitise
from webapp.bots.models import NANO, BotAside, BotHealth, BotVersion, Spending
from webapp.core.audit_trail import BOT_PUT_BACK, record, vocabulary_add
from webapp.core.clock import database_now

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def bot_version_record(*, bot: Bot) -> BotVersion:
    """Return the row of the bot's current identity, created on first use."""
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
    """Return the row of a bot that is known only by name.

    It comes from imported conversations of `source`.
    """
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
    """Account that a call is charged to.

    Attributes:
        kind, key: identify the account.
        cap: cost limit in the currency of the prices; None without one.
        name: name in error messages, such as "the cap of study pilot".
    """

    kind: str
    key: str
    cap: float | None
    name: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amount reserved on some accounts, for `spending_settle`."""

    accounts: tuple[int, ...]
    amount_nano: int


def spending_reserve(*, purses: Sequence[Purse], bound: ReplyCost) -> Reservation:
    """Reserve a call's maximum cost on every account, or on none.

    One conditional UPDATE an account: however many processes ask at once, no cap is passed. Accounts are always locked
    in the order of their numbers, since calls that share some of them would otherwise wait for each other.

    Raises:
        CapReached: if a limit leaves less, or the maximum cost is unknown and there is a limit.
    """
    amount = math.ceil((bound.cost or 0.0) * NANO)
    for purse in purses:
        if purse.cap is not None and bound.cost is None:
            raise CapReached(
                f"{purse.name} is {purse.cap:g}, but the bot's price_in and price_out are "
                "not set; add them to its entry in bots.yaml"
            )
    accounts = {Spending.objects.get_or_create(of=purse.kind, key=purse.key)[0]: purse for purse in purses}
    with transaction.atomic():
        for account, purse in sorted(accounts.items(), key=lambda pair: pair[0].pk):
            rows = Spending.objects.filter(pk=account.pk)
            if purse.cap is not None:
                rows = rows.filter(spent_nano__lte=math.floor(purse.cap * NANO) - amount)
            if not rows.update(spent_nano=F("spent_nano") + amount):
                account.refresh_from_db()
                raise CapReached(
                    f"{purse.name}, {purse.cap:g}, is reached: {account.spent:.6g} is spent or reserved, and this "
                    f"reply may cost {amount / NANO:.6g}"
                )
    return Reservation(tuple(account.pk for account in accounts), amount)


def spending_settle(*, reservation: Reservation, cost: ReplyCost) -> None:
    """Replace a call's reserved cost by its actual cost."""
    change = round((cost.cost or 0.0) * NANO) - reservation.amount_nano
    n_calls = int(cost.tokens_in + cost.tokens_out > 0)
    with transaction.atomic():
        for pk in sorted(reservation.accounts):
            Spending.objects.filter(pk=pk).update(
                spent_nano=F("spent_nano") + change,
                n_calls=F("n_calls") + n_calls,
                n_unpriced=F("n_unpriced") + (n_calls if cost.cost is None else 0),
                n_estimated=F("n_estimated") + (n_calls if cost.is_estimated else 0),
                tokens_in=F("tokens_in") + cost.tokens_in,
                tokens_out=F("tokens_out") + cost.tokens_out,
            )


SET_ASIDE_CHATS = 2
"""Minimum number of chats with failures: a bot may fail only at what one participant writes."""
FIRST_TRY_AFTER = timedelta(minutes=1)
LONGEST_TRY_AFTER = timedelta(hours=1)
"""Maximum time between test replies: the first comes after a minute, and each wait is twice as long as the previous."""
AGAIN_WITHIN = timedelta(days=1)
"""A bot that is disabled again within this time waits for a researcher."""

REASON_REMOVED = "The error text was removed when participants were erased, because it might have quoted them."

bot_set_aside = Signal()
"""Signal with `aside`, sent in the transaction that disables a bot."""
bot_came_back = Signal()
"""Signal with `aside`, sent in the transaction that enables it."""


def bot_answered(*, bot_id: str, seconds: float | None = None, rejected_params: Collection[str] = ()) -> None:
    """Store that the bot replied.

    A disabled bot is enabled, unless it waits for a researcher.

    Args:
        seconds: time until the whole reply was complete; None if unknown.
        rejected_params: fields of the request that its model rejected.
    """
    now, rejected = database_now(), list(rejected_params)
    known = BotHealth.objects.filter(bot_id=bot_id, n_failed=0, latest=[], answered_at__gt=now - timedelta(minutes=1))
    if known.values_list("rejected_params", flat=True).first() == rejected:
        return
    with transaction.atomic():
        health = _locked(bot_id)
        health.answered_at, health.answer_s = now, seconds
        health.rejected_params = rejected
        health.n_failed = 0
        health.failed_since = None
        health.failed_in = []
        health.latest = _with(health.latest, "")
        if health.set_aside_at is not None:
            aside = BotAside.objects.filter(bot_id=bot_id, ended_at=None).first()
            if aside is None or not aside.needs_person:
                _back(health, aside, BotAside.EndedBy.REPLY)
        health.save()


def bot_failed(*, bot_id: str, reason: str, chat: str) -> None:
    """Store that a reply of the bot failed.

    A bot that keeps failing is disabled, only once even if several replies fail at the same time.

    Args:
        chat: the chat, since failures in a single chat disable no bot.
    """
    now = database_now()
    with transaction.atomic():
        health = _locked(bot_id)
        health.n_failed += 1
        health.failed_at = now
        health.failed_since = health.failed_since or now
        reason = reason.removeprefix(f"{bot_id}: ")  # it is shown next to the bot's name
        health.reason = sanitise(reason, BotHealth._meta.get_field("reason").max_length)
        if chat not in health.failed_in and len(health.failed_in) < SET_ASIDE_CHATS:
            health.failed_in = [*health.failed_in, chat]
        health.latest = _with(health.latest, chat)
        if health.set_aside_at is None:
            _set_aside_if_due(health)
        health.save()


vocabulary_add("bot", lambda: set(BotHealth.objects.values_list("bot_id", flat=True)))


def bot_put_back(*, bot_id: str, user: User | None = None) -> bool:
    """Enable a disabled bot and forget its failures.

    False if it was not disabled.
    """
    with transaction.atomic():
        health = BotHealth.objects.select_for_update().filter(bot_id=bot_id).first()
        if health is None or health.set_aside_at is None:
            return False
        aside = BotAside.objects.filter(bot_id=bot_id, ended_at=None).first()
        _back(health, aside, BotAside.EndedBy.PERSON, user)
        health.save()
        record(BOT_PUT_BACK, bot=bot_id)
    return True


def bot_try_claim(*, bot_id: str) -> bool:
    """Claim the due test reply and schedule the next one.

    False if another host was faster.
    """
    now = database_now()
    due = BotHealth.objects.filter(bot_id=bot_id, try_at__lte=now)
    n_tries = due.values_list("n_tries", flat=True).first()
    if n_tries is None:
        return False
    pause = min(FIRST_TRY_AFTER * 2 ** min(n_tries + 1, 10), LONGEST_TRY_AFTER)
    changed = due.filter(n_tries=n_tries).update(try_at=now + pause, n_tries=F("n_tries") + 1)
    return bool(changed)


def bot_reasons_forget(bot_ids: Collection[str]) -> None:
    """Remove these bots' error messages, which may quote an erased participant."""
    for manager in (BotHealth.objects, BotAside.objects):
        rows_with_reason = manager.filter(bot_id__in=bot_ids).exclude(reason="")
        rows_with_reason.update(reason=REASON_REMOVED)


def _locked(bot_id: str) -> BotHealth:
    BotHealth.objects.get_or_create(bot_id=bot_id)
    return BotHealth.objects.select_for_update().get(bot_id=bot_id)


def _with(latest: list[str], chat: str) -> list[str]:
    """Return the latest replies with one more.

    An entry is the chat in which a reply failed, or empty. The list is empty if no reply failed.
    """
    newest = [*latest, chat][-settings.CONFAB_ASIDE_OF :]
    return newest if any(newest) else []


def _set_aside_if_due(health: BotHealth) -> None:
    """Disable the bot if one of the two rules applies."""
    failed = [chat for chat in health.latest if chat]
    in_a_row = health.n_failed >= settings.CONFAB_ASIDE_IN_A_ROW
    in_a_row = in_a_row and len(health.failed_in) >= SET_ASIDE_CHATS
    too_often = len(failed) >= settings.CONFAB_ASIDE_FAILED and len({*failed}) >= SET_ASIDE_CHATS
    if not in_a_row and not too_often:
        return
    now = database_now()
    before = BotAside.objects.filter(
        bot_id=health.bot_id, began_at__gt=now - AGAIN_WITHIN, ended_by=BotAside.EndedBy.REPLY
    )
    aside = BotAside.objects.create(
        bot_id=health.bot_id,
        began_at=now,
        reason=health.reason,
        n_failed=health.n_failed if in_a_row else len(failed),
        of_n=0 if in_a_row else settings.CONFAB_ASIDE_OF,
        needs_person=not in_a_row or before.exists(),
    )
    health.set_aside_at = now
    health.try_at = None if aside.needs_person else now + FIRST_TRY_AFTER
    health.n_tries = 0
    bot_set_aside.send(sender=BotAside, aside=aside)


def _back(health: BotHealth, aside: BotAside | None, ended_by: str, user: User | None = None) -> None:
    """Enable a bot again; its earlier failures no longer count."""
    health.set_aside_at = health.try_at = health.failed_since = None
    health.n_tries = health.n_failed = 0
    health.failed_in, health.latest = [], []
    if aside is None:
        return
    aside.ended_at = database_now()
    aside.ended_by = ended_by
    aside.put_back_by = user
    aside.save(update_fields=["ended_at", "ended_by", "put_back_by"])
    bot_came_back.send(sender=BotAside, aside=aside)
