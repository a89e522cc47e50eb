"""Matters that need a researcher in one study: disabled bots, and undecided pay."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils import timezone

from webapp.core.speaking import plural
from webapp.dashboard.live.bots import LiveBot
from webapp.dashboard.needs import pay_needs
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing: bold words, the rest, the way there; `bot_id` of a bot that can be put back."""

    lead: str
    rest: str
    action: str
    href: str
    bot_id: str = ""


def things_of(study: Study, bots: list[LiveBot], *, may_pay: bool) -> list[Thing]:
    """Return the matters in the study that need a researcher."""
    found = [_aside(bot) for bot in bots if bot.aside is not None]
    for need in pay_needs(may_pay=may_pay, study=study):
        found.append(Thing(need.lead, need.rest, need.action, need.address))
    return found


def _aside(bot: LiveBot) -> Thing:
    aside = bot.aside
    assert aside is not None
    began = timezone.localtime(aside.began_at)
    since = f"{began:%H:%M}" if began.date() == timezone.localdate() else f"{began.day} {began:%b}"
    said = [
        f"It failed {aside.n_failed} of its latest {aside.of_n} replies."
        if aside.of_n
        else plural(
            aside.n_failed, "It failed %(n)d time in a row.", "It failed %(n)d times in a row."
        )
        % {"n": aside.n_failed},
        "Nobody new meets it, and whoever has it may take another one or finish early.",
        "It waits for you to put it back."
        if aside.needs_person
        else "It comes back by itself once a reply works.",
        bot.told,
    ]
    return Thing(
        f"{bot.info.title} is set aside since {since}.",
        " ".join(one for one in said if one),
        "See its errors and try it",
        reverse("dashboard:bot", args=[bot.info.bot_id]),
        bot.info.bot_id,
    )
