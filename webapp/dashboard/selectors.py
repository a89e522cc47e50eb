"""What the dashboard's pages count: studies with their progress, what needs a person, what runs.

Every page makes a constant number of queries, however many studies, bots or conversations there are.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, Max, Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from evaluation.metrics.registry import metric_list
from webapp.bots.selectors import BotEntry, bot_entry_list
from webapp.conversations.models import Conversation
from webapp.ratings.summary import study_bots, study_conversations
from webapp.runs.models import HybridFit, Job, MetricResult, MetricRun, SelfPlayRun
from webapp.studies.models import Assignment, Participant, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import bots_beyond_cap

_PILLS = {
    Study.State.DRAFT: "",
    Study.State.COLLECTING: "good",
    Study.State.PAUSED: "warn",
    Study.State.ENDED: "info",
}
JOB_PILLS = {
    Job.State.QUEUED: "",
    Job.State.RUNNING: "info",
    Job.State.DONE: "good",
    Job.State.CANCELLED: "warn",
    Job.State.FAILED: "bad",
}
_DURATIONS = 2000
"""The median time is that of so many newest conversations."""
_BEHIND = 3
"""A bot is behind with so many conversations fewer than the leading one."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in the list. `latest` is in words."""

    study: Study
    protocol: str
    pill: str
    state: str
    n_completed: int
    n_wanted: int
    n_bots: int
    latest: str


@dataclass(frozen=True, slots=True)
class Need:
    """Something a person should look at: bold words, the rest, one way there."""

    tone: str
    lead: str
    rest: str
    action: str
    href: tuple[str, dict[str, str], str]


@dataclass(frozen=True, slots=True)
class Running:
    """A job under way."""

    title: str
    n_done: int
    n_total: int
    state: str
    route: tuple[str, list[object]]


@dataclass(frozen=True, slots=True)
class StudyCards:
    """The four numbers above a study's pages; None where there is nothing to say."""

    n_completed: int
    n_wanted: int
    n_people: int
    left_early: float | None
    mean_exchanges: float | None
    median_s: float | None


def study_state(study: Study) -> tuple[str, str]:
    """The state in a word, and its colour."""
    if study.is_imported:
        return _("Imported"), "info"
    return study.get_state_display(), _PILLS[Study.State(study.state)]


def study_rows() -> list[StudyRow]:
    """All studies, newest first."""
    counted: dict[int, dict[str, Any]] = {
        row["study"]: row  # type: ignore[misc]
        for row in Conversation.objects.filter(study__isnull=False)
        .exclude(source=Conversation.Source.SELFPLAY)
        .values("study")
        .annotate(
            n=Count("pk", filter=Q(state=Conversation.State.COMPLETED, is_synthetic=False)),
            n_bots=Count("bot__bot_id", distinct=True),
            latest=Max("created_at"),
        )
    }
    titles = {protocol.name: protocol.title for protocol in protocols}
    rows = []
    for study in Study.objects.order_by("-created_at"):
        found: dict[str, Any] = counted.get(study.pk, {})
        state, pill = study_state(study)
        rows.append(
            StudyRow(
                study=study,
                protocol=_("Imported ratings")
                if study.is_imported
                else titles.get(study.protocol, study.protocol),
                pill=pill,
                state=state,
                n_completed=found.get("n", 0),
                n_wanted=study.n_conversations_wanted,
                n_bots=max(len(study.bots), found.get("n_bots", 0)),
                latest=_latest(study, found.get("latest")),
            )
        )
    return rows


def _latest(study: Study, newest: datetime | None) -> str:
    if study.is_imported:
        return _("imported {when}").format(when=ago(newest or study.created_at))
    if newest is None:
        return _("not launched") if study.state == Study.State.DRAFT else _("no chat yet")
    if study.state == Study.State.PAUSED:
        return _("paused {when}").format(when=ago(study.updated_at))
    if study.state == Study.State.ENDED:
        return _("ended {when}").format(when=ago(study.updated_at))
    return _("last chat {when}").format(when=ago(newest))


