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
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.hybrid_verdict import verdict_text
from webapp.dashboard.overview import PipelineData, done_at, pipeline_data
from webapp.dashboard.selectors import BotProgress, StudyCards
from webapp.dashboard.templatetags.dashboard import in_words
from webapp.jobs.models import SELF_PLAY, HybridFit, JobBase, MetricRun, SelfPlayRun, State
from webapp.jobs.selectors.jobs import job_progress
from webapp.studies.models import Study

SELFPLAY_EACH = 100
"""Conversations of each bot with itself that the overview's button asks for, as the paper had."""

_LOOKED_AT = 20
"""So many of the newest jobs are looked at for one that tells how long the next will take."""

Tone = Literal["done", "now", "running", "bad", "later"]


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """A stage of the line.

    Attributes:
        tone: done; now: the one that is next; running; bad: its job failed; later.
        words: its state.
        when: what stands was done; None where nothing does.
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
        job: job that runs now, or whose failure blocks the rest; then only that job's own button is shown.
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
    """The line and the next step."""

    stages: tuple[PipelineStage, ...]
    next: Next


def pipeline_of(study: Study, cards: StudyCards, progress: list[BotProgress]) -> Pipeline:
    """Return the line of a study whose conversations are rated.

    Args:
        cards, progress: as the overview shows them.
    """
    found = pipeline_data(study, cards, progress)
    coming = _next(found)
    return Pipeline(tuple(_stages(found, coming)), coming)


def _stages(found: PipelineData, coming: Next) -> list[PipelineStage]:
    key = [found.study.key]
    prediction = reverse("dashboard:study_prediction", args=key)
    told = [
        ("collect", "Collect", reverse("dashboard:study_people", args=key), _collected(found)),
        ("metrics", "Metrics", f"{prediction}#metrics", _measured(found)),
        ("selfplay", "Self-play", f"{prediction}#selfplay", _played(found)),
        ("fit", "Fit", prediction, _fitted(found)),
        ("report", "Report", reverse("dashboard:study_report", args=key), _reported(found)),
    ]
    now, when = _stage_of(coming, found), _when(found)
    return [
        PipelineStage(
            title,
            href,
            "now" if name == now and tone == "later" else tone,
            words,
            when[name] if tone not in ("running", "bad") or name == "collect" else None,
        )
        for name, title, href, (tone, words) in told
    ]


def _when(found: PipelineData) -> dict[str, datetime | None]:
    """Return by stage when what stands of it was done."""
    played = found.played
    return {
        "collect": found.collected_at if found.n_chats else None,
        "metrics": found.measured.done_at,
        "selfplay": done_at(played) if played is not None and played.state == State.DONE else None,
        "fit": done_at(found.fit) if found.fit is not None else None,
        "report": done_at(found.report) if found.report is not None else None,
    }


def _stage_of(coming: Next, found: PipelineData) -> str:
    """Return the stage that the next step begins with."""
    if coming.action == "selfplay":
        return "selfplay"
    if coming.action == "analyse":
        return "fit" if found.is_measured else "metrics"
    return "report" if found.is_fitted else "collect"


def _collected(found: PipelineData) -> tuple[Tone, str]:
    n, study = found.n_chats, found.study
    if study.is_imported:
        return "done", phrases.conversations_text(n)
    is_over = study.state == Study.State.ENDED or (found.n_wanted and n >= found.n_wanted)
    tone: Tone = "done" if n and is_over else "running" if n else "later"
    if found.n_wanted:
        words = plural(found.n_wanted, "%(n)s of %(all)s chat", "%(n)s of %(all)s chats")
        return tone, words % {"n": f"{n:,}", "all": f"{found.n_wanted:,}"}
    return tone, plural(n, "%(n)s chat so far", "%(n)s chats so far") % {"n": f"{n:,}"}


def _measured(found: PipelineData) -> tuple[Tone, str]:
    measured = found.measured
    job = measured.job
    if job is None or not found.n_chats:
        return "later", "none yet"
    words = f"{measured.n_done} of {measured.n_usual}"
    if not job.is_over or (job.can_go_on and not found.is_measured):
        return _at_work(job)
    if found.is_measured:
        return "done", f"{words}, all current"
    return "later", _older(words, measured.n_since)


def _played(found: PipelineData) -> tuple[Tone, str]:
    job = found.played
    if job is not None:
        if job.state != State.DONE:
            return _at_work(job)
        n = job.n_done
        if found.replaced:
            bots = ", ".join(map(bot_name, found.replaced))
            return "later", f"{phrases.conversations_text(n)}, before a newer version of {bots}"
        return "done", phrases.conversations_text(n)
    if not found.playable:
        return "later", "its bots do not run here"
    n_bots = len(found.playable)
    words = plural(n_bots, "next: %(bots)d bot × %(n)d chats", "next: %(bots)d bots × %(n)d chats")
    return "later", words % {"bots": n_bots, "n": SELFPLAY_EACH}


def _fitted(found: PipelineData) -> tuple[Tone, str]:
    asked, fit = found.asked_fit, found.fit
    if asked is not None and (not asked.is_over or (asked.can_go_on and not found.is_fitted)):
        return _at_work(asked)
    if fit is None:
        if found.rated_bots < MIN_BOTS:
            return "later", f"needs {MIN_BOTS} rated bots"
        return "later", "none yet"
    preset = str(fit.request.get("preset", ""))
    if not found.is_behind:
        return "done", f"{preset}, current"
    if found.n_unfitted:
        return "later", _older(preset, found.n_unfitted)
    return "later", f"{preset}, before ratings were changed"


def _reported(found: PipelineData) -> tuple[Tone, str]:
    if not found.n_chats:
        return "later", "nothing to tell yet"
    if found.report is None:
        return "later", "none yet" if found.is_fitted else "draft without a fit"
    if found.report_is_current:
        return "done", "current"
    return "later", "before the data changed"


def _older(words: str, n: int) -> str:
    """Return a state that newer data have overtaken."""
    if not n:
        return words
    since = plural(n, "before %(n)d newer chat", "before %(n)d newer chats") % {"n": n}
    return f"{words}, {since}" if words else since


def _at_work(job: JobBase) -> tuple[Tone, str]:
    if job.can_go_on:
        return "bad", str(job.get_state_display())  # type: ignore[attr-defined]
    progress = job_progress(job)
    if progress.waits_for_worker:
        return "running", "waits for a worker"
    return "running", "{n} of {all}".format(n=f"{job.n_done:,}", all=f"{job.n_total:,}")


def _next(found: PipelineData) -> Next:
    study, key = found.study, [found.study.key]
    if (job := found.running) is not None:
        words = "What comes after it starts by itself." if getattr(job, "then", None) else ""
        return Next("Running", words, job=job)
    if (job := found.failed) is not None:
        return Next(
            "It did not go through",
            job.error or "It was stopped.",
            settings_href=reverse("dashboard:study_prediction", args=key),
            job=job,
        )
    if not found.n_chats:
        if study.state == Study.State.DRAFT:
            href = reverse("dashboard:study_build", args=key)
            return Next("Build the study and open it", "There are no conversations yet.", "Go on", href=href)
        href = reverse("dashboard:study_people", args=key)
        return Next(
            "Let people in", "Metrics and the fit begin with the first rated conversations.", "See people", href=href
        )
    can_fit = found.rated_bots >= MIN_BOTS
    if found.playable and found.played is None and can_fit:
        n_all = len(found.playable) * SELFPLAY_EACH
        words = "{n} short conversations{time}. Then metrics and fit run by themselves.".format(
            n=f"{n_all:,}", time=_taking(_played_s(n_all))
        )
        return Next(
            "Let the bots talk to themselves",
            words,
            "Run self-play, metrics and fit",
            "selfplay",
            settings_href=f"{reverse('dashboard:runs')}?new=1&study={study.key}",
        )
    if can_fit and not (found.is_measured and found.is_fitted):
        return Next(
            "Compute metrics and fit the hybrid metric",
            f"{_collected(found)[1]}{_taking(_analysed_s(found))}. Then this page says how well it predicts what "
            "people said of a bot.",
            "Compute metrics and fit",
            "analyse",
            settings_href=reverse("dashboard:study_prediction", args=key),
        )
    if not found.is_measured:
        have = f"{found.rated_bots} {plural(found.rated_bots, 'has', 'have')} some"
        return Next(
            "Compute metrics",
            f"A fit needs rated conversations of {MIN_BOTS} bots; {have}.",
            "Compute metrics",
            "analyse",
            settings_href=reverse("dashboard:study_prediction", args=key),
        )
    if found.fit is None:
        words = "The results are of all conversations that are here."
        href = reverse("dashboard:study_results", args=key)
        return Next("Everything is current", words, "Compare the bots", href=href)
    result = found.fit.result or {}
    is_told = found.report_is_current
    return Next(
        "Everything is current" if is_told else "Make the report",
        verdict_text(result.get("verdict")),
        "Read the report" if is_told else "Go to the report",
        href=reverse("dashboard:study_report", args=key),
        settings_href=reverse("dashboard:study_prediction", args=key),
    )


def _taking(seconds: float | None) -> str:
    """Return about how long something takes, to stand within a sentence; empty where nothing tells."""
    return "" if seconds is None else f", about {in_words(seconds)}"


def _lasted_s(job: JobBase | None) -> float | None:
    """Return a job's duration in seconds without its wait in the queue, or None."""
    if job is None or job.started_at is None or job.ended_at is None:
        return None
    return (job.ended_at - job.started_at).total_seconds()


