"""Job that explains the scores of one reply: what each metric has seen in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.validation import Many
from evaluation.agreement.reply_scores import explain_reply
from evaluation.metrics.explanations import Explanation
from evaluation.metrics.imported import ScoreFileMetric
from evaluation.metrics.registry import metric_and_columns
from evaluation.number_format import result_dump, result_load
from webapp.bots.selectors import text_store
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job, State
from webapp.jobs.services.jobs import job_ask, job_restart
from webapp.results.benchmark import BenchmarkParams, benchmark_judgements, benchmark_metrics

EXPLANATION_KIND = "explanation"


class ExplanationParams(BenchmarkParams):
    """Parameters of an explanation: a benchmark's data and metrics, and one of its replies.

    Attributes:
        key, model: the reply, as in the benchmark's result.
    """

    key: str
    model: str
    versions: Many[str]


@register_kind
class ExplanationJob(JobKind[Job, ExplanationParams]):
    """Job with one part per metric; its result holds the explanations that metrics have."""

    name = EXPLANATION_KIND
    title = _("Explanation of a reply’s scores")
    queue = "gpu"
    Payload = ExplanationParams

    def plan(self, job: Job, params: ExplanationParams) -> Iterable[ShardPlan]:
        return [ShardPlan(n_total=len(params.metrics))]

    def slice(self, work: ShardWork[Job, ExplanationParams]) -> list[dict[str, Any]]:
        from evaluation.metrics.text_cache import TextCache

        params = work.params
        items = benchmark_judgements(params).items
        item = next((item for item in items if (item.key, item.model) == (params.key, params.model)), None)
        if item is None:
            raise Refused("not_found", str(_("The reply no longer exists in the data.")))
        shared = TextCache(settings.CONFAB_DEVICE, store=text_store())
        titles = {row.name: row.title for row in benchmark_metrics()}
        explanations = []
        for number, name in enumerate(params.metrics):
            work.beat(number, note=titles.get(name, name))
            explanation = explain_reply(metric_and_columns(name)[0], item, items, shared)
            if explanation is not None:
                dumped = result_dump(explanation, Explanation)
                explanations.append({"metric": name, "title": titles.get(name, name), "explanation": dumped})
        work.beat(len(params.metrics), note="", now=True)
        return explanations

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n = plural(len(result), "1 metric explains", "%(n)d metrics explain") % {"n": len(result)}
        return [f"{n} its score of this reply."]


def explanation_params(benchmark: Job, number: int) -> tuple[dict[str, Any], str]:
    """Return payload and state of the explanation of a reply in a benchmark's result."""
    result = benchmark.result or {}
    key, model = result["replies"][number]
    # Imported scores come without an explanation.
    metrics = [row for row in benchmark_metrics() if not isinstance(row.metric, ScoreFileMetric)]
    known = {row.name for row in metrics if not row.reason}
    computed = [row for row in result["metrics"] if row["metric"] in known]
    payload = {
        **benchmark.payload,
        "metrics": [row["metric"] for row in computed],
        "versions": [row["identity"] for row in computed],
        "key": key,
        "model": model,
    }
    return payload, str(result.get("data", ""))


def explanation_ask(benchmark: Job, number: int, created_by: Any = None) -> Job:
    """Return the job that explains a reply; a failed or stopped one restarts.

    Raises:
        Refused: none of the benchmark's metrics can be computed any more.
    """
    payload, state = explanation_params(benchmark, number)
    if not payload["metrics"]:
        raise Refused("no_metric", str(_("None of these metrics can be computed here any more.")))
    job = job_ask(kind=EXPLANATION_KIND, payload=payload, state=state, study=benchmark.study, created_by=created_by)
    return job_restart(job=job, enqueue=True) if job.state in (State.FAILED, State.CANCELLED) else job


def explanation_of(benchmark: Job, number: int) -> Job | None:
    """Return the newest job that explains a reply of a benchmark, or None."""
    key, model = (benchmark.result or {})["replies"][number]
    fields = {"payload__file": benchmark.payload["file"], "payload__study": benchmark.payload["study"]}
    jobs = Job.objects.filter(kind=EXPLANATION_KIND, payload__key=key, payload__model=model, **fields)
    return jobs.order_by("-pk").first()


def explanations_read(job: Job) -> list[tuple[str, str, Explanation]]:
    """Return name, title and explanation of each metric of a finished job."""
    return [(row["metric"], row["title"], result_load(row["explanation"], Explanation)) for row in job.result or ()]
