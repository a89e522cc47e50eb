"""Jobs that compute a study's analysis, flags and ranking, and the benchmark.

A stored result is kept until the data have changed twice. The benchmark compares metrics with ratings of single
replies, a shard for each metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from django.conf import settings
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _

from chatbots.text import quote
from chatbots.validation import InputModel
from evaluation.agreement.held_out import BAR
from evaluation.analysis.leaderboard import (
    PairRankingProgress,
    RankingProgress,
    pair_ranking_progress,
    ranking_progress,
)
from evaluation.data.languages import languages_of_sets
from evaluation.metrics.entailment import CLASS_COLUMN
from webapp.bots.selectors import text_store
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import UNFINISHED, Job, State
from webapp.jobs.selectors.metrics import metric_with_item_scores
from webapp.ratings.paired_comparisons import study_judgements
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import flags_make
from webapp.results.benchmark import (
    BASELINE,
    BENCHMARK_KIND,
    MOST_POINTS,
    BenchmarkParams,
    benchmark_judgements,
    benchmark_metrics,
    benchmark_pairs,
    data_now,
)
from webapp.results.benchmark_data import choices_of_judge, choices_of_metric, choices_result
from webapp.results.cache import (
    RESULTS_KIND,
    AnalysisKey,
    AnalysisParams,
    compute_part,
    made_dump,
    prune,
    request_explanations,
)
from webapp.results.compute import PARTS
from webapp.results.refresh import FLAGS_KIND, RANKING_KIND
from webapp.results.study_data import study_read
from webapp.studies.models import OrderState, Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    from evaluation.agreement.metric_agreement import JudgedReplies, MetricAgreement


@register_kind
class BenchmarkJob(JobKind[Job, BenchmarkParams]):
    """Job that computes each metric's agreement by dimension, with plot points."""

    name = BENCHMARK_KIND
    title = _("Benchmark")
    queue = "gpu"
    Payload = BenchmarkParams

    def job_title(self, job: Job) -> str:
        name = job.study.name if job.study is not None else job.payload["title"]
        return str(_("Benchmark of {data}")).format(data=name)

    def plan(self, job: Job, params: BenchmarkParams) -> Iterable[ShardPlan]:
        pairs = benchmark_pairs(params)
        if pairs is None:
            n_items = len(benchmark_judgements(params).items)
        else:
            n_items = 2 * pairs.n_items
        plans = [ShardPlan({"metric": name}, n_total=n_items) for name in params.metrics]
        if pairs is not None and pairs.judged is not None:
            plans.append(ShardPlan({"metric": ""}, n_total=pairs.n_items))
        return plans

    def slice(self, work: ShardWork[Job, BenchmarkParams]) -> dict[str, Any]:
        from evaluation.agreement.metric_agreement import judge_everywhere
        from evaluation.metrics.text_cache import TextCache

        name, data = work.shard["metric"], _data(work.params)
        pairs = benchmark_pairs(work.params)
        if pairs is not None and not name:
            judge_choices = choices_of_judge(pairs)
            work.beat(pairs.n_items, now=True)
            return {"metric": "", "data": data, "n_items": pairs.n_items, **judge_choices}
        [row] = [metric for metric in benchmark_metrics() if metric.name == name]
        work.beat(note=row.title)
        identity = row.metric.identity
        common_fields = {
            "metric": name,
            "title": row.title,
            "version": identity.version,
            "identity": identity.key,
            "data": data,
        }
        if pairs is not None:
            choices = choices_of_metric(pairs, name, lambda done, total: work.beat(done))
            work.beat(2 * pairs.n_items, now=True)
            return {**common_fields, "n_items": pairs.n_items, "choices": choices}
        judgements = benchmark_judgements(work.params)
        agreements = judge_everywhere(
            judgements,
            metric_with_item_scores(name, work.job.study) or name,
            shared=TextCache(settings.CONFAB_DEVICE, store=text_store()),
            progress=lambda done, total: work.beat(done),
        )
        work.beat(len(judgements.items), now=True)
        first = next(iter(agreements.values()))
        scores = next(iter(first.scores.values()), None)
        return {
            **common_fields,
            "n_items": len(judgements.items),
            "agreement": {target: _main(agreement.to_json()) for target, agreement in agreements.items()},
            "scores": [] if scores is None else _plain(_sample_evenly(scores)),
            **({"classes": classes} if (classes := _classes(first, len(judgements.items))) else {}),
            "missing": _missing(next(iter(first.reasons.values()), []), scores),
            "lower_is_better": next(iter(first.signs.values()), 1.0) < 0,
        }

    def finish(self, work: ShardWork[Job, BenchmarkParams], results: Sequence[Any]) -> dict[str, Any]:
        from evaluation.agreement.metric_agreement import human_means

        pairs = benchmark_pairs(work.params)
        if pairs is not None:
            return {"data": _data_then(results, pairs.n_items), **choices_result(pairs, results)}
        judgements = benchmark_judgements(work.params)
        places = _sample_evenly(np.arange(len(judgements.items)))
        return {
            "data": _data_then(results, len(judgements.items)),
            "n_items": len(judgements.items),
            "targets": judgements.targets,
            "target": judgements.target(),
            "skipped": judgements.skipped,
            "lines": list(judgements.lines),
            "metrics": list(results),
            **_system_tests(judgements, results),
            "means": {target: _plain(_sample_evenly(human_means(judgements, target))) for target in judgements.targets},
            "sources": _sample_evenly(np.array([judged_item.source for judged_item in judgements.items])).tolist(),
            "replies": [[judgements.items[k].key, judgements.items[k].model] for k in places.tolist()],
            "languages": languages_of_sets(
                (judged_item.source, [*judged_item.context, judged_item.response])
                for judged_item in (judgements.items[k] for k in places.tolist())
            ),
        }

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n, n_metrics = result["n_items"], sum(bool(part["metric"]) for part in result["metrics"])
        metrics = plural(n_metrics, "1 metric was", "%(n)d metrics were") % {"n": n_metrics}
        return [f"{metrics} compared with people’s answers about {n} items."]

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # perhaps a participant in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)


