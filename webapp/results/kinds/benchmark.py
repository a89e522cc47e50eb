"""Job that compares metrics with ratings of single replies, a shard for each metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from django.conf import settings
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _

from evaluation.languages import languages_of_sets
from webapp.bots.text_store import text_store
from webapp.core.errors import Refused
from webapp.results.benchmark import (
    KIND,
    MOST_POINTS,
    BenchmarkAsked,
    benchmark_judgements,
    benchmark_metrics,
    benchmark_pairs,
    data_now,
)
from webapp.results.benchmark_choices import choices_of_judge, choices_of_metric, choices_result
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job, State
from webapp.studies.models import Study


@register_kind
class Benchmark(Kind[Job, BenchmarkAsked]):
    """By metric the agreement on every dimension, with the version that was computed, and points to plot."""

    name = KIND
    title = _("Benchmark")
    queue = "gpu"
    Payload = BenchmarkAsked

    def job_title(self, job: Job) -> str:
        name = job.study.name if job.study is not None else job.payload["title"]
        return str(_("Benchmark of {data}")).format(data=name)

    def plan(self, job: Job, asked: BenchmarkAsked) -> Iterable[ShardPlan]:
        pairs = benchmark_pairs(asked)
        if pairs is None:
            n_items = len(benchmark_judgements(asked).items)
        else:
            n_items = 2 * pairs.n_items
        plans = [ShardPlan({"metric": name}, n_total=n_items) for name in asked.metrics]
        if pairs is not None and pairs.judged is not None:
            plans.append(ShardPlan({"metric": ""}, n_total=pairs.n_items))
        return plans

    def slice(self, work: Work[Job, BenchmarkAsked]) -> dict[str, Any]:
        from evaluation.judgements import judge_everywhere
        from evaluation.metrics.shared import Shared

        name, data = work.shard["metric"], _data(work.asked)
        pairs = benchmark_pairs(work.asked)
        if pairs is not None and not name:
            found_of_judge = choices_of_judge(pairs)
            work.beat(pairs.n_items, now=True)
            return {"metric": "", "data": data, "n_items": pairs.n_items, **found_of_judge}
        [row] = [one for one in benchmark_metrics() if one.name == name]
        work.beat(note=row.title)
        identity = row.metric.identity
        told = {
            "metric": name,
            "title": row.title,
            "version": identity.version,
            "identity": identity.key,
            "data": data,
        }
        if pairs is not None:
            choices = choices_of_metric(pairs, name, lambda done, total: work.beat(done))
            work.beat(2 * pairs.n_items, now=True)
            return {**told, "n_items": pairs.n_items, "choices": choices}
        judgements = benchmark_judgements(work.asked)
        found = judge_everywhere(
            judgements,
            name,
            shared=Shared(settings.CONFAB_DEVICE, store=text_store()),
            progress=lambda done, total: work.beat(done),
        )
        work.beat(len(judgements.items), now=True)
        first = next(iter(found.values()))
        scores = next(iter(first.scores.values()), None)
        return {
            **told,
            "n_items": len(judgements.items),
            "agreement": {target: _main(one.to_json()) for target, one in found.items()},
            "scores": [] if scores is None else _plain(_kept(scores)),
        }

    def finish(self, work: Work[Job, BenchmarkAsked], results: Sequence[Any]) -> dict[str, Any]:
        from evaluation.judgements import human_means

        pairs = benchmark_pairs(work.asked)
        if pairs is not None:
            return {"data": _data_then(results, pairs.n_items), **choices_result(pairs, results)}
        judgements = benchmark_judgements(work.asked)
        places = _kept(np.arange(len(judgements.items)))
        return {
            "data": _data_then(results, len(judgements.items)),
            "n_items": len(judgements.items),
            "targets": judgements.targets,
            "target": judgements.target(),
            "skipped": judgements.skipped,
            "lines": list(judgements.lines),
            "metrics": list(results),
            "means": {
                target: _plain(_kept(human_means(judgements, target)))
                for target in judgements.targets
            },
            "sources": _kept(np.array([one.source for one in judgements.items])).tolist(),
            "languages": languages_of_sets(
                (one.source, [*one.context, one.response])
                for one in (judgements.items[k] for k in places.tolist())
            ),
        }

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # perhaps a participant in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)


def _data_then(results: Sequence[dict[str, Any]], n_items: int) -> str:
    """Return the digest of the data that all shards were of, and take it out of their results.

    Raises:
        Refused: there are not as many items any more.
    """
    if any(one["n_items"] != n_items for one in results):
        raise Refused("changed", str(__("The data changed while it was computed; begin again.")))
    data = {one.pop("data", "") for one in results}
    return data.pop() if len(data) == 1 else "changed while it was computed"


def _data(asked: BenchmarkAsked) -> str:
    """Return a digest of the present ratings; empty for a file, which does not change."""
    study = Study.objects.filter(key=asked.study).first() if asked.study else None
    return data_now(study) if study is not None else ""


def _main(agreement: dict[str, Any]) -> dict[str, Any]:
    """Leave out the further columns of a metric: pages show its main one."""
    return {name: value for name, value in agreement.items() if name != "columns"}


def _kept(values: np.ndarray) -> np.ndarray:
    """Return at most so many of the items' values as plots show, evenly spread over the set."""
    if len(values) <= MOST_POINTS:
        return values
    return values[np.linspace(0, len(values) - 1, MOST_POINTS).astype(int)]


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]
