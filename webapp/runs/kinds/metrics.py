"""Metrics of every conversation of a study or of a self-play run that has none of this version yet.

A shard is a list of conversations that lack the same metrics, in batches of fixed size, computed with nothing that was
kept from before: a sentence vector depends, in its last digits, on what it was encoded with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values
from webapp.bots.text_store import text_store
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversation_values
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import MetricRun
from webapp.runs.selectors.metrics import conversations_lacking, metrics_find, metrics_lacked
from webapp.runs.selectors.selfplay import selfplay_alone
from webapp.runs.services.metrics import (
    metric_results_store,
    metric_run_languages_store,
    metric_version_record,
)

BATCH = 128
SHARD = 2 * BATCH


class MetricsAsked(Values):
    """Names of metrics; services have looked them up."""

    metrics: list[str]


@register_kind
class Metrics(Kind[MetricRun, MetricsAsked]):
    """Metric results, one row per conversation and metric."""

    name = "metrics"
    title = _("Metrics")
    queue = "gpu"
    Payload = MetricsAsked
    model = MetricRun

    def job_title(self, job: MetricRun) -> str:
        name = job.study.name if job.study is not None else str(job.run)
        return str(_("Metrics for {name}")).format(name=name)

    def plan(self, job: MetricRun, asked: MetricsAsked) -> Iterable[ShardPlan]:
        versions = {
            metric.name: metric_version_record(metric=metric)
            for metric in metrics_find(asked.metrics)
        }
        ids = conversations_lacking(study=job.study, run=job.run, versions=list(versions.values()))
        groups: dict[tuple[bool, tuple[str, ...]], list[UUID]] = {}
        for start in range(0, len(ids), CHUNK):
            some = ids[start : start + CHUNK]
            alone, lacked = selfplay_alone(some), metrics_lacked(some, versions)
            for pk in some:
                groups.setdefault((pk in alone, lacked[pk]), []).append(pk)
        for (self_play, names), group in groups.items():
            for start in range(0, len(group), SHARD):
                some = group[start : start + SHARD]
                yield ShardPlan(
                    {"self_play": self_play, "metrics": names, "ids": [str(pk) for pk in some]},
                    n_total=len(some),
                )

    def slice(self, work: Work[MetricRun, MetricsAsked]) -> dict[str, int]:
        """Compute and store. Returns in how many conversations each language was found."""
        from evaluation.languages import language_of
        from evaluation.metrics.shared import Shared

        metrics = metrics_find(work.shard["metrics"])
        tells_languages = any(getattr(metric, "languages", None) for metric in metrics)
        languages: Counter[str] = Counter()
        shared = Shared(settings.CONFAB_DEVICE, store=text_store())
        ids = work.shard["ids"]
        for start in range(0, len(ids), BATCH):
            # Somebody may have been erased meanwhile.
            rows = Conversation.objects.filter(pk__in=ids[start : start + BATCH])
            conversations = list(conversation_values(rows.order_by("created_at", "pk")))
            n_turns = {conversation.id: len(conversation.turns) for conversation in conversations}
            for metric in metrics:
                table = metric.compute(
                    conversations, self_play=work.shard["self_play"], shared=shared
                )
                if without := set(n_turns).difference(table.conversations.index):
                    raise RuntimeError(
                        f"{metric.name} gave no result for conversation {min(without)}"
                    )
                metric_results_store(
                    version=metric_version_record(metric=metric), table=table, n_turns=n_turns
                )
                work.beat()
            if tells_languages:
                found = (language_of(one.texts) for one in conversations)
                languages.update(code for code in found if code is not None)
            work.beat(min(start + BATCH, len(ids)), now=True)
        return dict(languages)

    def finish(self, work: Work[MetricRun, MetricsAsked], results: Sequence[Any]) -> None:
        languages: Counter[str] = Counter()
        for found in results:
            languages.update(found or {})
        metric_run_languages_store(job=work.job, languages=languages)


CHUNK = 5_000
"""Conversations whose results are looked up at once: SQLite takes a limited number of parameters."""
