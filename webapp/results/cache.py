"""Cache of analysis results: keys, stored results, and jobs computing new ones.

A result belongs to the data that it was computed from. Every page that shows one calls `get_result`: it returns the
result of the present data, or the newest older one with the job that computes the new one, or the job alone. Small
results are computed directly, since that costs less than looking them up; see `is_small`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from pydantic import model_serializer

from chatbots.validation import InputModel, Many
from evaluation.number_format import result_dump, result_load
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.jobs.selectors.jobs import job_read, job_title
from webapp.jobs.services.jobs import UNFINISHED, job_ask, job_key, job_prioritise, job_restart
from webapp.results.compute import PARTS, AnalysisPart, explanation_parts
from webapp.results.fingerprint import DataCounts, DataState, data_counts, data_state
from webapp.results.formula_models import ModelParams, study_model
from webapp.results.study_data import Facts, StudyData, study_data
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

RESULTS_KIND = "results"
DIRECT_RATINGS = 500
DIRECT_BOTS = 6
"""Maximum ratings and bots for which a page computes all results immediately."""
DIRECT_SHARE_OF_MODELS = 0.25
"""Maximum number of ratings that a model by a formula may read."""
KEPT_MODELS = 20
"""Number of the newest formula models stored per study."""
KEPT = 2
"""Number of results stored per question, for the newest states of the data."""
_PAUSE_S = 0.5


class AnalysisParams(InputModel):
    """Parameters of a job for one part of a study's analysis.

    Attributes:
        study: its id, which distinguishes the jobs of different studies.
        model: model of the part `formula`; None for the default one and for other parts.
    """

    study: int
    part: str
    include_synthetic: bool = False
    include_failed: bool = False
    without: Many[str] = ()
    model: ModelParams | None = None

    @model_serializer(mode="wrap")
    def _as_before(self, dump: Any) -> dict[str, Any]:
        """Omit an empty `model`, since stored keys are digests of this."""
        return {name: value for name, value in dump(self).items() if name != "model" or value is not None}


@dataclass(frozen=True, slots=True)
class ComputedResult:
    """Result with the amount of its data.

    Attributes:
        result: value of the type declared in `PARTS`.
    """

    facts: Facts
    result: Any


@dataclass(frozen=True)
class AnalysisKey:
    """Key of an analysis result: study, part and included work.

    Attributes:
        without: sorted names of flags; work of participants with one of them is left out.
        model: model of the part `formula`; None: the default one.
    """

    study: Study
    part: str
    include_synthetic: bool = False
    include_failed: bool = False
    without: tuple[str, ...] = ()
    model: ModelParams | None = None

    @property
    def counted_work(self) -> dict[str, Any]:
        """Included work, as `CountedWork` options."""
        return {
            "include_synthetic": self.include_synthetic,
            "include_failed": self.include_failed,
            "without": self.without,
        }

    @property
    def params(self) -> AnalysisParams:
        """Payload of the result's job."""
        return AnalysisParams(study=self.study.pk, part=self.part, model=self.model, **self.counted_work)

    @cached_property
    def counts(self) -> DataCounts:
        """Counts of the data at the first access, equal for all parts."""
        return data_counts(self.study, **self.counted_work)

    @cached_property
    def state(self) -> DataState:
        """State of the data at the first access."""
        return data_state(self.study, PARTS[self.part].reads, self.counts, **self.counted_work)

    def with_part(self, part: str, model: ModelParams | None = None) -> AnalysisKey:
        """Return the key of another part, sharing cached data."""
        sibling = replace(self, part=part, model=model)
        sibling.__dict__["counts"] = self.counts
        if PARTS[part].reads == PARTS[self.part].reads:
            sibling.__dict__["state"] = self.state
        return sibling

    @property
    def is_small(self) -> bool:
        """True if computing the result is as fast as looking it up."""
        if PARTS[self.part].is_costly:
            return False
        limit = DIRECT_RATINGS * (DIRECT_SHARE_OF_MODELS if self.part == "formula" else 1)
        return self.state.n_ratings <= limit and self.state.n_bots <= DIRECT_BOTS

    def jobs(self) -> QuerySet[Job]:
        """Return the jobs of this result for any data state, newest first."""
        return Job.objects.filter(kind=RESULTS_KIND, key__startswith=job_key(self.params, ""))


@dataclass(frozen=True, slots=True)
class CurrentResult:
    """Current result for a key, possibly outdated or pending.

    Attributes:
        computed_result: result of current or older data; None before the first, or without ratings.
        made_at: when it was computed.
        n_since: change in the number of ratings since.
        job: job that computes the current result, or its error; None if `computed_result` is current.
    """

    computed_result: ComputedResult | None = None
    made_at: datetime | None = None
    n_since: int = 0
    job: Job | None = None

    @property
    def is_current(self) -> bool:
        """True if nothing has changed since."""
        return self.job is None


def get_result(question: AnalysisKey, *, created_by: User | None = None) -> CurrentResult:
    """Return the current result, requesting a missing or outdated one.

    Each result has at most one running job: if the data change meanwhile, it finishes first and its result is shown as
    outdated.
    """
    if not question.state.n_ratings:
        return CurrentResult()
    if question.is_small:
        return CurrentResult(_computed(question), database_now())
    now = question.jobs().filter(key=job_key(question.params, question.state.digest)).first()
    if now is not None and now.state == State.DONE:
        stored_result = made_of(now)
        if stored_result is not None:
            return CurrentResult(stored_result, now.ended_at)
        now.delete()  # unreadable: from a Confab version with another format of this result
        now = None
    job = now or question.jobs().filter(state__in=UNFINISHED).first() or request_result(question, created_by)
    older = newest_made(question)
    if older is None:
        return CurrentResult(job=job)
    stored_result, made_at = older
    return CurrentResult(stored_result, made_at, question.state.n_ratings - stored_result.facts.n_ratings, job)


