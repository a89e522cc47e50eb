"""Action items: unpaid participants, bots, interrupted jobs, waiting queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from webapp.bots.models import Alert
from webapp.bots.selectors import BotEntry, bot_entry_list, bots_aside
from webapp.conversations.heartbeats import heartbeat_bots
from webapp.core.clock import database_now
from webapp.core.language import plural
from webapp.core.project_scope import project_of_new_rows
from webapp.core.projects import projects_all
from webapp.insights.bots import bot_state
from webapp.insights.data_quality import distress_unseen, reports_unseen
from webapp.insights.project_usage import project_usage
from webapp.insights.system import queue_waits
from webapp.jobs.kinds.base import job_models
from webapp.jobs.models import State
from webapp.jobs.selectors.jobs import job_title
from webapp.operating.incidents import FAILED, find_problems
from webapp.operating.study_watch import FULL, find_study_problems
from webapp.pay.models import Decision, PlatformVisit
from webapp.pay.submissions import SETTLED
from webapp.studies.assignment.capacity import bots_beyond_cap
from webapp.studies.messages import messages_waiting
from webapp.studies.models import Outcome, Participant, Slot, Study, StudyVersion, Task
from webapp.studies.protocols.base import get_protocol
from webapp.studies.recruitment.completion import promises_pay

PAYING = ("prolific", "mturk", "panel")
"""Platforms on which researchers approve or reject work."""
_BEHIND = 3
"""A bot is slow if it has this many conversations fewer than the leading one."""
_TONES = ("bad", "warn", "info", "wait")
"""Most urgent first."""

_WAITS_DAYS = 3
"""Days after which a missing decision is overdue; platforms expect one within days."""


@dataclass(frozen=True, slots=True)
class ActionItem:
    """Matter that needs a researcher's attention.

    A page shows it as bold words, further text and a link.

    Attributes:
        tone: bad, warn, info, or wait (nothing is wrong, but something is still to come).
        href: name of the page, arguments of its address, and the query.
    """

    tone: str
    lead: str
    rest: str
    action: str
    href: tuple[str, dict[str, str], str]

    @property
    def address(self) -> str:
        """Address of the action, with its query."""
        route, parts, query = self.href
        return reverse(route, kwargs=parts) + (f"?{query}" if query else "")


def action_items(*, may_pay: bool = True) -> list[ActionItem]:
    """Return action items of all collecting studies, the most urgent first.

    Args:
        may_pay: as in `pay_action_items`.
    """
    items: list[ActionItem] = []
    items += pay_action_items(may_pay=may_pay)
    items += pay_waits() if may_pay else []
    items += alert_action_items()
    items += _system()
    collecting = list(Study.objects.select_related("project").filter(state=Study.State.COLLECTING))
    entries = {entry.id: entry for entry in bot_entry_list()}
    items += _unavailable(collecting, entries)
    items += [
        ActionItem(
            "warn",
            ", ".join(beyond),
            f"has reached its cost limit in {study.name}.",
            "See cost",
            ("dashboard:study", {"key": study.key}, ""),
        )
        for study in collecting
        if (beyond := bots_beyond_cap(study))
    ]
    items += watch_action_items(collecting, is_named=True)
    items += _behind(collecting)
    items += _reported()
    items += _limits()
    since = database_now() - timedelta(days=2)
    items += [
        ActionItem(
            "warn",
            job_title(job),
            "was interrupted: its process ended and no other process has continued it.",
            "See job",
            ("dashboard:job", {"kind": job.kind, "pk": job.pk}, ""),
        )
        for model in job_models()
        for job in model._default_manager.filter(state=State.INTERRUPTED, ended_at__gte=since)
    ]
    n_failed = sum(
        model._default_manager.filter(state=State.FAILED, ended_at__gte=since).count() for model in job_models()
    )
    if n_failed:
        items.append(
            ActionItem(
                "bad",
                plural(n_failed, "%(n)d job", "%(n)d jobs") % {"n": n_failed},
                "failed in the last two days.",
                "See jobs",
                ("dashboard:jobs", {}, ""),
            )
        )
    return sorted(items, key=lambda item: _TONES.index(item.tone))


def watch_action_items(studies: Sequence[Study], *, is_named: bool = False) -> list[ActionItem]:
    """Return action items about open studies that are full, stuck or slow.

    Args:
        is_named: True to name the study.
    """
    return [
        ActionItem(
            "info" if problem.kind == FULL else "warn",
            f"{problem.study.name}: {problem.lead}" if is_named else problem.lead,
            problem.rest,
            "See people" if is_named else "Settings",
            ("dashboard:study_people", {"key": problem.study.key}, "")
            if is_named
            else ("dashboard:study_build_step", {"key": problem.study.key, "step": "pay"}, ""),
        )
        for problem in find_study_problems(studies)
    ]


def _limits() -> list[ActionItem]:
    """Return an action item for each limit of the active project that is reached or nearly reached."""
    limited = projects_all(project_of_new_rows()).exclude(monthly_cost_limit=None, disk_limit_mb=None)
    return [
        ActionItem(
            "bad" if is_reached else "warn", usage.project.name, words, "See limits", ("dashboard:projects", {}, "")
        )
        for usage in project_usage(limited)
        for is_reached, words in usage.warnings
    ]


def pay_action_items(*, may_pay: bool, study: Study | None = None) -> list[ActionItem]:
    """Return one action item per study about undecided pay.

    Participants lost a chat to a bot and have no code, neither from it nor from a later chat; or a platform waits for a
    decision about a visit that ended early.

    Args:
        may_pay: whether the user may decide about pay; else they see the chats.
        study: this study only, without its name; None: all studies.
    """
    people = Participant.objects.filter(is_synthetic=False)
    if study is not None:
        people = people.filter(study=study)
    failed_in = StudyVersion.objects.filter(tasks__state=Task.State.FAILED).distinct()
    promising = [version.pk for version in failed_in.only("values") if promises_pay(version.values)]
    lost = (
        people.filter(tasks__state=Task.State.FAILED, tasks__version__in=promising)
        .exclude(tasks__completion_code__isnull=False)
        .exclude(tasks__state=Task.State.OPEN)
    )
    early = _undecided().filter(
        outcome=Outcome.BOT_FAILED, participant__platform__in=PAYING, participant__is_synthetic=False
    )
    if study is not None:
        early = early.filter(participant__study=study)
    n_people_by_study = Counter[int]()
    for pk, n in lost.order_by().values_list("study").annotate(n=Count("pk", distinct=True)):
        n_people_by_study[pk] = n
    undecided = early.order_by().values_list("participant__study")
    for pk, n in undecided.annotate(n=Count("participant", distinct=True)):
        n_people_by_study[pk] += n
    names = Study.objects.in_bulk(list(n_people_by_study))
    items = []
    for pk, n in n_people_by_study.most_common():
        href = (
            ("dashboard:study_people", {"key": names[pk].key}, "show=ours")
            if may_pay
            else ("dashboard:study_conversations", {"key": names[pk].key}, "state=failed")
        )
        items.append(
            ActionItem(
                "warn",
                plural(n, "%(n)d person", "%(n)d people") % {"n": n},
                "lost a chat to a bot failure and should be paid."
                if study is not None
                else f"lost a chat to a bot failure in {names[pk].name} and should be paid.",
                "Decide about pay" if may_pay else "Review",
                href,
            )
        )
    return items


def pay_waits(study: Study | None = None) -> list[ActionItem]:
    """Return action items about late or unsent decisions on pay.

    Args:
        study: this study only, without its name; None: all that are not archived.
    """
    among = Q(participant__study__archived_at=None)
    if study is not None:
        among = Q(participant__study=study)
    unsent = Decision.objects.filter(among, state__in=(Decision.State.FAILED, Decision.State.UNSURE))
    waiting = tasks_waiting(among).filter(ended_at__lt=database_now() - timedelta(days=_WAITS_DAYS))
    n_unsent = dict(unsent.order_by().values_list("participant__study").annotate(n=Count("pk")))
    n_waiting = dict(
        waiting.order_by().values_list("participant__study").annotate(n=Count("participant", distinct=True))
    )
    studies = Study.objects.in_bulk([*n_unsent, *n_waiting])
    items = [
        ActionItem(
            "warn",
            plural(n, "%(n)d decision", "%(n)d decisions") % {"n": n},
            "on pay could not be sent." if study is not None else f"on pay in {studies[pk].name} could not be sent.",
            "See why",
            ("dashboard:study_people", {"key": studies[pk].key}, "show=failed"),
        )
        for pk, n in n_unsent.items()
    ]
    items += [
        ActionItem(
            "info",
            plural(n, "%(n)d person", "%(n)d people") % {"n": n},
            _waiting_said(n, "" if study is not None else studies[pk].name),
            "Decide about pay",
            ("dashboard:study_people", {"key": studies[pk].key}, ""),
        )
        for pk, n in n_waiting.items()
    ]
    return items


def tasks_waiting(among: Q) -> QuerySet[Task]:
    """Return the finished tasks whose platform waits for a decision on pay."""
    return _undecided().filter(
        among, outcome=Outcome.RATED, participant__platform__in=PAYING, participant__is_synthetic=False
    )


def _waiting_said(n: int, study: str) -> str:
    """Describe how many participants have waited for days, optionally naming the study."""
    finished = f"finished {study}" if study else "finished"
    return f"{finished} more than {_WAITS_DAYS} days ago and {plural(n, 'waits', 'wait')} for a decision on pay."


def alert_action_items() -> list[ActionItem]:
    """Return action items about recent alerts that could not be sent.

    Alerts of the last two days are included.
    """
    since = database_now() - timedelta(days=2)
    failed = Alert.objects.filter(sent_at=None, created_at__gte=since).exclude(error="")
    return [
        ActionItem(
            "warn",
            alert.aside.bot_id if alert.aside else str(alert.get_event_display()),
            f"triggered an alert, but the {str(alert.get_channel_display()).lower()} could not be sent: {alert.error}.",
            "See the bot" if alert.aside else "See the system",
            ("dashboard:bot", {"bot_id": alert.aside.bot_id}, "") if alert.aside else ("dashboard:system", {}, ""),
        )
        for alert in failed.select_related("aside").order_by("-created_at")[:3]
    ]


def _system() -> list[ActionItem]:
    """Return action items about the installation and waiting queues.

    Failed jobs have their own action items.
    """
    page: tuple[str, dict[str, str], str] = ("dashboard:system", {}, "")
    open_problems = [problem for problem in find_problems() if problem.kind != FAILED]
    problem_items = [
        ActionItem("bad", f"{problem.title}.", problem.words, "See the system", page) for problem in open_problems
    ]
    problem_keys = {(problem.kind, problem.subject) for problem in open_problems}
    return problem_items + [
        ActionItem("warn", "", words, "See the system", page) for words in queue_waits(problem_keys)
    ]


def _reported() -> list[ActionItem]:
    """Return action items about unseen reports and messages, for any study state."""
    studies = {study.pk: study for study in Study.objects.filter(archived_at=None)}
    every = list(studies.values())
    people = Q(participant__study__in=every, participant__is_synthetic=False)
    reports = ("reply", "replies", "of {} reported by participants and not reviewed yet.", "See reports", "reported")
    distress = ("message", "messages", "in {} with signs of distress, not seen yet.", "See chats", "all")
    written = ("message", "messages", "from participants of {} not answered yet.", "Answer", "wrote")
    return [
        ActionItem(
            "warn",
            plural(n, f"%(n)d {noun}", f"%(n)d {nouns}") % {"n": n},
            rest.format(studies[pk].name),
            action,
            ("dashboard:study_people", {"key": studies[pk].key}, f"show={show}"),
        )
        for counts, (noun, nouns, rest, action, show) in (
            (distress_unseen(every), distress),
            (reports_unseen(every), reports),
            (messages_waiting(people, column="participant__study"), written),
        )
        for pk, n in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _unavailable(studies: Sequence[Study], entries: dict[str, BotEntry]) -> list[ActionItem]:
    """Return action items about failing, unassigned or missing bots of open studies.

    Studies that are left without any bot are included.
    """
    studies = [study for study in studies if get_protocol(study).talks_to_bots]
    reports = heartbeat_bots()
    items: list[ActionItem] = []
    asides = bots_aside()
    missing: dict[str, None] = {}
    for study in studies:
        is_offered = [bot_id in entries and bot_state(entries[bot_id], reports).is_offered for bot_id in study.bots]
        if not any(is_offered):
            items.append(
                ActionItem(
                    "bad",
                    study.name,
                    "cannot give participants a chatbot, because none of its bots is available.",
                    "See why",
                    ("dashboard:study", {"key": study.key}, ""),
                )
            )
        missing.update(dict.fromkeys(b for b in study.bots if b not in entries))
    for bot_id in sorted({bot_id for study in studies for bot_id in study.bots} - set(missing)):
        state = bot_state(entries[bot_id], reports)
        if state.reason:
            # A failing bot is still assigned, so this suggests a look, not a repair.
            if state.is_offered:
                rest = f"{state.reason}."
            elif entries[bot_id].is_set_aside:
                aside = asides.get(bot_id)
                sentence = (
                    "{trouble}; new participants do not get it until you re-enable it."
                    if aside is not None and aside.needs_person
                    else "{trouble}; new participants do not get it until it replies successfully."
                )
                rest = sentence.format(trouble=state.reason)
            else:
                rest = f"is not assigned to participants: {state.reason}."
            href = ("dashboard:bot", {"bot_id": bot_id}, "")
            items.append(ActionItem(state.tone, bot_id, rest, "See the bot", href))
    if missing:
        rest = plural(
            len(missing),
            "is used in a collecting study, but is not registered on this server.",
            "are used in collecting studies, but are not registered on this server.",
        )
        names = ", ".join(sorted(missing))
        items.append(ActionItem("bad", names, rest, "See bots", ("dashboard:bots", {}, "")))
    return items


def _behind(studies: Iterable[Study]) -> list[ActionItem]:
    studies = [study for study in studies if get_protocol(study).talks_to_bots]
    counts: dict[int, dict[str, int]] = {study.pk: {} for study in studies}
    for row in (
        Slot.objects.filter(
            task__participant__study__in=studies,
            task__participant__is_synthetic=False,
            task__state=Task.State.COMPLETED,
        )
        .order_by()
        .values("task__participant__study", "bot_id")
        .annotate(n=Count("pk"))
    ):
        counts[row["task__participant__study"]][row["bot_id"]] = row["n"]
    items = []
    for study in studies:
        late = bot_behind({bot_id: counts[study.pk].get(bot_id, 0) for bot_id in study.bots})
        if late is not None:
            bot_id, gap = late
            items.append(
                ActionItem(
                    "info",
                    bot_id,
                    f"is {gap} conversations behind the other bots of {study.name}.",
                    "See people",
                    ("dashboard:study_people", {"key": study.key}, ""),
                )
            )
    return items


def bot_behind(counts: Mapping[str, int]) -> tuple[str, int] | None:
    """Return the bot with the fewest conversations, and how many it lacks.

    None if counts are nearly even, or so small that chance alone makes them uneven.
    """
    leading_count = max(counts.values(), default=0)
    late = {bot_id: leading_count - n for bot_id, n in counts.items() if leading_count - n >= _BEHIND}
    if not late or leading_count < 2 * _BEHIND:
        return None
    return max(late.items(), key=lambda item: item[1])


def _undecided() -> QuerySet[Task]:
    """Return the tasks of undecided visits.

    A bonus is not a decision.
    """
    verdicts = Decision.objects.filter(participant=OuterRef("participant"), submission=OuterRef("submission")).exclude(
        Q(state=Decision.State.UNDONE) | Q(action=Decision.Action.BONUS)
    )
    settled = PlatformVisit.objects.filter(
        study=OuterRef("participant__study"), submission=OuterRef("submission"), status__in=SETTLED
    )
    return Task.objects.filter(~Exists(verdicts), ~Exists(settled))
