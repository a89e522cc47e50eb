"""Comparison of judges with human ratings: request, gold set, available judges."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import transaction
from django.db.models import Exists, OuterRef
from pydantic import Field

from chatbots.identity import Identity
from chatbots.registry import bots
from chatbots.text import quote
from chatbots.validation import InputModel, Many
from evaluation.agreement.judges.alternative_test import EPSILON, Expertise, alternative_test
from evaluation.agreement.judges.gold import GoldSet, gold_of_chats, gold_of_replies
from evaluation.agreement.judges.scoring import MOST_PAIRS, MOST_REPEATED
from evaluation.data.items import VOTE
from evaluation.metrics.judge import JudgeMetric
from evaluation.metrics.registry import metric_list
from webapp.bots.selectors import bots_discover
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversations_for_metrics
from webapp.core.errors import Refused
from webapp.jobs.models import UNFINISHED, Job, State
from webapp.jobs.selectors.metrics import measurable
from webapp.jobs.selectors.selfplay import run_by_id
from webapp.jobs.services.jobs import job_ask, job_create, job_restart
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_conversations, study_ratings
from webapp.results.benchmark import BenchmarkParams, benchmark_judgements, data_now
from webapp.results.fingerprint import JUDGES_KIND
from webapp.studies.models import Participant, Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    from django.contrib.auth.models import User

DRIFT_KIND = "judge_drift"


class JudgesParams(InputModel):
    """Parameters of a comparison: a gold set and judges.

    Attributes:
        study: key of the study; or `file`, the name of an uploaded one, called `title`.
        question: what people rated; empty: the usual one. A study's votes are `vote`.
        expertise: of the raters; repeats: times that an endpoint scores the first instances; most: instances.
        run: id of a run whose conversations are also scored, to estimate their worth.
    """

    study: str = ""
    file: str = ""
    title: str = ""
    question: str = ""
    judges: Many[str] = Field(min_length=1)
    expertise: Expertise = "skilled"
    repeats: int = Field(2, ge=1, le=5)
    most: int = Field(300, ge=30, le=10_000)
    run: int | None = Field(None, ge=1, le=2**62)


def judge_list() -> list[JudgeMetric]:
    """Return the judges of `metrics.yaml`, plus standard judges of other model bots."""
    judges = [metric for metric in metric_list() if isinstance(metric, JudgeMetric) and metric.options is not None]
    bots_discover()
    used_models = {judge.options.bot or judge.options.model for judge in judges if judge.options}
    for bot in bots:
        if bot.name not in used_models and bot.identity.params.get("model"):
            field = "bot" if hasattr(bot, "likely_take") else "model"
            name = f"judge_{re.sub(r'[^a-z0-9]+', '_', bot.name.lower())}"
            judges.append(JudgeMetric(name, f"{bot.name}, standard prompt", **{field: bot.name}))
    return judges


def judge_named(name: str) -> JudgeMetric:
    """Return an available judge; raise `Refused` with the reason otherwise."""
    known = {judge.name: judge for judge in judge_list()}
    if name not in known:
        raise Refused("unknown_name", f"unknown judge {quote(name)}; choose from {', '.join(known) or 'none'}")
    if reason := known[name].unavailable_reason():
        raise Refused("unavailable", f"{name} cannot be used as a judge: {reason}")
    return known[name]


def gold_read(params: JudgesParams) -> GoldSet:
    """Return the gold set; raise `Refused` without any.

    It consists of a study's rated conversations, else its rated replies or a file's.
    """
    study = Study.objects.filter(key=params.study).first() if params.study else None
    try:
        if study is not None and get_protocol(study).rates_conversations and params.question != VOTE:
            return _chats(study, params)
        judged = benchmark_judgements(
            BenchmarkParams(study=params.study, file=params.file, title=params.title, metrics=())
        )
        return gold_of_replies(judged, params.question, name=params.title or params.study).sample(params.most)
    except (ValueError, KeyError) as error:
        raise Refused("not_rated", str(error).strip("'")) from error


def _chats(study: Study, params: JudgesParams) -> GoldSet:
    """Return a study's rated and unrated conversations, and a run's."""
    rows = study_conversations(study)
    run = measurable(study=None, run=run_by_id(params.run)) if params.run is not None else Conversation.objects.none()
    names = {
        str(pk): bot for conversations in (rows, run) for pk, bot in conversations.values_list("pk", "bot__bot_id")
    }
    bots = {chat: names[chat.id] for conversations in (rows, run) for chat in conversations_for_metrics(conversations)}
    extra = [str(pk) for pk in run.values_list("pk", flat=True)]
    return gold_of_chats(study_ratings(study), bots, params.question, name=study.name, extra=extra).sample(params.most)


def judges_ask(*, params: JudgesParams, created_by: User | None = None) -> Job:
    """Return the job that compares these judges, or raise `Refused`.

    There is one job for the same data and versions.
    """
    study = Study.objects.filter(key=params.study).first() if params.study else None
    if bool(params.file) == (study is not None):
        raise Refused(
            "not_found", f"there is no study {quote(params.study)}" if params.study else "specify a study or file"
        )
    keys = [judge_named(name).identity.key for name in params.judges]
    state = Identity("judges", "1", {"judges": keys, "data": params.file if study is None else data_now(study)}).key
    payload = params.model_dump(mode="json")
    job = job_ask(kind=JUDGES_KIND, payload=payload, state=state, study=study, created_by=created_by)
    return job_restart(job=job, enqueue=True) if job.state in (State.FAILED, State.CANCELLED) else job


@dataclass(frozen=True, slots=True)
class JudgesPlan:
    """Work of a comparison before it starts, and what it can answer.

    Attributes:
        n_calls: maximum number of replies that the judges give.
        seconds, cost: estimated from the judges' earlier comparisons; None without one for each judge, or without
            prices.
        missing: reason why the comparison cannot decide whether a judge may replace a rater; empty if it can.
    """

    n_instances: int
    n_rated: int
    n_raters: int
    n_calls: int
    seconds: float | None
    cost: float | None
    missing: str


def judges_plan(params: JudgesParams) -> JudgesPlan:
    """Return the plan of a comparison; raise `Refused` as `judges_ask` does.

    Whether the data suffice is tested with the raters' own means in place of a judge's scores.
    """
    judges, gold = [judge_named(name) for name in params.judges], gold_read(params)
    paces = judge_paces()
    n_pairs = 2 * MOST_PAIRS if gold.unit == "reply" else 0
    n_calls, seconds, cost = 0, 0.0, 0.0
    for judge in judges:
        is_local = bool(judge.options and judge.options.model)
        n_repeats = 0 if is_local else params.repeats - 1
        n = len(gold) + n_repeats * min(len(gold), MOST_REPEATED) + n_pairs
        n_calls += n
        pace = paces.get(judge.name, {})
        seconds += n * float(pace.get("seconds_per_1000", math.nan)) / 1000
        price = 0.0 if is_local else pace.get("cost_per_1000")
        cost += n * (math.nan if price is None else float(price)) / 1000
    return JudgesPlan(
        n_instances=len(gold),
        n_rated=int(np.isfinite(gold.means).sum()),
        n_raters=len(set(gold.rater.tolist()) - {None}),
        n_calls=n_calls,
        seconds=seconds if math.isfinite(seconds) else None,
        cost=cost if math.isfinite(cost) else None,
        missing=alternative_test(gold, gold.means, EPSILON[params.expertise]).reason,
    )


def rated_studies() -> list[Study]:
    """Return the studies with a rating of a participant or an imported one, by name."""
    by_participant = Rating.objects.filter(participant=OuterRef("pk"))
    by_rater = Rating.objects.filter(conversation=OuterRef("pk"))
    rated_participants = Participant.objects.filter(Exists(by_participant), study=OuterRef("pk"), is_synthetic=False)
    rated_conversations = Conversation.objects.filter(Exists(by_rater), study=OuterRef("pk"), is_synthetic=False)
    rated = Exists(rated_participants) | Exists(rated_conversations)
    return list(Study.objects.filter(rated).order_by("name"))


def judge_paces() -> dict[str, dict[str, Any]]:
    """Return seconds and cost per 1,000 replies of each judge, in its newest comparison."""
    paces: dict[str, dict[str, Any]] = {}
    for job in judges_newest():
        for judge in (job.result or {}).get("judges", ()):
            paces.setdefault(judge["judge"], judge)
    return paces


def judges_newest(n: int = 30) -> list[Job]:
    """Return the newest comparisons in any state."""
    return list(Job.objects.filter(kind=JUDGES_KIND).select_related("study").order_by("-pk")[:n])


def judges_done(pk: int | None = None) -> Job | None:
    """Return a finished comparison (default: the newest), or None."""
    finished_jobs = Job.objects.filter(kind=JUDGES_KIND, state=State.DONE, result__isnull=False).select_related("study")
    return finished_jobs.filter(**{} if pk is None else {"pk": pk}).order_by("-pk").first()


def drift_ask(comparison: Job, *, created_by: User | None = None) -> Job:
    """Return the job that checks the judges of a comparison for drift; a second one does not start meanwhile."""
    payload = {"job": comparison.pk}
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=comparison.pk)  # a double click starts one check
        running = drift_newest(comparison, state__in=UNFINISHED)
        return running or job_create(kind=DRIFT_KIND, payload=payload, study=comparison.study, created_by=created_by)


def drift_newest(comparison: Job, **conditions: Any) -> Job | None:
    """Return the newest drift check of a comparison, or None."""
    return Job.objects.filter(kind=DRIFT_KIND, payload__job=comparison.pk, **conditions).order_by("-pk").first()
