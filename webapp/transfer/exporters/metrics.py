"""One row per conversation with what the metrics found in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from webapp.reading.totals import totals
from webapp.runs.models import MetricResult, MetricVersion
from webapp.runs.selectors.metrics import metrics_all
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    CONVERSATION_COLUMNS,
    STATES,
    ExportColumn,
    ExportOptions,
    Source,
    conversations_included,
    included,
    of_source,
    register_exporter,
    study_key,
)

CHUNK = 500
UNDEFINED = "Undefined here; of a whole conversation the table undefined says why."
_BEFORE = (
    *CONVERSATION_COLUMNS,
    ExportColumn("state", "text", "Of the conversation: completed or failed.", STATES),
    ExportColumn("n_human_turns_answered", "integer", "Human turns that the bot answered."),
)


@register_exporter
class Metrics:
    name = packaged = "metrics"
    title = "Metrics"
    description = (
        "One row per conversation that has been measured, with a column per metric column."
    )
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        found = [column for _, columns in measured(study, "conversation") for column in columns]
        return [*_BEFORE, *found]

    def count(self, study: Study, options: ExportOptions) -> int:
        return totals(study, included(study, options), "results").n_results

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        chosen = measured(study, "conversation")
        names = [column.name for _, columns in chosen for column in columns]
        versions = [version.pk for version, _ in chosen]
        conversations = (
            conversations_included(study, options)
            .values_list("pk", "bot__bot_id", "is_synthetic", "state", "n_exchanges")
            .iterator(chunk_size=CHUNK)
        )
        while chunk := list(islice(conversations, CHUNK)):
            results = MetricResult.objects.filter(
                conversation__in=[row[0] for row in chunk], metric__in=versions
            )
            values: dict[Any, dict[str, Any]] = {}
            for pk, found in results.values_list("conversation_id", "values"):
                values.setdefault(pk, {}).update(found)
            for pk, bot, *rest in chunk:
                if pk in values:
                    yield [
                        str(pk),
                        bot,
                        study_key(study),
                        *rest,
                        *(values[pk].get(name) for name in names),
                    ]


def measured(study: Source, level: str) -> list[tuple[MetricVersion, list[ExportColumn]]]:
    """Return the metric versions with results in this study or run, one per metric, with their columns of a level.

    The present version of a metric goes before older ones; a metric that is not registered any more keeps
    the columns of its results.
    """
    registered = {metric.name: metric for metric in metrics_all()}
    current = {metric.identity.key for metric in registered.values()}
    versions = sorted(
        MetricVersion.objects.order_by("-created_at"), key=lambda v: v.key not in current
    )
    found: dict[str, tuple[MetricVersion, list[ExportColumn]]] = {}
    for version in versions:
        if version.name in found:
            continue
        # Any one of them; the first by number would have to be looked for.
        there = MetricResult.objects.filter(
            of_source(study, prefix="conversation__"), metric=version
        )
        sample = next(iter(there.order_by()[:1]), None)
        if sample is None:
            continue
        if version.name in registered and version.key in current:
            columns = [
                ExportColumn(
                    column.name,
                    "number",
                    f"{column.description} [{column.unit}; {version.name} {version.version}]",
                    unit=column.unit,
                    missing=UNDEFINED,
                )
                for column in registered[version.name].columns
                if column.level == level
            ]
        else:
            stored = sample.values if level == "conversation" else sample.turns
            told = f"Of {version.name} {version.version}, which is not the version here now."
            columns = [ExportColumn(name, "number", told, missing=UNDEFINED) for name in stored]
        found[version.name] = (version, columns)
    return [found[name] for name in sorted(found)]