def request_result(question: AnalysisKey, created_by: User | None = None) -> Job:
    """Return the job that computes the current result, creating it if needed."""
    return job_ask(
        kind=RESULTS_KIND,
        payload=question.params.model_dump(),
        state=question.state.digest,
        study=question.study,
        created_by=created_by,
    )


def request_explanations(question: AnalysisKey) -> None:
    """Request the results that explain the same ratings, after all other waiting jobs.

    Small studies need none, because their pages compute results directly. A model by a formula is computed only for a
    user who asks for it.
    """
    for part in explanation_parts(question.study):
        if part == "formula":
            continue
        explanation = question.with_part(part)
        if not explanation.state.n_ratings or explanation.is_small:
            continue
        if not explanation.jobs().filter(state__in=UNFINISHED).exists():
            job_prioritise(job=request_result(explanation), priority=-1)


def request_analysis(study: Study) -> None:
    """Request a study's comparison of bots, which requests the explanations when it is done."""
    question = AnalysisKey(study, "comparisons")
    if question.state.n_ratings and not question.is_small:
        request_result(question)


def stored_now(question: AnalysisKey) -> ComputedResult | None:
    """Return the stored result of the current data, or None."""
    key = job_key(question.params, question.state.digest)
    job = question.jobs().filter(key=key, state=State.DONE).first()
    return None if job is None else made_of(job)


def result_at_hand(question: AnalysisKey) -> ComputedResult | None:
    """Return the current result if stored or small, without requesting it."""
    if not question.state.n_ratings:
        return None
    if question.is_small:
        return _computed(question)
    return stored_now(question)


def compute_now(question: AnalysisKey, *, wait: Callable[[], None]) -> ComputedResult | None:
    """Compute the current result here, unless another process does.

    The job's row is created before ratings are read, so that an erasure finds it. None without ratings.

    Args:
        wait: called twice a second while another process computes it; an exception ends the wait.

    Raises:
        Refused: it failed; with the reason.
    """
    if not question.state.n_ratings:
        return None
    if question.is_small:
        return _computed(question)
    job = request_result(question)
    if job.state in (State.FAILED, State.CANCELLED):
        job = job_restart(job=job, enqueue=True)
    while not job.is_over:
        run_job(job)
        job = job_read(job)
        if not job.is_over:
            wait()
            time.sleep(_PAUSE_S)
    stored_result = made_of(job) if job.state == State.DONE else None
    if stored_result is None:
        raise Refused("not_made", f"{job_title(job)}: {job.error or 'stopped'}")
    return stored_result


def newest_made(question: AnalysisKey) -> tuple[ComputedResult, datetime | None] | None:
    """Return the newest stored result for any data, and its time."""
    for job in question.jobs().filter(state=State.DONE).order_by("-ended_at"):
        stored_result = made_of(job)
        if stored_result is not None:
            return stored_result, job.ended_at
    return None


def made_of(job: Job) -> ComputedResult | None:
    """Return a job's stored result; None if unreadable."""
    try:
        return made_load(str(job.payload["part"]), job.result)
    except (KeyError, TypeError, ValueError):
        return None


def data_of(question: AnalysisKey) -> StudyData | None:
    """Read the study's data; None without ratings."""
    return study_data(question.study, **question.counted_work)


def _computed(question: AnalysisKey) -> ComputedResult | None:
    """Read the study and compute the requested part; None without ratings."""
    data = data_of(question)
    return None if data is None else compute_part(question.part, data, question.model)


def compute_part(part: str, data: StudyData, model: ModelParams | None = None) -> ComputedResult:
    """Return a part of the analysis of these data."""
    return ComputedResult(data.facts, study_model(data, model) if model else PARTS[part].make(data, None))


def made_dump(part: str, computed_result: ComputedResult) -> dict[str, Any]:
    """Return a result as JSON values for `Job.result`."""
    kind: AnalysisPart = PARTS[part]
    return {
        "facts": result_dump(computed_result.facts, Facts),
        "result": result_dump(computed_result.result, kind.type),
    }


def made_load(part: str, document: Any) -> ComputedResult:
    """Return the result that `made_dump` wrote.

    Raises:
        KeyError, TypeError, ValueError: the value is invalid.
    """
    return ComputedResult(result_load(document["facts"], Facts), result_load(document["result"], PARTS[part].type))


def prune(job: Job) -> int:
    """Delete old results of the job's key beyond `KEPT`; return the number.

    Each formula has its own key; the newest `KEPT_MODELS` of a study are kept.
    """
    same = Job.objects.filter(kind=job.kind, state=State.DONE, key__startswith=f"{question_of(job)}:")
    kept_results = list(same.order_by("-ended_at", "-pk").values_list("pk", flat=True)[:KEPT])
    models = Job.objects.filter(kind=job.kind, state=State.DONE, study=job.study, payload__part="formula")
    kept_models = list(models.order_by("-ended_at", "-pk").values_list("pk", flat=True)[:KEPT_MODELS])
    return same.exclude(pk__in=kept_results).delete()[0] + models.exclude(pk__in=kept_models).delete()[0]


def question_of(job: Job) -> str:
    """Return the first part of a job's key, without the data state."""
    return job.key.rpartition(":")[0]
