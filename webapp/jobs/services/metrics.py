"""Writes of metric results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction

from evaluation.languages import other_language
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs import queue
from webapp.jobs.models import MetricResult, MetricRun, MetricVersion, SelfPlayRun
from webapp.jobs.selectors.metrics import conversations_lacking_count, metrics_find
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from evaluation.metrics.base import Metric, MetricTable

UNDEFINED = "the metric is undefined here"


def metric_version_record(*, metric: Metric) -> MetricVersion:
    """Return the row of this metric as it is now, made on first use."""
    identity = metric.identity
    version, _ = MetricVersion.objects.get_or_create(
        key=identity.key, defaults={"name": metric.name, "version": identity.version, "params": dict(identity.params)}
    )
    return version


def metric_run_create(
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    metrics: Sequence[str] = (),
    then: Mapping[str, Any] | None = None,
    created_by: User | None = None,
    enqueue: bool = True,
) -> MetricRun:
    """Compute metrics for every conversation of a study or run that has none of this version yet.

    Args:
        metrics: names; none: those computed by default.
        then: what its chain does next (`jobs/services/fits.py`).
        enqueue: False for a caller that does the work itself.

    Raises:
        UnknownName: with the nearest names.
        Refused: `unavailable` for a metric asked for by name that cannot be computed here.
    """
    if (study is None) == (run is None):
        raise ValueError("exactly one of study and run is needed")
    chosen = metrics_find(metrics)
    if not chosen:
        raise Refused("unavailable", "no metric can be computed here")
    with transaction.atomic():
        versions = [metric_version_record(metric=metric) for metric in chosen]
        made = MetricRun.objects.create(
            study=study,
            run=run,
            metrics=[metric.name for metric in chosen],
            then=dict(then or {}),
            n_total=conversations_lacking_count(study=study, run=run, versions=versions),
            created_by=created_by,
            inline=not enqueue,
        )
        queue.send_on_commit(made)
    return made


def metric_results_store(*, version: MetricVersion, table: MetricTable, n_turns: Mapping[str, int]) -> int:
    """Store a metric's table, one row per conversation; what is there already stays.

    Undefined and infinite become null, with the reason.

    Args:
        n_turns: turns of every conversation of the table, by id.

    Returns:
        How many rows are new.
    """
    turn_values: dict[str, dict[str, list[float | None]]] = {
        conversation_id: {name: [None] * n for name in table.turns.columns} for conversation_id, n in n_turns.items()
    }
    for name in table.turns.columns:
        column = table.turns[name].to_numpy(dtype=float)
        for (conversation_id, turn), value in zip(table.turns.index, column, strict=True):
            turn_values[conversation_id][name][turn] = _finite(value)
    names = list(table.conversations.columns)
    matrix = table.conversations.to_numpy(dtype=float)
    rows: list[MetricResult] = []
    for conversation_id, found in zip(table.conversations.index, matrix, strict=True):
        values = {name: _finite(value) for name, value in zip(names, found, strict=True)}
        rows.append(
            MetricResult(
                conversation_id=conversation_id,
                metric=version,
                values=values,
                turns=turn_values.get(conversation_id, {}),
                reasons=_reasons(values, found, names, table.reasons),
            )
        )
    return _store(version, rows)


def metric_left_out_store(*, version: MetricVersion, metric: Metric, languages: Mapping[str, str]) -> int:
    """Store that a metric was left out of conversations in languages that it does not hold for.

    Args:
        languages: by the conversations' ids.

    Returns:
        How many rows are new.
    """
    if not languages:
        return 0
    names = {
        level: [column.name for column in metric.columns if column.level == level] for level in ("conversation", "turn")
    }
    rows = []
    for conversation_id, language in languages.items():
        reason = other_language(language, metric.languages or ())  # type: ignore[attr-defined]
        rows.append(
            MetricResult(
                conversation_id=conversation_id,
                metric=version,
                values=dict.fromkeys(names["conversation"]),
                turns={name: [] for name in names["turn"]},
                reasons=dict.fromkeys([*names["conversation"], *names["turn"]], reason.to_json()),
                language=language,
            )
        )
    return _store(version, rows)


def _store(version: MetricVersion, rows: list[MetricResult]) -> int:
    """Store those of these rows that are not there. Returns how many are new."""
    ids = [row.conversation_id for row in rows]
    with transaction.atomic():
        # Somebody may have been erased meanwhile; who is here stays until this is stored.
        here = Conversation.objects.filter(pk__in=ids).order_by("pk")
        kept = {str(pk) for pk in here.select_for_update(no_key=True).values_list("pk", flat=True)}
        there = MetricResult.objects.filter(metric=version, conversation__in=ids)
        n_before = there.count()
        MetricResult.objects.bulk_create(
            [row for row in rows if str(row.conversation_id) in kept], ignore_conflicts=True, batch_size=500
        )
        return there.count() - n_before


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _reasons(
    values: Mapping[str, float | None], found: Any, names: Sequence[str], reasons: Mapping[str, str]
) -> dict[str, str]:
    told = {}
    for name, raw in zip(names, found, strict=True):
        if values[name] is None:
            infinite = "the computation gave an infinite number" if math.isinf(raw) else UNDEFINED
            told[name] = reasons.get(name, infinite)
    return told