def study_of_job(job: Job, pk: int) -> Study:
    """Return the study of a job, which its payload names as well.

    Raises:
        Refused: it is gone.
    """
    if job.study is None or job.study.pk != pk:
        raise Refused("no_study", f"there is no study {pk}")
    return job.study


def _data_then(results: Sequence[dict[str, Any]], n_items: int) -> str:
    """Remove and return the common data digest of all shards' results.

    Raises:
        Refused: the number of items has changed.
    """
    if any(shard_result["n_items"] != n_items for shard_result in results):
        raise Refused("changed", str(__("The data changed during the computation. Please start it again.")))
    data = {shard_result.pop("data", "") for shard_result in results}
    return data.pop() if len(data) == 1 else "changed during the computation"


def _data(params: BenchmarkParams) -> str:
    """Return a digest of the current ratings; empty for an immutable file."""
    study = Study.objects.filter(key=params.study).first() if params.study else None
    return data_now(study) if study is not None else ""


def _system_tests(judgements: JudgedReplies, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Test each metric's soft pairwise accuracy against cosine or baseline.

    Empty if neither was computed, or only a sample of the scores was stored.

    Args:
        rows: the results of the metrics, with scores of all items.

    Returns:
        `system_bar`, the other metric, and `system_tests`: by dimension, metric and data set the test.
    """
    from evaluation.agreement.agreement_by_group import HumanScores
    from evaluation.agreement.metric_agreement import system_tests

    n_items = len(judgements.items)
    scores = {
        row["metric"]: (-1.0 if row["lower_is_better"] else 1.0) * np.array(row["scores"], dtype=float)
        for row in rows
        if len(row["scores"]) == n_items
    }
    bar = next((name for name in (BAR, BASELINE) if name in scores), None)
    if bar is None:
        return {}
    humans = [HumanScores.from_items(judgements.items, {}, target) for target in judgements.targets]
    tests = {
        human_scores.target: {
            name: {
                source: test.to_json()
                for source, test in system_tests(metric_scores, scores[bar], human_scores).items()
            }
            for name, metric_scores in scores.items()
            if name != bar
        }
        for human_scores in humans
    }
    return {"system_bar": bar, "system_tests": tests}


def _main(agreement: dict[str, Any]) -> dict[str, Any]:
    """Keep only the main column of a metric, which pages show."""
    return {name: value for name, value in agreement.items() if name != "columns"}


def _classes(agreement: MetricAgreement, n_items: int) -> dict[str, list[float | None]]:
    """Return the classes of all replies by column of a classifier; empty for other metrics and large data sets."""
    if n_items > MOST_POINTS:
        return {}
    return {name: _plain(values) for name, values in agreement.scores.items() if name.endswith(CLASS_COLUMN)}


def _sample_evenly(values: np.ndarray) -> np.ndarray:
    """Sample the items' values evenly, at most as many as plots show."""
    if len(values) <= MOST_POINTS:
        return values
    return values[np.linspace(0, len(values) - 1, MOST_POINTS).astype(int)]


def _missing(reasons: Sequence[str], scores: np.ndarray | None) -> dict[str, list[int]]:
    """Return the numbers of the sampled replies without a score, by reason."""
    missing: dict[str, list[int]] = {}
    if scores is not None:
        for number, k in enumerate(_sample_evenly(np.arange(len(scores))).tolist()):
            if not math.isfinite(scores[k]):
                missing.setdefault(reasons[k], []).append(number)
    return missing


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


@register_kind
class AnalysisJob(JobKind[Job, AnalysisParams]):
    """Job that computes one part of the analysis.

    `cache.made_of` reads its result.
    """

    name = RESULTS_KIND
    title = _("Analysis")
    queue = "analysis"
    Payload = AnalysisParams

    def job_title(self, job: Job) -> str:
        study = job.study.name if job.study is not None else ""
        return str(_("Analysis of {study}: {part}")).format(study=study, part=job.payload["part"])

    def check(self, params: AnalysisParams) -> None:
        if params.part not in PARTS:
            raise Refused("no_part", f"unknown part {quote(params.part)}; choose from {', '.join(PARTS)}")

    def slice(self, work: ShardWork[Job, AnalysisParams]) -> dict[str, Any]:
        params, study = work.params, study_of_job(work.job, work.params.study)
        work.beat(note=str(_("Reading the ratings")))
        data = study_read(study, **params.model_dump(exclude={"study", "part", "model"}))
        if data is None:
            raise Refused("no_ratings", f"study {study.key} no longer has ratings")
        work.beat(note=str(_("Computing")), now=True)
        return made_dump(params.part, compute_part(params.part, data, params.model))

    def describe_result(self, job: Job, result: Any) -> list[str]:
        return [f"The part “{job.payload['part']}” of the results is computed."]

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # after the last heartbeat: possibly a participant in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)
        elif job.payload["part"] == "comparisons" and job.study is not None:
            request_explanations(question_of_job(job, job.study))
        prune(job)


def question_of_job(job: Job, study: Study) -> AnalysisKey:
    """Return the key of the result that an analysis job computes."""
    params = AnalysisParams.model_validate(job.payload)
    return AnalysisKey(
        study, params.part, params.include_synthetic, params.include_failed, tuple(params.without), params.model
    )


class StudyJobParams(InputModel):
    """Parameters of a job on a study: its number."""

    study: int


class _StudyJob(JobKind[Job, StudyJobParams]):
    """Base of jobs on all data of a study.

    Only the newest one is kept.
    """

    queue = "analysis"
    Payload = StudyJobParams

    def slice(self, work: ShardWork[Job, StudyJobParams]) -> dict[str, Any]:
        return self.look(work, study_of_job(work.job, work.params.study))

    def look(self, work: ShardWork[Job, StudyJobParams], study: Study) -> dict[str, Any]:
        """Process the study, and return the job's result."""
        raise NotImplementedError

    def follow_up(self, job: Job) -> None:
        older = Job.objects.filter(kind=self.name, study=job.study).exclude(pk=job.pk)
        older.exclude(state__in=UNFINISHED).delete()


@register_kind
class FlagsJob(_StudyJob):
    """Job that computes a study's flags, stored in `TaskFlag` and `FlagState`."""

    name = FLAGS_KIND
    title = _("Flags")

    def look(self, work: ShardWork[Job, StudyJobParams], study: Study) -> dict[str, Any]:
        state = flags_make(study=study)
        work.beat(now=True)
        return {"n_tasks": state.n_tasks}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n = result["n_tasks"]
        return [plural(n, "The flags of 1 task are computed.", "The flags of %(n)d tasks are computed.") % {"n": n}]


@register_kind
class RankingJob(_StudyJob):
    """Job that computes a study's ranking, stored in `OrderState`."""

    name = RANKING_KIND
    title = _("Order of the bots")

    def look(self, work: ShardWork[Job, StudyJobParams], study: Study) -> dict[str, Any]:
        progress: RankingProgress | PairRankingProgress
        if get_protocol(study).compares_pairs:
            judged = study_judgements(study)
            if judged is None or not len(judged):
                return {"n_ratings": 0}
            n, progress = len(judged.choices or judged), pair_ranking_progress(judged)
        else:
            ratings = study_ratings(study)
            if ratings.leading is None or not len(ratings):
                return {"n_ratings": 0}
            n, progress = len(ratings), ranking_progress(ratings)
        work.beat(now=True)
        fields = {"found": progress.to_json(), "n_ratings": n, "made_at": database_now()}
        OrderState.objects.update_or_create(study=study, defaults=fields)
        return {"n_ratings": n}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n = result["n_ratings"]
        return [plural(n, "The ranking uses 1 rating.", "The ranking uses %(n)d ratings.") % {"n": n}]
