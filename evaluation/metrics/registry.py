"""Registry of metrics, and their joint computation over conversations.

It contains the metrics of this folder and of `metrics.yaml`.

Metrics that need parameters are entries of a YAML list:

    - kind: perplexity
      params: {model: path/or/hub-id, window: 5}
    - id: toxicity_bert
      kind: toxicity
      params: {model: path/or/hub-id, label: toxic}

A kind is a registered metric based on `ConfiguredMetric`, with a model of its options. An entry without an id replaces
the registered metric; an entry with an id is added next to it, and its columns begin with the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from pydantic import StringConstraints

from chatbots import Conversation
from chatbots.registry import C, Registry, UnknownName
from chatbots.type_descriptions import TypeDescription
from chatbots.yaml_registry import YamlEntryKind, YamlRegistry
from evaluation.data.tables import Level
from evaluation.metrics.base import ConfiguredMetric, Metric, MetricTable
from evaluation.metrics.text_cache import TextCache

metrics: Registry[Metric] = Registry("metric", "evaluation.metrics")

metric_kinds: Registry[YamlEntryKind[Metric]] = Registry("kind of metric", "evaluation.metrics")
"""Metrics with options, which are the kinds of `metrics.yaml`."""


def register_metric(cls: C) -> C:
    """Register the decorated class as a metric, instantiated without arguments.

    A metric with options also becomes a kind, from which `metrics.yaml` can make others.
    """
    metrics.register(cls)
    if issubclass(cls, ConfiguredMetric):
        metric_kinds.add(YamlEntryKind(cls.kind, cls, cls.options_type))
    return cls


def metric_list() -> list[Metric]:
    """Return every registered metric, by name. Loads nothing."""
    return list(metrics)


def metric_get(name: str) -> Metric:
    """Return the metric called `name`.

    Raises:
        UnknownName: if there is none; the message suggests the nearest names.
    """
    return metrics.get(name)


def metric_and_columns(name: Metric | str, level: Level = "turn") -> tuple[Metric, tuple[str, ...]]:
    """Return the metric with this name or column, and the requested columns.

    An empty selection of columns means all of them.

    Args:
        level: of the columns.

    Raises:
        UnknownName: if there is neither; the message suggests the nearest metrics.
    """
    if not isinstance(name, str):
        return name, ()
    try:
        return metric_get(name), ()
    except UnknownName:
        for metric in metric_list():
            if any((column.name, column.level) == (name, level) for column in metric.columns):
                return metric, (name,)
        raise


def metric_defaults() -> list[Metric]:
    """Return the available default metrics, used if no metrics are named."""
    return [metric for metric in metrics if getattr(metric, "default", True) and metric.unavailable_reason() is None]


MetricId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$"),
    TypeDescription("lower-case words joined by underscores"),
]

configured_metrics: YamlRegistry[Metric] = YamlRegistry(
    metrics, metric_kinds, id_type=MetricId, is_id_needed=False, may_replace=True
)
"""Metrics declared in `metrics.yaml`."""


BATCH = 256

Progress = Callable[[int, int], None]


class MetricUnavailable(Exception):
    """Error for an unavailable metric; the message gives the reason."""


def compute_batches(
    conversations: Sequence[Conversation],
    metrics: Sequence[Metric | str],
    *,
    self_play: bool = False,
    batch: int = BATCH,
    shared: TextCache | None = None,
) -> Iterator[dict[str, MetricTable]]:
    """Compute metrics in batches, yielding each batch's tables when ready.

    Args:
        conversations: with unique ids.
        metrics: metrics or their names.
        self_play: see `Metric.compute`.
        batch: number of conversations computed together. It affects how often results arrive, never the values.
        shared: texts encoded so far; by default a new cache for this run.

    Yields:
        For every batch, in order, the tables by metric name.

    Raises:
        MetricUnavailable: before anything is computed, if one of them is unavailable.
        UnknownName: for an unknown name; the message suggests the nearest ones.
    """
    chosen = [metric_get(metric) if isinstance(metric, str) else metric for metric in metrics]
    for metric in chosen:
        reason = metric.unavailable_reason()
        if reason is not None:
            raise MetricUnavailable(f"{metric.name} cannot be computed: {reason}")
    shared = shared or TextCache()
    for start in range(0, len(conversations), batch):
        part = conversations[start : start + batch]
        yield {metric.name: metric.compute(part, self_play=self_play, shared=shared) for metric in chosen}


def compute_all(
    conversations: Sequence[Conversation],
    metrics: Sequence[Metric | str],
    *,
    self_play: bool = False,
    batch: int = BATCH,
    shared: TextCache | None = None,
    progress: Progress | None = None,
) -> dict[str, MetricTable]:
    """Compute metrics for all conversations; each text is encoded once.

    Args:
        shared: `TextCache("cuda")` encodes on the GPU; by default a new cache for this run, on the CPU.
        progress: called with (conversations done, total conversations) after each batch.

    Returns:
        One table per metric name, with the conversations in input order.
    """
    parts: list[dict[str, MetricTable]] = []
    for tables in compute_batches(conversations, metrics, self_play=self_play, batch=batch, shared=shared):
        parts.append(tables)
        if progress is not None:
            progress(min(len(parts) * batch, len(conversations)), len(conversations))
    if not parts:  # an empty table also needs the declared columns
        chosen = [metric_get(m) if isinstance(m, str) else m for m in metrics]
        return {metric.name: metric.compute([], self_play=self_play) for metric in chosen}
    return {name: joined([tables[name] for tables in parts]) for name in parts[0]}


def joined(tables: Sequence[MetricTable]) -> MetricTable:
    """Concatenate a metric's tables of different conversations."""
    import pandas as pd

    if len(tables) == 1:
        return tables[0]
    clauses: dict[str, set[str]] = {}
    for table in tables:
        for name, reason in table.reasons.items():
            clauses.setdefault(name, set()).update(reason.split("; "))
    return MetricTable(
        turns=pd.concat([table.turns for table in tables]),
        conversations=pd.concat([table.conversations for table in tables]),
        reasons={name: "; ".join(sorted(parts)) for name, parts in clauses.items()},
    )
