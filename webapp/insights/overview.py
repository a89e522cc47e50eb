"""Content of a study's overview: pipeline, findings, and action items.

Outdated fits and current reports are determined as on their own pages. Conversations are counted once, for the
overview's cards and its bots' progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, Exists, Max, OuterRef, Q
from django.db.models.functions import Coalesce
from django.urls import reverse

from evaluation.analysis.leaderboard import LeaderboardEntry, leaderboard
from evaluation.number_format import digits_for, figure, span
from webapp.bots.selectors import bot_available_ids, bots_find
from webapp.conversations.models import Conversation
from webapp.core.language import plural
from webapp.insights.action_items import (
    ActionItem,
    bot_behind,
    pay_action_items,
    pay_waits,
    tasks_waiting,
    watch_action_items,
)
from webapp.insights.data_quality import reports_unseen
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import listed
from webapp.insights.narrative.verdicts import NOT_YET_KNOWN
from webapp.insights.report_files import report_newest, report_state
from webapp.insights.selectors import BotProgress, StudyCards, study_runs
from webapp.jobs.models import HybridFit, Job, JobBase, MetricRun, SelfPlayRun, State
from webapp.jobs.selectors.fits import fit_is_behind, fit_leading
from webapp.jobs.selectors.metrics import metrics_find
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.models import Rating
from webapp.results.study_data import StudyFrame
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol


@dataclass(frozen=True, slots=True)
class DefaultMetricsState:
    """Progress of the default metrics.

    Attributes:
        job: the newest job for any of them.
        n_done: number of default metrics that a job has computed.
        n_since: finished conversations that are newer than the oldest of these jobs.
    """

    job: MetricRun | None
    n_done: int
    n_usual: int
    n_since: int
    done_at: datetime | None


@dataclass(frozen=True, slots=True)
class PipelineData:
    """Data of the pipeline on the overview."""

    study: Study
    n_chats: int
    n_wanted: int
    rated_bots: int
    playable: tuple[str, ...]
    collected_at: datetime | None
    measured: DefaultMetricsState
    played: SelfPlayRun | None
    replaced: tuple[str, ...]
    fit: HybridFit | None
    asked_fit: HybridFit | None
    is_behind: bool
    n_unfitted: int
    report: Job | None
    report_is_current: bool

    @property
    def failed(self) -> JobBase | None:
        """Failed or stopped job that leaves something missing or outdated."""
        played, measured, fit = self.played, self.measured.job, self.asked_fit
        is_past = played and self.fit and played.created_at < self.fit.created_at
        if played is not None and played.can_go_on and not is_past:
            return played
        if measured is not None and measured.can_go_on and not self.is_measured:
            return measured
        if fit is not None and fit.can_go_on and not self.is_fitted:
            return fit
        return None

    @property
    def running(self) -> JobBase | None:
        """A job that is running."""
        jobs = (self.played, self.measured.job, self.asked_fit)
        return next((job for job in jobs if job is not None and not job.is_over), None)

    @property
    def is_measured(self) -> bool:
        """True if every finished conversation has every default metric."""
        measured = self.measured
        return bool(self.n_chats) and measured.n_done == measured.n_usual and not measured.n_since

    @property
    def is_fitted(self) -> bool:
        """True if the leading fit uses the current ratings."""
        return self.fit is not None and not self.is_behind


def selfplay_bots(study: Study) -> list[str]:
    """Return the study's bots that can converse here now."""
    return [] if study.is_imported else bot_available_ids(list(study.bots))


def pipeline_data(study: Study, cards: StudyCards, progress: list[BotProgress]) -> PipelineData:
    """Return the data of a study's pipeline.

    A few queries suffice, and none reads answers.

    Args:
        cards, progress: as shown on the overview.
    """
    chats = study.conversations.filter(state=Conversation.State.COMPLETED)
    newest = chats.aggregate(at=Max(Coalesce("ended_at", "created_at", output_field=DateTimeField())))["at"]
    fit = fit_leading(study)
    requested_fits = HybridFit.objects.filter(study=study).exclude(request__has_any_keys=["without", "condition"])
    since = Rating.objects.none()
    if fit is not None:
        since = Rating.objects.filter(
            conversation__study=fit.train_study or study,
            conversation__is_synthetic=False,
            # No task changed before it was created, and the creation time is indexed.
            updated_at__gt=fit.created_at,
            created_at__gt=fit.created_at,
        )
    playable = tuple(selfplay_bots(study))
    runs = [run for run in study_runs(study) if set(playable) & set(run.plan.get("bots", []))]
    report = report_newest(study)
    return PipelineData(
        study=study,
        n_chats=cards.n_completed,
        n_wanted=cards.n_wanted,
        rated_bots=sum(1 for bot in progress if bot.n_completed),
        playable=playable,
        collected_at=newest,
        measured=_measured_now(study),
        played=runs[0] if runs else None,
        replaced=_replaced(runs[0], playable) if runs else (),
        fit=fit,
        asked_fit=requested_fits.defer("result", "kept", "predictions").first(),
        is_behind=fit is not None and fit_is_behind(fit),
        n_unfitted=since.count(),
        report=report,
        report_is_current=report is not None and report.key.endswith(f":{report_state(study).digest}"),
    )


