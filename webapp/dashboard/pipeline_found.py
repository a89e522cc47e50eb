"""Data of the pipeline on a study's overview: its jobs, and conversations and ratings since.

A fit is outdated by the rule of every other page, and a report is current by the rule of its own page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Q
from django.db.models.functions import Coalesce

from webapp.bots.selectors import bot_available_ids, bot_find
from webapp.conversations.models import Conversation
from webapp.dashboard.report_files import report_newest, report_state
from webapp.dashboard.selectors import BotProgress, StudyCards, study_runs
from webapp.ratings.models import Rating
from webapp.runs.models import HybridFit, Job, JobBase, MetricRun, SelfPlayRun, State
from webapp.runs.selectors.fits import fit_is_behind, fit_leading
from webapp.runs.selectors.metrics import metrics_find
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Measured:
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
class Found:
    """Data of the pipeline on the overview."""

    study: Study
    n_chats: int
    n_wanted: int
    rated_bots: int
    playable: tuple[str, ...]
    collected_at: datetime | None
    measured: Measured
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
        """A job that failed or was stopped and without which something is missing or old."""
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
        """A job that is under way."""
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
    """Return those of the study's bots that can converse here now."""
    return [] if study.is_imported else bot_available_ids(list(study.bots))


def found_of(study: Study, cards: StudyCards, progress: list[BotProgress]) -> Found:
    """Return the data of a study's pipeline, in a few queries that read no answers.

    Args:
        cards, progress: as the overview shows them.
    """
    chats = Conversation.objects.filter(study=study, state=Conversation.State.COMPLETED)
    newest = chats.aggregate(at=Max(Coalesce("ended_at", "created_at")))["at"]
    fit = fit_leading(study)
    asked = HybridFit.objects.filter(study=study).exclude(request__has_key="without")
    since = Rating.objects.none()
    if fit is not None:
        since = Rating.objects.filter(
            conversation__study=fit.train_study or study,
            conversation__is_synthetic=False,
            # None was changed before it came, and that is in an index.
            updated_at__gt=fit.created_at,
            created_at__gt=fit.created_at,
        )
    playable = tuple(selfplay_bots(study))
    runs = [run for run in study_runs(study) if set(playable) & set(run.plan.get("bots", []))]
    report = report_newest(study)
    return Found(
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
        asked_fit=asked.defer("result", "kept", "predictions").first(),
        is_behind=fit is not None and fit_is_behind(fit),
        n_unfitted=since.count(),
        report=report,
        report_is_current=report is not None
        and report.key.endswith(f":{report_state(study).digest}"),
    )


def _measured_now(study: Study) -> Measured:
    """Return the progress of the default metrics, each by its newest completed job."""
    usual = {metric.name for metric in metrics_find()}
    asked = [run for run in MetricRun.objects.filter(study=study) if usual & set(run.metrics)]
    by_metric: dict[str, MetricRun] = {}
    for run in asked:
        if run.state == State.DONE:
            for name in usual & set(run.metrics):
                by_metric.setdefault(name, run)
    n_since = 0
    if by_metric:
        oldest = min(run.created_at for run in by_metric.values())
        # Imported conversations have no end of their own.
        later = Q(ended_at__gt=oldest) | Q(created_at__gt=oldest)
        n_since = Conversation.objects.filter(
            later, study=study, state=Conversation.State.COMPLETED
        ).count()
    return Measured(
        job=asked[0] if asked else None,
        n_done=len(by_metric),
        n_usual=len(usual),
        n_since=n_since,
        done_at=max((done_at(run) for run in by_metric.values()), default=None),
    )


def done_at(job: JobBase) -> datetime:
    """Return when a job that is done was done."""
    return job.ended_at or job.created_at


def _replaced(run: SelfPlayRun, playable: Sequence[str]) -> tuple[str, ...]:
    """Return those bots of a run that have another version now."""
    planned = run.plan.get("identities", {})
    return tuple(
        bot_id
        for bot_id in playable
        if bot_id in planned and planned[bot_id]["key"] != bot_find(bot_id).identity.key
    )
