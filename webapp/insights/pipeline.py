"""Pipeline on a study's overview: states, and the next step.

The stages are collection, metrics, self-play, fit, and report; `overview` reads their data.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.urls import reverse

from evaluation.hybrid.baselines import MIN_BOTS
from webapp.bots.selectors import bot_name
from webapp.core.language import plural
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid_verdict import verdict_text
from webapp.insights.overview import PipelineData, done_at, pipeline_data
from webapp.insights.selectors import BotProgress, StudyCards
from webapp.jobs.models import SELF_PLAY, HybridFit, JobBase, MetricRun, SelfPlayRun, State
from webapp.jobs.selectors.jobs import job_progress
from webapp.studies.models import Study

SELFPLAY_EACH = 100
"""Self-play conversations per bot that the overview's button starts, as in the paper."""

_LOOKED_AT = 20
"""Number of newest jobs searched to estimate the duration of the next."""

Tone = Literal["done", "now", "running", "bad", "later"]


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """A stage of the pipeline.

    Attributes:
        tone: done; now: next; running; bad: its job failed; later.
        words: its state in words.
        when: time of its current result; None without one.
    """

    title: str
    href: str
    tone: Tone
    words: str
    when: datetime | None = None


@dataclass(frozen=True, slots=True)
class Next:
    """Recommended next step.

    Attributes:
        action: action of the button: "analyse", "selfplay", or empty for a link to `href`.
        settings_href: address of the form with other settings, or of the fit.
        job: job that is running, or whose failure blocks the rest; then only that job's button is shown.
    """

    title: str
    words: str
    label: str = ""
    action: str = ""
    href: str = ""
    settings_href: str = ""
    job: JobBase | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pipeline and the next step."""

    stages: tuple[PipelineStage, ...]
    next: Next


def pipeline_of(study: Study, cards: StudyCards, progress: list[BotProgress]) -> Pipeline:
    """Return the pipeline of a study whose conversations are rated.

    Args:
        cards, progress: as shown on the overview.
    """
    pipeline = pipeline_data(study, cards, progress)
    coming = _next(pipeline)
    return Pipeline(tuple(_stages(pipeline, coming)), coming)


def _stages(pipeline: PipelineData, coming: Next) -> list[PipelineStage]:
    key = [pipeline.study.key]
    prediction = reverse("dashboard:study_prediction", args=key)
    stage_rows = [
        ("collect", "Collect", reverse("dashboard:study_people", args=key), _collected(pipeline)),
        ("metrics", "Metrics", f"{prediction}#metrics", _measured(pipeline)),
        ("selfplay", "Self-play", f"{prediction}#selfplay", _played(pipeline)),
        ("fit", "Fit", prediction, _fitted(pipeline)),
        ("report", "Report", reverse("dashboard:study_report", args=key), _reported(pipeline)),
    ]
    now, when = _stage_of(coming, pipeline), _when(pipeline)
    return [
        PipelineStage(
            title,
            href,
            "now" if name == now and tone == "later" else tone,
            words,
            when[name] if tone not in ("running", "bad") or name == "collect" else None,
        )
        for name, title, href, (tone, words) in stage_rows
    ]


def _when(pipeline: PipelineData) -> dict[str, datetime | None]:
    """Return the time of the current result, by stage."""
    played = pipeline.played
    return {
        "collect": pipeline.collected_at if pipeline.n_chats else None,
        "metrics": pipeline.measured.done_at,
        "selfplay": done_at(played) if played is not None and played.state == State.DONE else None,
        "fit": done_at(pipeline.fit) if pipeline.fit is not None else None,
        "report": done_at(pipeline.report) if pipeline.report is not None else None,
    }


def _stage_of(coming: Next, pipeline: PipelineData) -> str:
    """Return the stage that the next step starts with."""
    if coming.action == "selfplay":
        return "selfplay"
    if coming.action == "analyse":
        return "fit" if pipeline.is_measured else "metrics"
    return "report" if pipeline.is_fitted else "collect"


def _collected(pipeline: PipelineData) -> tuple[Tone, str]:
    n, study = pipeline.n_chats, pipeline.study
    if study.is_imported:
        return "done", phrases.conversations_text(n)
    is_over = study.state == Study.State.ENDED or (pipeline.n_wanted and n >= pipeline.n_wanted)
    tone: Tone = "done" if n and is_over else "running" if n else "later"
    if pipeline.n_wanted:
        words = plural(pipeline.n_wanted, "%(n)s of %(all)s chat", "%(n)s of %(all)s chats")
        return tone, words % {"n": f"{n:,}", "all": f"{pipeline.n_wanted:,}"}
    return tone, plural(n, "%(n)s chat so far", "%(n)s chats so far") % {"n": f"{n:,}"}


def _measured(pipeline: PipelineData) -> tuple[Tone, str]:
    measured = pipeline.measured
    job = measured.job
    if job is None or not pipeline.n_chats:
        return "later", "none yet"
    words = f"{measured.n_done} of {measured.n_usual}"
    if not job.is_over or (job.can_go_on and not pipeline.is_measured):
        return _at_work(job)
    if pipeline.is_measured:
        return "done", f"{words}, all current"
    return "later", _older(words, measured.n_since)


def _played(pipeline: PipelineData) -> tuple[Tone, str]:
    job = pipeline.played
    if job is not None:
        if job.state != State.DONE:
            return _at_work(job)
        n = job.n_done
        if pipeline.replaced:
            bots = ", ".join(map(bot_name, pipeline.replaced))
            return "later", f"{phrases.conversations_text(n)}, before a newer version of {bots}"
        return "done", phrases.conversations_text(n)
    if not pipeline.playable:
        return "later", "its bots cannot run here"
    n_bots = len(pipeline.playable)
    words = plural(n_bots, "next: %(bots)d bot × %(n)d chats", "next: %(bots)d bots × %(n)d chats")
    return "later", words % {"bots": n_bots, "n": SELFPLAY_EACH}


def _fitted(pipeline: PipelineData) -> tuple[Tone, str]:
    fit_job, fit = pipeline.asked_fit, pipeline.fit
    if fit_job is not None and (not fit_job.is_over or (fit_job.can_go_on and not pipeline.is_fitted)):
        return _at_work(fit_job)
    if fit is None:
        if pipeline.rated_bots < MIN_BOTS:
            return "later", f"needs {MIN_BOTS} rated bots"
        return "later", "none yet"
    preset = str(fit.request.get("preset", ""))
    if not pipeline.is_behind:
        return "done", f"{preset}, current"
    if pipeline.n_unfitted:
        return "later", _older(preset, pipeline.n_unfitted)
    return "later", f"{preset}, before rating changes"


def _reported(pipeline: PipelineData) -> tuple[Tone, str]:
    if not pipeline.n_chats:
        return "later", "no data yet"
    if pipeline.report is None:
        return "later", "none yet" if pipeline.is_fitted else "draft without a fit"
    if pipeline.report_is_current:
        return "done", "current"
    return "later", "outdated by new data"


def _older(words: str, n: int) -> str:
    """Return the state of a result that is older than the data."""
    if not n:
        return words
    since = plural(n, "before %(n)d newer chat", "before %(n)d newer chats") % {"n": n}
    return f"{words}, {since}" if words else since


def _at_work(job: JobBase) -> tuple[Tone, str]:
    if job.can_go_on:
        return "bad", str(job.get_state_display())  # type: ignore[attr-defined]
    progress = job_progress(job)
    if progress.waits_for_worker:
        return "running", "waiting for a worker"
    return "running", "{n} of {all}".format(n=f"{job.n_done:,}", all=f"{job.n_total:,}")


def _next(pipeline: PipelineData) -> Next:
    study, key = pipeline.study, [pipeline.study.key]
    if (job := pipeline.running) is not None:
        words = "The next step starts automatically." if getattr(job, "then", None) else ""
        return Next("Running", words, job=job)
    if (job := pipeline.failed) is not None:
        return Next(
            "The job failed",
            job.error or "The job was stopped.",
            settings_href=reverse("dashboard:study_prediction", args=key),
            job=job,
        )
    if not pipeline.n_chats:
        if study.state == Study.State.DRAFT:
            href = reverse("dashboard:study_build", args=key)
            return Next("Set up and open the study", "There are no conversations yet.", "Continue", href=href)
        href = reverse("dashboard:study_people", args=key)
        return Next(
            ("Recruit participants"),
            "Metrics and the fit start with the first rated conversations.",
            "See people",
            href=href,
        )
    can_fit = pipeline.rated_bots >= MIN_BOTS
    if pipeline.playable and pipeline.played is None and can_fit:
        n_all = len(pipeline.playable) * SELFPLAY_EACH
        words = "{n} short conversations{time}. Metrics and fit then run automatically.".format(
            n=f"{n_all:,}", time=_taking(_played_s(n_all))
        )
        return Next(
            "Start self-play",
            words,
            "Run self-play, metrics and fit",
            "selfplay",
            settings_href=f"{reverse('dashboard:runs')}?new=1&study={study.key}",
        )
    if can_fit and not (pipeline.is_measured and pipeline.is_fitted):
        return Next(
            "Compute metrics and fit the hybrid metric",
            f"{_collected(pipeline)[1]}{_taking(_analysed_s(pipeline))}. Afterwards this page shows how well it "
            "predicts human ratings of bots.",
            "Compute metrics and fit",
            "analyse",
            settings_href=reverse("dashboard:study_prediction", args=key),
        )
    if not pipeline.is_measured:
        have = f"{pipeline.rated_bots} {plural(pipeline.rated_bots, 'has', 'have')} any"
        return Next(
            "Compute metrics",
            f"A fit needs rated conversations of {MIN_BOTS} bots; so far {have}.",
            "Compute metrics",
            "analyse",
            settings_href=reverse("dashboard:study_prediction", args=key),
        )
    if pipeline.fit is None:
        words = "The results include all conversations."
        href = reverse("dashboard:study_results", args=key)
        return Next("Everything is current", words, "Compare the bots", href=href)
    result = pipeline.fit.result or {}
    is_told = pipeline.report_is_current
    return Next(
        "Everything is current" if is_told else "Make the report",
        verdict_text(result.get("verdict")),
        "Read the report" if is_told else "Go to the report",
        href=reverse("dashboard:study_report", args=key),
        settings_href=reverse("dashboard:study_prediction", args=key),
    )


def _taking(seconds: float | None) -> str:
    """Return an approximate duration, as part of a sentence.

    Empty if unknown.
    """
    return "" if seconds is None else f", about {phrases.duration_text(seconds)}"


def _lasted_s(job: JobBase | None) -> float | None:
    """Return a job's duration in seconds, without its wait in the queue.

    None if unknown.
    """
    if job is None or job.started_at is None or job.ended_at is None:
        return None
    return (job.ended_at - job.started_at).total_seconds()


def _played_s(n_conversations: int) -> float | None:
    """Estimate the seconds of these conversations from the newest run."""
    run = SelfPlayRun.objects.filter(SELF_PLAY, state=State.DONE, n_done__gt=0).first()
    lasted = _lasted_s(run)
    return lasted / run.n_done * n_conversations if run is not None and lasted is not None else None


def _analysed_s(pipeline: PipelineData) -> float | None:
    """Estimate the seconds of missing metrics and fits from earlier jobs.

    The newest jobs of any study are used.

    None if no earlier job shows one of the durations: half of the time would mislead.
    """
    parts: list[float | None] = []
    if not pipeline.is_measured:
        parts.append(_measured_s(pipeline))
    if pipeline.rated_bots >= MIN_BOTS:
        done = HybridFit.objects.filter(state=State.DONE, request__applies_kept_fit=False)
        parts.append(_lasted_s(done.defer("result", "kept", "predictions").first()))
    return None if None in parts else sum(part for part in parts if part is not None)


def _measured_s(pipeline: PipelineData) -> float | None:
    """Estimate the seconds of the default metrics on new conversations.

    The estimate uses a job with at least as many conversations.
    """
    measured = pipeline.measured
    n = pipeline.n_chats if measured.n_done < measured.n_usual else measured.n_since
    done = MetricRun.objects.filter(state=State.DONE, n_done__gt=0)[:_LOOKED_AT]
    for run in done:
        lasted = _lasted_s(run)
        if len(run.metrics) >= measured.n_usual and lasted is not None:
            return lasted / run.n_done * n
    return None