def _measured_now(study: Study) -> DefaultMetricsState:
    """Return the progress of default metrics by their newest completed jobs."""
    usual = {metric.name for metric in metrics_find()}
    metric_runs = [run for run in MetricRun.objects.filter(study=study) if usual & set(run.metrics)]
    by_metric: dict[str, MetricRun] = {}
    for run in metric_runs:
        if run.state == State.DONE:
            for name in usual & set(run.metrics):
                by_metric.setdefault(name, run)
    n_since = 0
    if by_metric:
        oldest = min(run.created_at for run in by_metric.values())
        # Imported conversations have no time of their own at which they ended.
        later = Q(ended_at__gt=oldest) | Q(created_at__gt=oldest)
        n_since = study.conversations.filter(later, state=Conversation.State.COMPLETED).count()
    return DefaultMetricsState(
        job=metric_runs[0] if metric_runs else None,
        n_done=len(by_metric),
        n_usual=len(usual),
        n_since=n_since,
        done_at=max((done_at(run) for run in by_metric.values()), default=None),
    )


def done_at(job: JobBase) -> datetime:
    """Return the time at which a completed job finished."""
    return job.ended_at or job.created_at


def _replaced(run: SelfPlayRun, playable: Sequence[str]) -> tuple[str, ...]:
    """Return the bots of a run that have a newer version."""
    planned = run.plan.get("identities", {})
    known = bots_find([bot_id for bot_id in playable if bot_id in planned])
    return tuple(bot_id for bot_id, bot in known.items() if planned[bot_id]["key"] != bot.identity.key)


_NAMED = 4
"""Maximum number of bots named; more are only counted."""


@dataclass(frozen=True, slots=True)
class HeadlineFinding:
    """Finding with bold words, further text and a link.

    `tone` is good, warn or info.
    """

    tone: str
    lead: str
    rest: str
    action: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class HeadlineFindings:
    """The findings, and the number of significantly different pairs."""

    lines: list[HeadlineFinding]
    n_told_apart: int
    n_pairs: int
    measure: str


def headline_findings(frame: StudyFrame, result: Any) -> HeadlineFindings | None:
    """Summarise the comparisons.

    None if no two bots could be compared.

    Args:
        result: `StudyComparisons`.
    """
    board = leaderboard(result.means, result.compared)
    ranked = [place for place in board.places if not place.is_control]
    if not ranked or not board.n_pairs:
        return None
    measure = frame.headline.title.lower()
    compare = reverse("dashboard:study_results", args=[frame.study.key])
    lines = [_leading(frame, ranked, measure)]
    controls = [place for place in board.places if place.is_control]
    if controls:
        lines.append(_controls(frame, ranked, controls))
    if board.n_unknown:
        unknown = f"{board.n_unknown} of {phrases.pairs_text(board.n_pairs)} of bots."
        lines.append(HeadlineFinding("info", f"{NOT_YET_KNOWN.capitalize()}:", unknown, "Compare them", compare))
    return HeadlineFindings(lines, board.n_told_apart, board.n_pairs, measure)


def _leading(frame: StudyFrame, ranked: list[LeaderboardEntry], measure: str) -> HeadlineFinding:
    first = ranked[0]
    digits = digits_for(frame.headline.low, frame.headline.high)
    mean = f"{figure(first.mean.mean, digits)} {span(first.mean.low, first.mean.high, digits)}"
    close = [bot for bot in first.too_close if not frame.bots[bot].is_control]
    title = frame.title(first.bot)
    if not close:
        return HeadlineFinding(
            "good",
            f"{title} leads",
            f"by {measure}: {mean}, ahead of all other bots." if len(ranked) > 1 else f"by {measure}: {mean}.",
        )
    names = listed([frame.title(bot) for bot in close]) if len(close) <= _NAMED else phrases.bots_text(len(close))
    return HeadlineFinding(
        "info", "No single bot leads.", f"{title} has the highest {measure}, mean {mean}; {names} may be as good."
    )


