"""Metrics, and the conversations that have no result of them yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Sum

from chatbots.registry import UnknownName
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.runs.models import MetricResult, MetricRun, MetricVersion, ResultTally, SelfPlayRun
from webapp.studies.models import Study

if TYPE_CHECKING:
    from evaluation.metrics.base import Metric


def metrics_all() -> list[Metric]:
    """Return every registered metric, by name. Loads nothing."""
    from evaluation.metrics.registry import metric_list

    return metric_list()


def metric_titles(*, ingredients: bool = True) -> dict[str, str]:
    """Return the titles of conversation-level columns.

    Args:
        ingredients: those too that are there for fits that take many together, not to be read one by one.
    """
    return {
        column.name: column.title.removesuffix(", mean")
        for metric in metrics_all()
        if ingredients or not getattr(metric, "ingredient", False)
        for column in metric.columns
        if column.level == "conversation"
    }


def metrics_find(names: Sequence[str] = ()) -> list[Metric]:
    """Return the metrics of these names; without names, those computed by default that can be computed here.

    Raises:
        UnknownName: there is none of a name; the message names the nearest ones.
        Refused: `unavailable` for one asked for by name, with the reason.
    """
    from evaluation.metrics.configured import configured_metrics
    from evaluation.metrics.registry import metric_defaults, metric_get

    if not names:
        return metric_defaults()
    chosen = []
    for name in dict.fromkeys(names):
        try:
            chosen.append(metric_get(name))
        except UnknownName:
            for broken in configured_metrics.broken:
                if broken.id == name:
                    raise UnknownName(str(broken)) from None
            raise
    for metric in chosen:
        reason = metric.unavailable_reason()
        if reason is not None:
            raise Refused("unavailable", f"{metric.name} cannot be computed here: {reason}")
    return chosen


def measurable(*, study: Study | None, run: SelfPlayRun | None) -> QuerySet[Conversation]:
    """Return the conversations that will not change any more: neither open nor failed nor withdrawn."""
    rows = Conversation.objects.filter(state=Conversation.State.COMPLETED)
    return rows.filter(study=study) if study is not None else rows.filter(selfplay__run=run)


def _lacking(
    study: Study | None, run: SelfPlayRun | None, versions: Collection[MetricVersion]
) -> QuerySet[Conversation]:
    ids = [version.pk for version in versions]
    return (
        measurable(study=study, run=run)
        .annotate(n_results=Count("metric_results", filter=Q(metric_results__metric__in=ids)))
        .filter(n_results__lt=len(ids))
    )


def conversations_lacking_count(
    *, study: Study | None, run: SelfPlayRun | None, versions: Collection[MetricVersion]
) -> int:
    """Count the conversations that lack a result of at least one of the metrics."""
    return _lacking(study, run, versions).count()


def conversations_unmeasured(run: SelfPlayRun) -> int:
    """Count the finished conversations of a run that lack a metric which is computed by default, as it is now."""
    wanted = {metric.identity.key for metric in metrics_find()}
    versions = list(MetricVersion.objects.filter(key__in=wanted))
    if len(versions) < len(wanted):
        return measurable(study=None, run=run).count()
    return conversations_lacking_count(study=None, run=run, versions=versions)


def conversations_lacking(
    *,
    study: Study | None,
    run: SelfPlayRun | None,
    versions: Collection[MetricVersion],
) -> list[UUID]:
    """Return those conversations, oldest first."""
    return list(
        _lacking(study, run, versions).order_by("created_at", "pk").values_list("pk", flat=True)
    )


def metrics_lacked(
    conversation_ids: Collection[UUID], versions: Mapping[str, MetricVersion]
) -> dict[UUID, tuple[str, ...]]:
    """Return per conversation the names of the metrics that have no result of this version there.

    Args:
        versions: by name of the metric.
    """
    names = {version.pk: name for name, version in versions.items()}
    there: dict[UUID, set[str]] = {}
    rows = MetricResult.objects.filter(conversation__in=conversation_ids, metric__in=list(names))
    for conversation_id, metric_id in rows.values_list("conversation_id", "metric_id"):
        there.setdefault(conversation_id, set()).add(names[metric_id])
    return {
        pk: tuple(name for name in versions if name not in there.get(pk, ()))
        for pk in conversation_ids
    }


def results_by_version(
    *, study: Study | None, run: SelfPlayRun | None
) -> list[tuple[int, str, int]]:
    """Return the number of finished conversations with a result, by metric version and language.

    Each row is the key of the metric's version, the language and the number, of a study or of a run. Those of a study
    are read from the tally, for it may have millions of results.
    """
    if study is not None:
        rows: QuerySet[Any] = ResultTally.objects.filter(study=study)
        found = rows.order_by().values_list("metric", "language").annotate(Sum("n"))
        return [row for row in found if row[2]]
    rows = MetricResult.objects.filter(conversation__in=measurable(study=None, run=run))
    return list(rows.order_by().values_list("metric", "language").annotate(Count("pk")))


def versions_used(conversations: QuerySet[Conversation]) -> list[tuple[MetricVersion, bool]]:
    """Return the versions of metrics that conversations have results of, each with whether it is the present one."""
    used = MetricResult.objects.filter(conversation__in=conversations).order_by()
    there = MetricVersion.objects.filter(pk__in=used.values("metric").distinct())
    current = {version.pk for version in versions_current(metrics_all()).values()}
    return [(version, version.pk in current) for version in there.order_by("name", "pk")]


def versions_current(metrics: Sequence[Metric]) -> dict[str, MetricVersion]:
    """Return by metric name the row of its present identity; a metric never computed has none."""
    keys = {metric.identity.key: metric.name for metric in metrics}
    return {
        keys[version.key]: version for version in MetricVersion.objects.filter(key__in=list(keys))
    }


def metric_runs_newest(study: Study, n: int) -> list[MetricRun]:
    """Return the `n` newest runs that measured conversations of the study."""
    return list(MetricRun.objects.filter(study=study)[:n])


def metric_run_of(run: SelfPlayRun) -> MetricRun | None:
    """Return the newest run that measures this self-play; None if none does."""
    return MetricRun.objects.filter(run=run).order_by("-pk").first()
