"""Matters that need a researcher in one study: pay, flags, reports, failing bots, missing work.

Conversations are not counted again: the overview's cards and the progress of its bots have them.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Exists, OuterRef, Q

from webapp.core.speaking import plural
from webapp.dashboard.needs import Need, bot_behind, pay_needs, pay_waits, tasks_waiting
from webapp.dashboard.reports import reports_unseen
from webapp.dashboard.selectors import BotProgress, StudyCards
from webapp.quality.models import TaskFlag
from webapp.studies.models import Study
from webapp.studies.selectors import talks_to_bots


def study_needs(
    study: Study, cards: StudyCards, progress: Sequence[BotProgress], *, may_pay: bool
) -> list[Need]:
    """Return the matters in the study that need a researcher, the most urgent first.

    Args:
        cards, progress: as the overview shows them.
        may_pay: whether the user may open the page Pay.
    """
    found = pay_needs(may_pay=may_pay, study=study)
    if may_pay:
        found += [*_flagged(study), *pay_waits(study)]
    if n_reports := reports_unseen([study]).get(study.pk, 0):
        found.append(
            Need(
                "warn",
                plural(n_reports, "%(n)d reply", "%(n)d replies") % {"n": n_reports},
                "reported by people, and not looked at yet.",
                "See reports",
                ("dashboard:study_reports", {"key": study.key}, ""),
            )
        )
    if study.state == Study.State.COLLECTING and not study.is_imported:
        bots = _bots(study, progress) if talks_to_bots(study) else []
        found += [*bots, *_to_come(study, cards, progress)]
    return found


def _flagged(study: Study) -> list[Need]:
    """Return a need about those whose work has a flag, and about whose pay nobody has decided."""
    flags = TaskFlag.objects.filter(task=OuterRef("pk"))
    tasks = tasks_waiting(Q(participant__study=study)).filter(Exists(flags))
    n = tasks.order_by().values("participant").distinct().count()
    if not n:
        return []
    return [
        Need(
            "warn",
            plural(n, "%(n)d person", "%(n)d people") % {"n": n},
            plural(n, "has flags and waits for pay.", "have flags and wait for pay."),
            "Look at them",
            ("dashboard:study_pay", {"key": study.key}, "show=look"),
        )
    ]


def _bots(study: Study, progress: Sequence[BotProgress]) -> list[Need]:
    """Return needs about bots that fail or are offered to nobody."""
    return [
        Need(
            "warn",
            bot.title,
            f"{bot.reason}."
            if bot.is_offered
            else f"is offered to nobody: {bot.reason}. People are given the others meanwhile.",
            "See the bot",
            ("dashboard:bot", {"bot_id": bot.bot_id}, ""),
        )
        for bot in progress
        if bot.reason and bot.bot_id in study.bots
    ]


def _to_come(study: Study, cards: StudyCards, progress: Sequence[BotProgress]) -> list[Need]:
    """Return a need about what the plan still lacks, and about a bot that lags behind."""
    n_left = max(cards.n_wanted - cards.n_completed, 0)
    counts = {bot.title: bot.n_completed for bot in progress if bot.bot_id in study.bots}
    late = bot_behind(counts) if talks_to_bots(study) else None
    if not n_left and late is None:
        return []
    behind = ""
    if late is not None:
        behind = f"{late[0]} is {late[1]} behind."
    live = ("dashboard:study_live", {"key": study.key}, "")
    if not n_left:
        places = ("dashboard:study_places", {"key": study.key}, "")
        return [Need("wait", "", behind, "See places", places)]
    lead = plural(n_left, "%(n)s chat", "%(n)s chats")
    if not talks_to_bots(study):
        lead = plural(n_left, "%(n)s task", "%(n)s tasks")
    rest = plural(n_left, "is still to come.", "are still to come.")
    return [
        Need("wait", lead % {"n": f"{n_left:,}"}, f"{rest} {behind}".strip(), "Live room", live)
    ]
