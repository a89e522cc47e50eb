"""Writes of bots' health: bots that keep failing are disabled, and enabled again.

Two rules set a bot aside. Failures in a row mean that it is down: a trial that works, or any other reply, brings it
back. Failures among its latest replies mean that it cannot be relied on, which one good reply does not mend: that bot
waits for a person, and so does one that was set aside twice within a day.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.dispatch import Signal
from django.utils import timezone

from chatbots.storable import storable
from webapp.bots.models import BotAside, BotHealth

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SET_ASIDE_CHATS = 2
"""In so many chats a bot must have failed: what one person writes may be all that it fails at."""
FIRST_TRY_AFTER = timedelta(minutes=1)
LONGEST_TRY_AFTER = timedelta(hours=1)
"""The first trial comes after a minute, each further one after twice as long, and at last every hour."""
AGAIN_WITHIN = timedelta(days=1)
"""A bot that was set aside so long ago, or less, and is set aside again waits for a person."""

REASON_REMOVED = "What it said was removed when people were erased: it might have quoted them."

bot_set_aside = Signal()
"""Sent with `aside`, in the transaction that sets a bot aside."""
bot_came_back = Signal()
"""Sent with `aside`, in the transaction that ends it."""


def bot_answered(*, bot_id: str) -> None:
    """Store that the bot gave a reply; one that was disabled is enabled, unless it waits for a researcher."""
    now = timezone.now()
    is_known = BotHealth.objects.filter(
        bot_id=bot_id, n_failed=0, latest=[], answered_at__gt=now - timedelta(minutes=1)
    ).exists()
    if is_known:
        return
    with transaction.atomic():
        health = _locked(bot_id)
        health.answered_at = now
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
    """Store that a reply of the bot failed; one that keeps failing is disabled, once however many fail at a time.

    Args:
        chat: which one, so that one chat alone disables no bot.
    """
    now = timezone.now()
    with transaction.atomic():
        health = _locked(bot_id)
        health.n_failed += 1
        health.failed_at = now
        health.failed_since = health.failed_since or now
        reason = reason.removeprefix(f"{bot_id}: ")  # it is shown next to the bot's name
        health.reason = storable(reason, BotHealth._meta.get_field("reason").max_length)
        if chat not in health.failed_in and len(health.failed_in) < SET_ASIDE_CHATS:
            health.failed_in = [*health.failed_in, chat]
        health.latest = _with(health.latest, chat)
        if health.set_aside_at is None:
            _set_aside_if_due(health)
        health.save()


def bot_put_back(*, bot_id: str, by: User | None = None) -> bool:
    """Enable a bot that was disabled, and forget its failures; False if it was not disabled."""
    with transaction.atomic():
        health = BotHealth.objects.select_for_update().filter(bot_id=bot_id).first()
        if health is None or health.set_aside_at is None:
            return False
        aside = BotAside.objects.filter(bot_id=bot_id, ended_at=None).first()
        _back(health, aside, BotAside.EndedBy.PERSON, by)
        health.save()
    return True


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


def bot_reasons_forget(bot_ids: Collection[str]) -> None:
    """Remove these bots' error messages: a participant was erased, and the messages may quote them."""
    for rows in (BotHealth.objects, BotAside.objects):
        found = rows.filter(bot_id__in=bot_ids).exclude(reason="")
        found.update(reason=REASON_REMOVED)


def _locked(bot_id: str) -> BotHealth:
    BotHealth.objects.get_or_create(bot_id=bot_id)
    return BotHealth.objects.select_for_update().get(bot_id=bot_id)


def _with(latest: list[str], chat: str) -> list[str]:
    """Return the latest replies with one more: the chat that it failed in, or nothing; all of them good: none."""
    found = [*latest, chat][-settings.CONFAB_ASIDE_OF :]
    return found if any(found) else []


def _set_aside_if_due(health: BotHealth) -> None:
    """Disable the bot where one of the two rules says so."""
    failed = [chat for chat in health.latest if chat]
    in_a_row = health.n_failed >= settings.CONFAB_ASIDE_IN_A_ROW
    in_a_row = in_a_row and len(health.failed_in) >= SET_ASIDE_CHATS
    too_often = len(failed) >= settings.CONFAB_ASIDE_FAILED and len({*failed}) >= SET_ASIDE_CHATS
    if not in_a_row and not too_often:
        return
    now = timezone.now()
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


def _back(health: BotHealth, aside: BotAside | None, ended_by: str, by: User | None = None) -> None:
    """Enable a bot again: none of its earlier failures counts any more."""
    health.set_aside_at = health.try_at = health.failed_since = None
    health.n_tries = health.n_failed = 0
    health.failed_in, health.latest = [], []
    if aside is None:
        return
    aside.ended_at = timezone.now()
    aside.ended_by = ended_by
    aside.put_back_by = by
    aside.save(update_fields=["ended_at", "ended_by", "put_back_by"])
    bot_came_back.send(sender=BotAside, aside=aside)
