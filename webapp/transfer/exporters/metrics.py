"""Tables of metrics: by conversation, by utterance, and undefined values with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from evaluation.data.languages import other_language
from webapp.conversations.models import Turn
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.jobs.selectors.metrics import metrics_all
from webapp.search.index_statistics import conversation_totals
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    CHUNK,
    CONVERSATION_COLUMNS,
    SPEAKERS,
    STATES,
    ExportColumn,
    ExportOptions,
    Source,
    condition_cells,
    condition_columns,
    conversations_included,
    included,
    of_source,
    register_exporter,
    study_key,
)

METRICS_CHUNK = 500
UNDEFINED = "Undefined here; for whole conversations, the table undefined gives the reason."
_BEFORE = (
    *CONVERSATION_COLUMNS,
    ExportColumn("state", "text", "State of the conversation: completed or failed.", STATES),
    ExportColumn("n_human_turns_answered", "integer", "Number of participant messages that the bot answered."),
)


@register_exporter
class MetricsTable:
    name = packaged = "metrics"
    title = "Metrics"
    description = "One row per measured conversation, with one column per metric value."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        metric_columns = [column for _, columns in measured(study, "conversation") for column in columns]
        return [*_BEFORE, *metric_columns, *condition_columns(study)]

    def count(self, study: Study, options: ExportOptions) -> int:
        return conversation_totals(study, included(study, options), "results").n_results

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        chosen = measured(study, "conversation")
        names = [column.name for _, columns in chosen for column in columns]
        versions = [version.pk for version, _ in chosen]
        factors = condition_columns(study)
        conversations = (
            conversations_included(study, options)
            .values_list("pk", "bot__bot_id", "is_synthetic", "state", "n_exchanges", "condition", "sitting")
            .iterator(chunk_size=METRICS_CHUNK)
        )
        while chunk := list(islice(conversations, METRICS_CHUNK)):
            results = MetricResult.objects.filter(conversation__in=[row[0] for row in chunk], metric__in=versions)
            values: dict[Any, dict[str, Any]] = {}
            for pk, metric_values in results.values_list("conversation_id", "values"):
                values.setdefault(pk, {}).update(metric_values)
            for pk, bot, *rest, condition, sitting in chunk:
                if pk in values:
                    of_metrics = (values[pk].get(name) for name in names)
                    condition_values = condition_cells(factors, condition, sitting)
                    yield [str(pk), bot, study_key(study), *rest, *of_metrics, *condition_values]


def measured(study: Source, level: str) -> list[tuple[MetricVersion, list[ExportColumn]]]:
    """Return the metric versions with results and their columns.

    There is one version per metric of this study or run.

    The current version of a metric has priority; a metric that is no longer registered keeps the columns of its
    results.
    """
    registered = {metric.name: metric for metric in metrics_all()}
    current = {metric.identity.key for metric in registered.values()}
    versions = sorted(MetricVersion.objects.order_by("-created_at"), key=lambda v: v.key not in current)
    metrics_by_name: dict[str, tuple[MetricVersion, list[ExportColumn]]] = {}
    for version in versions:
        if version.name in metrics_by_name:
            continue
        # Any one of them: finding the lowest id would be slow.
        results = MetricResult.objects.filter(of_source(study, prefix="conversation__"), metric=version)
        sample = next(iter(results.order_by()[:1]), None)
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
            description = f"From {version.name} {version.version}, which is not the current version."
            columns = [ExportColumn(name, "number", description, missing=UNDEFINED) for name in stored]
        metrics_by_name[version.name] = (version, columns)
    return [metrics_by_name[name] for name in sorted(metrics_by_name)]


TURN_CHUNK = 200
_TURN_METRICS_BEFORE = (
    *CONVERSATION_COLUMNS,
    ExportColumn("turn", "integer", "Number of the utterance in its conversation, from 0."),
    ExportColumn("speaker", "text", "human or bot.", SPEAKERS),
)


@register_exporter
class TurnMetricsTable:
    name = packaged = "turn_metrics"
    title = "Metrics per message"
    description = "One row per utterance of measured conversations, with one column per metric value."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return [*_TURN_METRICS_BEFORE, *(column for _, columns in measured(study, "turn") for column in columns)]

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        chosen = measured(study, "turn")
        names = [column.name for _, columns in chosen for column in columns]
        versions = [version.pk for version, _ in chosen]
        conversations = (
            conversations_included(study, options)
            .values_list("pk", "bot__bot_id", "is_synthetic")
            .iterator(chunk_size=TURN_CHUNK)
        )
        while chunk := {pk: rest for pk, *rest in islice(conversations, TURN_CHUNK)}:
            results = MetricResult.objects.filter(conversation__in=list(chunk), metric__in=versions)
            values: dict[Any, dict[str, list[Any]]] = {}
            for pk, turn_values in results.values_list("conversation_id", "turns"):
                values.setdefault(pk, {}).update(turn_values)
            turns = Turn.objects.filter(conversation__in=list(values), is_refused=False)
            n_before: Counter[Any] = Counter()
            for pk, index, speaker in turns.order_by("conversation_id", "index").values_list(
                "conversation_id", "index", "speaker"
            ):
                chat_values, position = values[pk], n_before[pk]
                n_before[pk] += 1
                bot, is_synthetic = chunk[pk]
                yield [
                    str(pk),
                    bot,
                    study_key(study),
                    is_synthetic,
                    index,
                    speaker,
                    *(
                        chat_values[name][position]
                        if name in chat_values and position < len(chat_values[name])
                        else None
                        for name in names
                    ),
                ]


_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("metric", "text", "Column that is empty in the table metrics."),
    ExportColumn("reason", "text", "Reason why it has no value."),
    ExportColumn(
        "code",
        "text",
        "Machine-readable code of the reason, if it has one: other_language for a metric that does not support the "
        "language of the conversation.",
    ),
    ExportColumn(
        "details",
        "json",
        "Details of the code: the language of the conversation, and the languages that the metric supports.",
    ),
)


def _describe_reason(reason: str | Mapping[str, Any]) -> tuple[str, str]:
    """Return a reason in words, and its code if it has one.

    So far, only unsupported languages have a code.
    """
    if isinstance(reason, str):
        return reason, ""
    return str(other_language(reason["language"], reason["holds"])), reason["code"]


@register_exporter
class UndefinedTable:
    name = packaged = "undefined"
    title = "Undefined metrics"
    description = "One row per undefined metric value, with the reason."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        results = MetricResult.objects.filter(
            included(study, options, prefix="conversation__"),
            metric__in=[version.pk for version, _ in measured(study, "conversation")],
        ).exclude(reasons={})
        rows = results.order_by("conversation__created_at", "conversation_id", "metric__name")
        for chat, bot, is_synthetic, values, reasons in rows.values_list(
            "conversation_id", "conversation__bot__bot_id", "conversation__is_synthetic", "values", "reasons"
        ).iterator(chunk_size=CHUNK):
            for name in sorted(reasons):
                if values.get(name) is None:
                    reason_cells = _describe_reason(reasons[name])
                    details = None if isinstance(reasons[name], str) else reasons[name]
                    yield [str(chat), bot, study_key(study), is_synthetic, name, *reason_cells, details]