def _controls(frame: StudyFrame, ranked: list[LeaderboardEntry], controls: list[LeaderboardEntry]) -> HeadlineFinding:
    """Compose the finding on whether control bots are rated last.

    Control bots were made to be bad.
    """
    worst = min(place.compared_mean for place in ranked)
    above = [place.bot for place in controls if place.compared_mean >= worst]
    if above:
        return HeadlineFinding(
            "warn",
            f"{listed([frame.title(bot) for bot in above])} not rated last.",
            "Controls are made to be bad, so check the chats before you trust the other results.",
        )
    names = listed([frame.title(place.bot) for place in controls])
    ranked_bots = {place.bot for place in ranked}
    close = sum(len(ranked_bots & set(place.too_close)) for place in controls)
    if close:
        return HeadlineFinding(
            "info",
            f"{names} {plural(len(controls), '(a control) is', '(controls) are')} rated last, but not clearly.",
            f"{close} of {phrases.pairs_text(len(controls) * len(ranked))} with another bot "
            f"{plural(close, 'is', 'are')} too close to call.",
        )
    if len(controls) == 1:
        return HeadlineFinding("good", f"{names} is last", "(a control), as expected.")
    return HeadlineFinding("good", f"{names} are last", "(controls), as expected.")


def study_action_items(
    study: Study, cards: StudyCards, progress: Sequence[BotProgress], *, may_pay: bool
) -> list[ActionItem]:
    """Return the study's action items, the most urgent first.

    Args:
        cards, progress: as shown on the overview.
        may_pay: whether the user may decide about pay.
    """
    items = pay_action_items(may_pay=may_pay, study=study)
    if may_pay:
        items += [*_flagged(study), *pay_waits(study)]
    if n_reports := reports_unseen([study]).get(study.pk, 0):
        items.append(
            ActionItem(
                "warn",
                plural(n_reports, "%(n)d reply", "%(n)d replies") % {"n": n_reports},
                "reported by participants but not reviewed yet.",
                "See reports",
                ("dashboard:study_people", {"key": study.key}, "show=reported"),
            )
        )
    if study.state == Study.State.COLLECTING and not study.is_imported:
        bots = _bots(study, progress) if get_protocol(study).talks_to_bots else []
        items += [*watch_action_items([study]), *bots, *_to_come(study, cards, progress)]
    return items


def _flagged(study: Study) -> list[ActionItem]:
    """Return an action item about flagged participants with undecided pay."""
    flags = TaskFlag.objects.filter(task=OuterRef("pk"))
    tasks = tasks_waiting(Q(participant__study=study)).filter(Exists(flags))
    n = tasks.order_by().values("participant").distinct().count()
    if not n:
        return []
    return [
        ActionItem(
            "warn",
            plural(n, "%(n)d person", "%(n)d people") % {"n": n},
            plural(n, "has flags and is waiting for pay.", "have flags and are waiting for pay."),
            "Review",
            ("dashboard:study_people", {"key": study.key}, "show=look"),
        )
    ]


def _bots(study: Study, progress: Sequence[BotProgress]) -> list[ActionItem]:
    """Return action items about failing or unassigned bots."""
    return [
        ActionItem(
            "warn",
            bot.title,
            f"{bot.reason}."
            if bot.is_offered
            else f"is not assigned to participants: {bot.reason}. They get the other bots in the meantime.",
            "See the bot",
            ("dashboard:bot", {"bot_id": bot.bot_id}, ""),
        )
        for bot in progress
        if bot.reason and bot.bot_id in study.bots
    ]


def _to_come(study: Study, cards: StudyCards, progress: Sequence[BotProgress]) -> list[ActionItem]:
    """Return an action item about planned work, and about lagging bots."""
    n_left = max(cards.n_wanted - cards.n_completed, 0)
    counts = {bot.title: bot.n_completed for bot in progress if bot.bot_id in study.bots}
    late = bot_behind(counts) if get_protocol(study).talks_to_bots else None
    if not n_left and late is None:
        return []
    behind = ""
    if late is not None:
        behind = f"{late[0]} is {late[1]} behind."
    people = ("dashboard:study_people", {"key": study.key}, "")
    if not n_left:
        return [ActionItem("wait", "", behind, "See people", people)]
    lead = plural(n_left, "%(n)s chat", "%(n)s chats")
    if not get_protocol(study).talks_to_bots:
        lead = plural(n_left, "%(n)s task", "%(n)s tasks")
    rest = plural(n_left, "is still needed.", "are still needed.")
    return [ActionItem("wait", lead % {"n": f"{n_left:,}"}, f"{rest} {behind}".strip(), "See people", people)]