def _played_s(n_conversations: int) -> float | None:
    """Return the seconds of so many conversations, by the newest run of any bots."""
    run = SelfPlayRun.objects.filter(SELF_PLAY, state=State.DONE, n_done__gt=0).first()
    lasted = _lasted_s(run)
    return lasted / run.n_done * n_conversations if run is not None and lasted is not None else None


def _analysed_s(found: PipelineData) -> float | None:
    """Return the seconds of what is missing of metrics and fit, by the newest jobs of any study that did such work.

    None where no earlier job tells one of them: half of the time would mislead.
    """
    parts: list[float | None] = []
    if not found.is_measured:
        parts.append(_measured_s(found))
    if found.rated_bots >= MIN_BOTS:
        done = HybridFit.objects.filter(state=State.DONE, request__applies_kept_fit=False)
        parts.append(_lasted_s(done.defer("result", "kept", "predictions").first()))
    return None if None in parts else sum(part for part in parts if part is not None)


def _measured_s(found: PipelineData) -> float | None:
    """Estimate the seconds of the usual metrics on conversations that lack some, by a job of no fewer."""
    measured = found.measured
    n = found.n_chats if measured.n_done < measured.n_usual else measured.n_since
    done = MetricRun.objects.filter(state=State.DONE, n_done__gt=0)[:_LOOKED_AT]
    for run in done:
        lasted = _lasted_s(run)
        if len(run.metrics) >= measured.n_usual and lasted is not None:
            return lasted / run.n_done * n
    return None
