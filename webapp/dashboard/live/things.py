"""Matters that need a researcher in one study: disabled bots, and undecided pay."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

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
        _("It failed {n} of its latest {of} replies.").format(n=aside.n_failed, of=aside.of_n)
        if aside.of_n
        else ngettext(
            "It failed %(n)d time in a row.", "It failed %(n)d times in a row.", aside.n_failed
        )
        % {"n": aside.n_failed},
        _("Nobody new meets it, and whoever has it may take another one or finish early."),
        _("It waits for you to put it back.")
        if aside.needs_person
        else _("It comes back by itself once a reply works."),
        bot.told,
    ]
    return Thing(
        _("{bot} is set aside since {since}.").format(bot=bot.info.title, since=since),
        " ".join(one for one in said if one),
        _("See its errors and try it"),
        reverse("dashboard:bot", args=[bot.info.bot_id]),
        bot.info.bot_id,
    )
