"""The long work: self-play, metrics, hybrid fits.

`*_slice` does about a minute of it and says whether something is left; Celery tasks and `--inline`
commands call the same functions. A selector says what is missing, the computing happens outside any
transaction, services store the results. Nothing is lost or doubled when a slice dies or is done twice.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DatabaseError, OperationalError, connection

from chatbots.storable import error_text
from webapp.bots.selectors import bot_find
from webapp.bots.services import bot_version_record
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversation_values
from webapp.core.errors import Refused
from webapp.runs.hybrid_tables import FitTables, bot_keys
from webapp.runs.models import HybridFit, Job, MetricRun, SelfPlayRun
from webapp.runs.selectors.metrics import (
    conversations_lacking,
    metrics_find,
    results_there,
)
from webapp.runs.selectors.selfplay import (
    Pair,
    plan_pairs,
    selfplay_alone,
    selfplay_by_pair,
    selfplay_count,
    selfplay_hopeless,
    selfplay_missing,
)
from webapp.runs.services.fits import fit_store
from webapp.runs.services.jobs import job_beat, job_claim, job_end, job_release
from webapp.runs.services.metrics import (
    metric_results_store,
    metric_run_create,
    metric_run_languages_add,
    metric_version_record,
)
from webapp.runs.services.selfplay import conversation_seed, selfplay_give_up, selfplay_store

if TYPE_CHECKING:
    from chatbots import Conversation as Values
    from chatbots.base import Bot
    from evaluation.metrics.base import Metric
    from evaluation.metrics.shared import Shared

log = logging.getLogger(__name__)

SLICE_S = 45.0
BEAT_EVERY_S = 2.0
PULSE_EVERY_S = 15.0  # four times within the time after which a job counts as abandoned
METRIC_BATCH = 128
TEXTS_KEPT = 200_000  # 300 MB of sentence vectors

Follow = Callable[[Job], None]


# Refusals whose message is for people; known by name, since their modules load heavy libraries.
_TOLD = ("Refused", "HybridError", "MetricUnavailable", "BotError")


class Stopped(Exception):
    """Somebody cancelled the job or took it over."""


class _Work:
    """A claimed job: signs of life, progress, and the time left in this slice."""

    def __init__(self, job: Job, holder: str, follow: Follow | None) -> None:
        self.job = job
        self.holder = holder
        self.follow = follow
        self._until = time.monotonic() + SLICE_S
        self._next_beat = 0.0

    @property
    def is_slice_over(self) -> bool:
        return time.monotonic() >= self._until

    def beat(
        self, n_done: int | None = None, n_total: int | None = None, *, now: bool = False
    ) -> None:
        """Tell the database, not oftener than every other second.

        Args:
            n_total: where it was not known when the job was made.

        Raises:
            Stopped
        """
        if n_done is not None:
            self.job.n_done = n_done
        if n_total is not None:
            self.job.n_total = n_total
        if not now and time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + BEAT_EVERY_S
        # What was told since the last time goes with it, or a quick job would end without its progress.
        counts = {"n_done": self.job.n_done, "n_total": self.job.n_total}
        if not job_beat(job=self.job, holder=self.holder, **counts):
            raise Stopped
        if self.follow is not None:
            self.follow(self.job)


@contextlib.contextmanager
def _pulse(job: Job, holder: str) -> Iterator[None]:
    """Signs of life from a thread of their own, for calls that take longer than a holder may be silent."""
    over = threading.Event()

    def beat() -> None:
        try:
            while not over.wait(PULSE_EVERY_S):
                try:
                    job_beat(job=job, holder=holder)
                except DatabaseError:
                    log.warning("%s: the database did not take a sign of life", job)
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=beat, name=f"pulse of {job}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _slice(job: Job, work_on: Callable[[_Work], bool], follow: Follow | None) -> bool:
    """Claim the job, work, and leave it in the state that belongs to what happened.

    Returns:
        Whether another slice is needed.
    """
    holder = job_claim(job=job)
    if holder is None:
        return False
    work = _Work(job, holder, follow)
    try:
        with _pulse(job, holder):
            more = work_on(work)
    except Stopped:
        job_end(job=job, holder=holder, state=Job.State.CANCELLED)
        return False
    except OperationalError:
        # The database was busy or away, which says nothing about the job: another slice tries again.
        log.warning("%s: the database did not answer; trying again", job, exc_info=True)
        job_release(job=job, holder=holder)
        return True
    except Exception as error:
        reason = _reason(error)
        if type(error).__name__ in _TOLD:
            log.warning("%s: %s", job, reason)
        else:
            log.exception("%s failed", job)
        job_end(job=job, holder=holder, state=Job.State.FAILED, error=reason)
        return False
    except BaseException:
        job_release(job=job, holder=holder)  # Ctrl-C or a worker's shutdown: it can be gone on with
        raise
    if more:
        job_release(job=job, holder=holder)
    else:
        job_end(job=job, holder=holder, state=Job.State.DONE)
    return more


# --- self-play


def selfplay_slice(run_id: int, *, follow: Follow | None = None) -> bool:
    """Play the next conversations of a run; True if there are more.

    When the last is there the run ends, and after that its metrics are asked for.
    """
    run = SelfPlayRun.objects.get(pk=run_id)
    more = _slice(run, lambda work: _selfplay(run, work), follow)
    run.refresh_from_db()
    if run.state == Job.State.DONE:
        _metrics_follow(run)
    return more


def _selfplay(run: SelfPlayRun, work: _Work) -> bool:
    from evaluation.selfplay import play

    n_turns = run.plan["n_turns"]
    work.beat(selfplay_count(run), now=True)
    for pair in plan_pairs(run.plan):
        while ordinals := selfplay_missing(run, pair, limit=_batch_of(pair)):
            if work.is_slice_over:
                return True
            bot, partner = _bots_ready(run, pair)
            version = bot_version_record(bot=bot)
            other = bot_version_record(bot=partner) if partner is not None else None
            if (why := selfplay_hopeless(run, pair)) is not None:
                selfplay_give_up(run=run, pair=pair, version=version, partner=other, why=why)
                break
            n_before = selfplay_count(run)

            def progress(n_made: int, n_planned: int, n_before: int = n_before) -> None:
                work.beat(n_before + n_made // n_turns)

            played = play(
                bot,
                partner=partner,
                seeds=[conversation_seed(run, pair, ordinal) for ordinal in ordinals],
                n_turns=n_turns,
                openers=run.plan["openers"],
                timeout_s=settings.CONFAB_REPLY_TIMEOUT_S,
                progress=progress,
            )
            selfplay_store(
                run=run, version=version, partner=other, ordinals=ordinals, played=played
            )
            work.beat(selfplay_count(run), now=True)
    work.beat(selfplay_count(run), now=True)
    # What failed is stored with its reason; only a run that has nothing at all has failed itself.
    found = selfplay_by_pair(run)
    if not any(part.conversations for part in found.values()):
        reasons = [f"every conversation of {p} failed: {part.error}" for p, part in found.items()]
        raise Refused("bot_failed", "; ".join(reasons))
    return False


def _batch_of(pair: Pair) -> int:
    return max(1, min(bot_find(bot_id).capacity for bot_id in {pair.bot_id, pair.first}))


_loaded: list[str] = []


def _bots_ready(run: SelfPlayRun, pair: Pair) -> tuple[Bot, Bot | None]:
    """The pair's bots, loaded once a process; those that it has no part for make room.

    Raises:
        Refused: if one is not the bot that the plan means.
        BotError: if one cannot be loaded.
    """
    from chatbots.registry import bot_load

    needed = list(dict.fromkeys((pair.bot_id, pair.first)))
    for bot_id in needed:
        identity, planned = bot_find(bot_id).identity, run.plan["identities"][bot_id]
        if identity.key != planned["key"]:
            raise Refused(
                "bot_changed",
                f"{bot_id} has changed since the run was planned (version {planned['version']} then, "
                f"{identity.version} now, or other parameters); start a new run",
            )
    for other in [bot_id for bot_id in _loaded if bot_id not in needed]:
        bot_find(other).unload()
        _loaded.remove(other)
    for bot_id in needed:
        if bot_id not in _loaded:
            bot_load(bot_id, settings.CONFAB_DEVICE)
            _loaded.append(bot_id)
    return bot_find(pair.bot_id), bot_find(pair.partner_id) if pair.partner_id else None


def _metrics_follow(run: SelfPlayRun) -> None:
    """Ask for the metrics of the plan, once."""
    names = run.plan.get("metrics") or []
    if names and not MetricRun.objects.filter(run=run).exists():
        metric_run_create(run=run, metrics=names, created_by=run.created_by)


# --- metrics


def metrics_slice(metric_run_id: int, *, follow: Follow | None = None) -> bool:
    """Compute metrics for the next conversations that have none; True if there are more."""
    job = MetricRun.objects.select_related("study", "run").get(pk=metric_run_id)
    return _slice(job, lambda work: _metrics(job, work), follow)


def _metrics(job: MetricRun, work: _Work) -> bool:
    metrics = metrics_find(job.metrics)
    tells_languages = any(getattr(metric, "languages", None) for metric in metrics)
    versions = {metric.name: metric_version_record(metric=metric) for metric in metrics}
    shared = _shared_now()
    before: list[Any] = []
    work.beat(now=True)
    while ids := conversations_lacking(
        study=job.study, run=job.run, versions=list(versions.values()), limit=METRIC_BATCH
    ):
        if work.is_slice_over:
            return True
        if ids == before:
            raise RuntimeError(f"no metric gave a result for conversation {ids[0]}")
        before = ids
        there = results_there(ids, list(versions.values()))
        alone = selfplay_alone(ids)
        groups: dict[tuple[bool, tuple[str, ...]], list[Any]] = {}
        for conversation_id in ids:
            has = there.get(conversation_id, set())
            lacks = tuple(name for name, version in versions.items() if version.pk not in has)
            groups.setdefault((conversation_id in alone, lacks), []).append(conversation_id)
        for (self_play, names), group in groups.items():
            chosen = [metric for metric in metrics if metric.name in names]
            conversations = _compute(chosen, group, shared, work, self_play=self_play)
            if tells_languages:
                metric_run_languages_add(job=job, conversations=conversations)
        work.beat(job.n_done + len(ids), now=True)
    return False


_shared: list[Shared] = []


def _shared_now() -> Shared:
    """What the jobs of this process share, so that a fit does not encode again what its metrics did.

    Very many texts, whose vectors would fill the memory, make room for the next.
    """
    from evaluation.metrics.shared import Shared

    if not _shared or _shared[0].encoder.n_encoded > TEXTS_KEPT:
        _shared[:] = [Shared(settings.CONFAB_DEVICE)]
    return _shared[0]


def _compute(
    metrics: list[Metric], ids: list[Any], shared: Shared, work: _Work, *, self_play: bool
) -> list[Values]:
    """Compute and store these metrics of these conversations, which come back."""
    rows = Conversation.objects.filter(pk__in=ids).order_by("created_at", "pk")
    conversations = list(conversation_values(rows))
    n_turns = {conversation.id: len(conversation.turns) for conversation in conversations}
    for metric in metrics:
        table = metric.compute(conversations, self_play=self_play, shared=shared)
        metric_results_store(
            version=metric_version_record(metric=metric), table=table, n_turns=n_turns
        )
        work.beat()
    return conversations


# --- hybrid fits


def fit_do(fit_id: int, *, follow: Follow | None = None) -> bool:
    """Fit or apply a hybrid metric; always the whole of it."""
    fit = HybridFit.objects.select_related("study", "train_study", "run").get(pk=fit_id)
    return _slice(fit, lambda work: _fit(fit, work), follow)


def _fit(fit: HybridFit, work: _Work) -> bool:
    from evaluation.hybrid.embeddings import block_of
    from evaluation.hybrid.fit import apply_fit, fit_hybrid
    from evaluation.hybrid.presets import preset_get
    from evaluation.hybrid.results import KeptFit

    asked = fit.request
    targets, seed = asked["targets"], asked["seed"]
    work.beat(now=True)
    kept = KeptFit.from_json(fit.kept or {}) if asked["applies_kept_fit"] else None
    if kept is None:
        preset = preset_get(asked["preset"])
        features, blocks = asked["features"] or list(preset.features), list(preset.blocks)
    else:
        features = [name for name in kept.shown if name in kept.features]
        blocks = list(dict.fromkeys(block for name in kept.features if (block := block_of(name))))
    tables = FitTables(fit, features, blocks, _shared_now, work.beat)
    identities: dict[str, Any] = {"metrics": tables.identities}
    selfplay = tables.selfplay()
    if fit.run is not None:
        identities["selfplay_bots"] = fit.run.plan["identities"]
    if kept is None:
        table, dimensions, ratings = tables.rated(fit.train_study or fit.study)
        common = {
            "features": features,
            "targets": targets,
            "preset": asked["preset"],
            "intercept": asked["intercept"],
            "seed": seed,
            "metric_identities": identities["metrics"],
            "ratings": ratings,
        }
        if fit.train_study is None:
            result = fit_hybrid(table, selfplay=selfplay, dimensions=dimensions, **common)
        else:
            kept = fit_hybrid(table, **common).fit
    if kept is not None:
        human, ratings = tables.to_apply_to()
        result = apply_fit(
            kept,
            human=human if len(human) else None,
            selfplay=selfplay,
            targets=targets if asked["targets_given"] else None,
            seed=seed,
            ratings=ratings,
        )
    work.beat(now=True)
    identities["bots"] = bot_keys(fit)
    fit_store(fit=fit, result=result, identities=identities)
    return False


def _reason(error: Exception) -> str:
    text = error_text(error)
    told = type(error).__name__ in _TOLD
    return text if told and text else f"{type(error).__name__}: {text}"