def ago(when: datetime) -> str:
    """How long ago, or the day if long ago."""
    gone = timezone.now() - when
    if gone < timedelta(minutes=1):
        return _("just now")
    if gone < timedelta(hours=1):
        n = int(gone.total_seconds() // 60)
        return _("{n} min ago").format(n=n)
    if gone < timedelta(days=1):
        n = int(gone.total_seconds() // 3600)
        return _("{n} h ago").format(n=n)
    if gone < timedelta(days=7):
        return ngettext("%(n)d day ago", "%(n)d days ago", gone.days) % {"n": gone.days}
    return f"{when.day} {when:%b}" + ("" if when.year == timezone.now().year else f" {when:%Y}")


def needs() -> list[Need]:
    """What needs a person, over all studies that collect."""
    found: list[Need] = []
    found += _unpaid()
    collecting = list(Study.objects.filter(state=Study.State.COLLECTING))
    entries = {entry.id: entry for entry in bot_entry_list()}
    found += _unavailable(collecting, entries)
    found += [
        Need(
            "warn",
            ", ".join(beyond),
            _("cannot go on in {study}: its cap on cost is reached.").format(study=study.name),
            _("See cost"),
            ("dashboard:study", {"key": study.key}, ""),
        )
        for study in collecting
        if (beyond := bots_beyond_cap(study))
    ]
    found += _behind(collecting)
    since = timezone.now() - timedelta(days=2)
    n_failed = sum(
        model.objects.filter(state=Job.State.FAILED, ended_at__gte=since).count()
        for model in (SelfPlayRun, MetricRun, HybridFit)
    )
    if n_failed:
        found.append(
            Need(
                "bad",
                ngettext("%(n)d job", "%(n)d jobs", n_failed) % {"n": n_failed},
                _("failed in the last two days."),
                _("See jobs"),
                ("dashboard:runs", {}, ""),
            )
        )
    return found


def _unpaid() -> list[Need]:
    """People who lost a chat to a bot and have no code from it or from a chat after it."""
    lost = (
        Participant.objects.filter(
            is_synthetic=False,
            assignments__state=Assignment.State.FAILED,
            study__promises_pay_on_failure=True,
        )
        .exclude(assignments__completion_code__isnull=False)
        .exclude(assignments__state=Assignment.State.OPEN)
        .values("study__key", "study__name")
        .annotate(n=Count("pk", distinct=True))
        .order_by("-n")
    )
    return [
        Need(
            "warn",
            ngettext("%(n)d person", "%(n)d people", row["n"]) % {"n": row["n"]},
            _("lost a chat to a bot failure in {study} and should be paid.").format(
                study=row["study__name"]
            ),
            _("Review"),
            ("dashboard:study_conversations", {"key": row["study__key"]}, "state=failed"),
        )
        for row in lost
    ]


def _unavailable(studies: Iterable[Study], entries: dict[str, BotEntry]) -> list[Need]:
    missing: dict[str, None] = {}
    broken: dict[str, str] = {}
    for study in studies:
        for bot_id in study.bots:
            entry = entries.get(bot_id)
            if entry is None:
                missing[bot_id] = None
            elif entry.reason:
                broken[bot_id] = _("is offered to nobody: {reason}").format(reason=entry.reason)
    found = [
        Need("bad", bot_id, why, _("See bots"), ("dashboard:bots", {}, ""))
        for bot_id, why in sorted(broken.items())
    ]
    if missing:
        why = ngettext(
            "is in a collecting study, but no bot of this name is registered here.",
            "are in collecting studies, but no bots of these names are registered here.",
            len(missing),
        )
        names = ", ".join(sorted(missing))
        found.append(Need("bad", names, why, _("See bots"), ("dashboard:bots", {}, "")))
    return found


def _behind(studies: Iterable[Study]) -> list[Need]:
    studies = list(studies)
    counts: dict[int, dict[str, int]] = {study.pk: {} for study in studies}
    for row in (
        Assignment.objects.filter(
            participant__study__in=studies,
            participant__is_synthetic=False,
            state=Assignment.State.COMPLETED,
        )
        .values("participant__study", "bot_id")
        .annotate(n=Count("pk"))
    ):
        counts[row["participant__study"]][row["bot_id"]] = row["n"]
    found = []
    for study in studies:
        of_bots = {bot_id: counts[study.pk].get(bot_id, 0) for bot_id in study.bots}
        most = max(of_bots.values(), default=0)
        late = {bot_id: most - n for bot_id, n in of_bots.items() if most - n >= _BEHIND}
        # Few chats are unevenly spread by chance alone.
        if late and most >= 2 * _BEHIND:
            bot_id, gap = max(late.items(), key=lambda item: item[1])
            found.append(
                Need(
                    "info",
                    bot_id,
                    _("is {n} conversations behind the other bots of {study}.").format(
                        n=gap, study=study.name
                    ),
                    _("See places"),
                    ("dashboard:study", {"key": study.key}, ""),
                )
            )
    return found


def running() -> list[Running]:
    """Jobs waiting or under way, oldest first."""
    live = (Job.State.QUEUED, Job.State.RUNNING)
    found = [
        Running(
            run.name or _("Self-play {n}").format(n=run.pk),
            run.n_done,
            run.n_total,
            run.get_state_display(),
            ("dashboard:run", [run.pk]),
        )
        for run in SelfPlayRun.objects.filter(state__in=live).order_by("pk")
    ]
    for metric_run in (
        MetricRun.objects.filter(state__in=live).select_related("study", "run").order_by("pk")
    ):
        study, run = metric_run.study, metric_run.run
        route: tuple[str, list[object]] = ("dashboard:metrics", [])
        name = str(metric_run)
        if study is not None:
            name, route = study.name, ("dashboard:study_metrics", [study.key])
        elif run is not None:
            name, route = str(run), ("dashboard:run", [run.pk])
        found.append(
            Running(
                _("Metrics for {name}").format(name=name),
                metric_run.n_done,
                metric_run.n_total,
                metric_run.get_state_display(),
                route,
            )
        )
    found += [
        Running(
            _("Hybrid metric for {name}").format(name=fit.study.name),
            fit.n_done,
            fit.n_total,
            fit.get_state_display(),
            ("dashboard:study_hybrid", [fit.study.key]),
        )
        for fit in HybridFit.objects.filter(state__in=live).select_related("study").order_by("pk")
    ]
    return found


def study_cards(study: Study, *, include_synthetic: bool = False) -> StudyCards:
    """Conversations, people, length and time of a study."""
    conversations = study_conversations(study, include_synthetic=include_synthetic)
    counted = conversations.aggregate(n=Count("pk"), mean=Avg("n_exchanges"))
    durations = [
        (ended - started).total_seconds()
        for started, ended in conversations.filter(
            source=Conversation.Source.CHAT, ended_at__isnull=False
        )
        .order_by("-created_at")
        .values_list("created_at", "ended_at")[:_DURATIONS]
        if ended is not None
    ]
    people = Participant.objects.filter(study=study)
    if not include_synthetic:
        people = people.filter(is_synthetic=False)
    gone = (Assignment.State.WITHDRAWN, Assignment.State.EXPIRED)
    assigned = Assignment.objects.filter(participant__in=people).aggregate(
        over=Count("pk", filter=~Q(state=Assignment.State.OPEN)),
        left=Count("pk", filter=Q(state__in=gone)),
    )
    return StudyCards(
        n_completed=counted["n"],
        n_wanted=study.n_conversations_wanted,
        n_people=people.count(),
        left_early=assigned["left"] / assigned["over"] if assigned["over"] else None,
        mean_exchanges=counted["mean"],
        median_s=statistics.median(durations) if durations else None,
    )


@dataclass(frozen=True, slots=True)
class BotProgress:
    """Conversations of one bot of a study by state."""

    title: str
    bot_id: str
    slot: int
    is_control: bool
    n_completed: int
    n_open: int
    n_failed: int
    n_withdrawn: int
    reason: str


def bot_progress(study: Study, *, include_synthetic: bool = False) -> list[BotProgress]:
    """How far each bot of the study is."""
    rows = Conversation.objects.filter(study=study).exclude(source=Conversation.Source.SELFPLAY)
    if not include_synthetic:
        rows = rows.filter(is_synthetic=False)
    counts: dict[tuple[str, str], int] = {}
    for bot_id, state, n in (
        rows.values_list("bot__bot_id", "state").annotate(n=Count("pk")).order_by()
    ):
        counts[bot_id, state] = counts.get((bot_id, state), 0) + n
    entries = {} if study.is_imported else {entry.id: entry for entry in bot_entry_list()}
    beyond = bots_beyond_cap(study)
    state = Conversation.State
    found = []
    for bot in study_bots(study).values():
        entry = entries.get(bot.bot_id)
        reason = ""
        if not study.is_imported and bot.bot_id in study.bots:
            reason = (entry.reason or "") if entry else _("no bot of this name is here")
            reason = reason or beyond.get(bot.bot_id, "")
        found.append(
            BotProgress(
                bot.title,
                bot.bot_id,
                bot.slot,
                bot.is_control,
                counts.get((bot.bot_id, state.COMPLETED), 0),
                counts.get((bot.bot_id, state.OPEN), 0),
                counts.get((bot.bot_id, state.FAILED), 0),
                counts.get((bot.bot_id, state.WITHDRAWN), 0),
                reason,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class MetricProgress:
    """How many conversations of a study one metric has measured."""

    name: str
    title: str
    n_done: int
    n_total: int
    n_old: int
    reason: str
    columns: int
    on_request: bool


def metrics_progress(study: Study) -> list[MetricProgress]:
    """Each metric's present version on the study's finished conversations."""
    metrics = metric_list()
    finished = Conversation.objects.filter(study=study, state=Conversation.State.COMPLETED)
    n_total = finished.count()
    counts: dict[str, int] = {}
    old: dict[str, int] = {}
    keys = {metric.name: metric.identity.key for metric in metrics}
    for row in (
        MetricResult.objects.filter(conversation__in=finished)
        .values("metric__name", "metric__key")
        .annotate(n=Count("pk"))
    ):
        name = row["metric__name"]
        if keys.get(name) == row["metric__key"]:
            counts[name] = row["n"]
        else:
            old[name] = old.get(name, 0) + row["n"]
    return [
        MetricProgress(
            metric.name,
            metric.title,
            counts.get(metric.name, 0),
            n_total,
            old.get(metric.name, 0),
            metric.unavailable_reason() or "",
            len(metric.columns),
            not getattr(metric, "default", True),
        )
        for metric in metrics
    ]


def imported_studies() -> list[Study]:
    """Studies that an import made, newest first, with `n_conversations`."""
    return list(
        Study.objects.filter(is_imported=True)
        .annotate(n_conversations=Count("conversations", distinct=True))
        .order_by("-created_at")[:20]
    )


def study_runs(study: Study) -> list[SelfPlayRun]:
    """The newest self-play runs with bots of the study."""
    bots = set(study.bots)
    return [run for run in SelfPlayRun.objects.all()[:200] if bots & set(run.plan.get("bots", []))]
