"""The line on a study's overview: collect, metrics, self-play, fit, report; each with its state, and what is best done next.

States are read off the newest job of each kind and off what has come since, in a few queries that read no answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from evaluation.hybrid.baselines import MIN_BOTS
from webapp.bots.selectors import bot_available_ids
from webapp.conversations.models import Conversation
from webapp.dashboard.selectors import BotProgress, StudyCards, study_runs
from webapp.dashboard.templatetags.dashboard import in_words
from webapp.dashboard.wording.hybrid_verdict import verdict_in_brief
from webapp.ratings.models import Rating
from webapp.runs.models import HybridFit, JobBase, MetricRun, SelfPlayRun, State
from webapp.runs.selectors.jobs import job_progress
from webapp.runs.selectors.metrics import metrics_find
from webapp.studies.models import Study

SELFPLAY_EACH = 100
"""Conversations of each bot with itself that the overview's button asks for, as the paper had."""

_PAGES = {"selfplay": "study_selfplay", "metrics": "study_metrics", "hybrid": "study_hybrid"}
"""Of a study, where the jobs of a kind are asked for with other settings."""

Tone = Literal["done", "now", "running", "bad", "later"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the line.

    Attributes:
        tone: done; now: the one that is next; running; bad: its job failed; later.
        words: its state.
    """

    title: str
    href: str
    tone: Tone
    words: str


@dataclass(frozen=True, slots=True)
class Next:
    """What is best done next.

    Attributes:
        action: of the button: "analyse", "selfplay" or empty, where `href` is gone to.
        settings_href: where the same is asked for with other settings, or the fit stands.
        job: that runs now, or whose failure keeps the rest; then there is no button but that job's own.
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

    stages: tuple[Stage, ...]
    next: Next


@dataclass(frozen=True, slots=True)
class _Found:
    """What the line is made of."""

    study: Study
    n_chats: int
    n_wanted: int
    rated_bots: int
    playable: tuple[str, ...]
    measured: MetricRun | None
    n_metrics: tuple[int, int]
    n_unmeasured: int
    played: SelfPlayRun | None
    fit: HybridFit | None
    n_unfitted: int

    @property
    def failed(self) -> JobBase | None:
        """A job that failed or was stopped, unless a fit has come through since."""
        fitted_at = self.fit.created_at if self.fit and self.fit.state == State.DONE else None
        for job in (self.played, self.measured, self.fit):
            if job is not None and job.can_go_on and not (fitted_at and job.created_at < fitted_at):
                return job
        return None

    @property
    def running(self) -> JobBase | None:
        """A job that is under way."""
        jobs = (self.played, self.measured, self.fit)
        return next((job for job in jobs if job is not None and not job.is_over), None)

    @property
    def is_measured(self) -> bool:
        """Whether every finished conversation has every usual metric."""
        done, wanted = self.n_metrics
        return bool(self.n_chats) and done == wanted and not self.n_unmeasured

    @property
    def is_fitted(self) -> bool:
        """Whether the newest fit is of all ratings."""
        return self.fit is not None and self.fit.state == State.DONE and not self.n_unfitted


def pipeline_of(study: Study, cards: StudyCards, progress: list[BotProgress]) -> Pipeline:
    """Return the line of a study whose conversations are rated.

    Args:
        cards, progress: as the overview shows them.
    """
    found = _found(study, cards, progress)
    coming = _next(found)
    return Pipeline(tuple(_stages(found, coming)), coming)


def selfplay_bots(study: Study) -> list[str]:
    """Return those of the study's bots that can converse here now."""
    return [] if study.is_imported else bot_available_ids(list(study.bots))


def _found(study: Study, cards: StudyCards, progress: list[BotProgress]) -> _Found:
    measured = MetricRun.objects.filter(study=study).first()
    finished = Conversation.objects.filter(study=study, state=Conversation.State.COMPLETED)
    usual = {metric.name for metric in metrics_find()}
    n_done = len(usual & set(measured.metrics)) if measured and measured.state == State.DONE else 0
    later = Q(ended_at__gt=measured.created_at) if measured else Q()
    if measured:  # imported conversations have no end of their own
        later |= Q(created_at__gt=measured.created_at)
    fit = HybridFit.objects.filter(study=study).defer("result", "kept", "predictions").first()
    ratings = Rating.objects.filter(conversation__study=study, conversation__is_synthetic=False)
    playable = tuple(selfplay_bots(study))
    runs = [run for run in study_runs(study) if set(playable) & set(run.plan.get("bots", []))]
    return _Found(
        study=study,
        n_chats=cards.n_completed,
        n_wanted=cards.n_wanted,
        rated_bots=sum(1 for bot in progress if bot.n_completed),
        playable=playable,
        measured=measured,
        n_metrics=(n_done, len(usual)),
        n_unmeasured=finished.filter(later).count(),
        played=runs[0] if runs else None,
        fit=fit,
        n_unfitted=_since(ratings, fit.created_at) if fit else 0,
    )


def _since(ratings: QuerySet[Rating], when: datetime) -> int:
    """Count the ratings that have come since; none was changed before it came, and that is in an index."""
    return ratings.filter(updated_at__gt=when, created_at__gt=when).count()


def _stages(found: _Found, coming: Next) -> list[Stage]:
    key = [found.study.key]
    told = [
        ("collect", _("Collect"), reverse("dashboard:study_live", args=key), _collected(found)),
        ("metrics", _("Metrics"), reverse("dashboard:study_metrics", args=key), _measured(found)),
        (
            "selfplay",
            _("Self-play"),
            reverse("dashboard:study_selfplay", args=key),
            _played(found),
        ),
        ("fit", _("Fit"), reverse("dashboard:study_hybrid", args=key), _fitted(found)),
        ("report", _("Report"), reverse("dashboard:study_report", args=key), _reported(found)),
    ]
    now = _stage_of(coming, found)
    return [
        Stage(title, href, "now" if name == now and tone == "later" else tone, words)
        for name, title, href, (tone, words) in told
    ]


def _stage_of(coming: Next, found: _Found) -> str:
    """Return the stage that the next step begins with."""
    if coming.action == "selfplay":
        return "selfplay"
    if coming.action == "analyse":
        return "fit" if found.is_measured else "metrics"
    return "report" if found.is_fitted else "collect"


def _collected(found: _Found) -> tuple[Tone, str]:
    n, study = found.n_chats, found.study
    if study.is_imported:
        return "done", ngettext("%(n)d conversation", "%(n)d conversations", n) % {"n": n}
    is_over = study.state == Study.State.ENDED or (found.n_wanted and n >= found.n_wanted)
    tone: Tone = "done" if n and is_over else "running" if n else "later"
    if found.n_wanted:
        words = ngettext("%(n)d of %(all)d chat", "%(n)d of %(all)d chats", found.n_wanted)
        return tone, words % {"n": n, "all": found.n_wanted}
    return tone, ngettext("%(n)d chat so far", "%(n)d chats so far", n) % {"n": n}


def _measured(found: _Found) -> tuple[Tone, str]:
    job, (n_done, n_usual) = found.measured, found.n_metrics
    if job is None or not found.n_chats:
        return "later", _("none yet")
    if job.state != State.DONE:
        return _at_work(job)
    words = _("%(n)d of %(all)d") % {"n": n_done, "all": n_usual}
    if found.is_measured:
        return "done", _("%(words)s, all current") % {"words": words}
    return "later", _older(words, found.n_unmeasured)


def _played(found: _Found) -> tuple[Tone, str]:
    job = found.played
    if job is not None:
        if job.state != State.DONE:
            return _at_work(job)
        n = job.n_done
        return "done", ngettext("%(n)d conversation", "%(n)d conversations", n) % {"n": n}
    if not found.playable:
        return "later", _("its bots do not run here")
    n_bots = len(found.playable)
    words = ngettext(
        "next: %(bots)d bot × %(n)d chats", "next: %(bots)d bots × %(n)d chats", n_bots
    )
    return "later", words % {"bots": n_bots, "n": SELFPLAY_EACH}


def _fitted(found: _Found) -> tuple[Tone, str]:
    job = found.fit
    if job is None:
        if found.rated_bots < MIN_BOTS:
            return "later", _("needs %(n)d rated bots") % {"n": MIN_BOTS}
        return "later", _("none yet")
    if job.state != State.DONE:
        return _at_work(job)
    if found.n_unfitted:
        return "later", _older(str(job.request.get("preset", "")), found.n_unfitted)
    return "done", _("%(preset)s, current") % {"preset": job.request.get("preset", "")}


def _reported(found: _Found) -> tuple[Tone, str]:
    if not found.n_chats:
        return "later", _("nothing to tell yet")
    return ("done", _("with the fit")) if found.is_fitted else ("later", _("draft without a fit"))


def _older(words: str, n: int) -> str:
    """Return a state that newer data have overtaken."""
    if not n:
        return words
    since = ngettext("before %(n)d newer chat", "before %(n)d newer chats", n) % {"n": n}
    return _("%(words)s, %(since)s") % {"words": words, "since": since} if words else since


def _at_work(job: JobBase) -> tuple[Tone, str]:
    if job.can_go_on:
        return "bad", str(job.get_state_display())  # type: ignore[attr-defined]
    progress = job_progress(job)
    if progress.waits_for_worker:
        return "running", _("waits for a worker")
    return "running", _("%(n)d of %(all)d") % {"n": job.n_done, "all": job.n_total}


def _next(found: _Found) -> Next:
    study, key = found.study, [found.study.key]
    if (job := found.running) is not None:
        words = _("What comes after it starts by itself.") if getattr(job, "then", None) else ""
        return Next(_("At work"), words, job=job)
    if (job := found.failed) is not None:
        return Next(
            _("It did not go through"),
            job.error or _("It was stopped."),
            settings_href=reverse(f"dashboard:{_PAGES[job.kind]}", args=key),
            job=job,
        )
    if not found.n_chats:
        if study.state == Study.State.DRAFT:
            href = reverse("dashboard:study_build", args=key)
            return Next(
                _("Build the study and open it"), _("Nobody has talked yet."), _("Go on"), href=href
            )
        href = reverse("dashboard:study_live", args=key)
        return Next(
            _("Let people in"),
            _("Metrics and the fit begin with the first rated conversations."),
            _("Live room"),
            href=href,
        )
    can_fit = found.rated_bots >= MIN_BOTS
    if found.playable and found.played is None and can_fit:
        n_all = len(found.playable) * SELFPLAY_EACH
        words = _("%(n)d short conversations%(time)s. Then metrics and fit run by themselves.") % {
            "n": n_all,
            "time": _taking(found, n_all),
        }
        return Next(
            _("Let the bots talk to themselves"),
            words,
            _("Run self-play, metrics and fit"),
            "selfplay",
            settings_href=f"{reverse('dashboard:runs')}?new=1&study={study.key}",
        )
    if can_fit and not (found.is_measured and found.is_fitted):
        return Next(
            _("Compute metrics and fit the hybrid metric"),
            _("Then this page says how well it predicts what people said of a bot."),
            _("Compute metrics and fit"),
            "analyse",
            settings_href=reverse("dashboard:study_hybrid", args=key),
        )
    if not found.is_measured:
        words = ngettext(
            "A fit needs rated conversations of %(n)d bots; %(have)d has some.",
            "A fit needs rated conversations of %(n)d bots; %(have)d have some.",
            found.rated_bots,
        ) % {"n": MIN_BOTS, "have": found.rated_bots}
        return Next(
            _("Compute metrics"),
            words,
            _("Compute metrics"),
            "analyse",
            settings_href=reverse("dashboard:study_metrics", args=key),
        )
    if found.fit is None:
        words = _("The results are of all conversations that are here.")
        href = reverse("dashboard:study_bots", args=key)
        return Next(_("Everything is current"), words, _("Compare the bots"), href=href)
    result = HybridFit.objects.values_list("result", flat=True).get(pk=found.fit.pk) or {}
    return Next(
        _("Everything is current"),
        verdict_in_brief(result.get("verdict")),
        _("Read the report"),
        href=reverse("dashboard:study_report", args=key),
        settings_href=reverse("dashboard:study_hybrid", args=key),
    )


def _taking(found: _Found, n_conversations: int) -> str:
    """Return about how long so many conversations take, by the newest run of any bots; empty where none tells."""
    runs = SelfPlayRun.objects.filter(state=State.DONE, n_done__gt=0, started_at__isnull=False)
    newest = runs.first()
    if newest is None or newest.ended_at is None or newest.started_at is None:
        return ""
    each_s = (newest.ended_at - newest.started_at).total_seconds() / newest.n_done
    return _(", about %(time)s") % {"time": in_words(each_s * n_conversations)}
