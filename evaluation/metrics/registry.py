"""Registry of the metrics in this folder and in `metrics.yaml`.

Metrics that need parameters are entries of a YAML list:

    - kind: perplexity
      params: {model: path/or/hub-id, window: 5}
    - id: toxicity_bert
      kind: toxicity
      params: {model: path/or/hub-id, label: toxic}

A kind is a registered metric on `ConfiguredMetric`, which names the model of its options. An entry without an id
takes the place of the registered metric; with one it stands next to it, and its columns begin with the id.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from chatbots.registry import C, Registry, UnknownName
from chatbots.type_descriptions import TypeDescription
from chatbots.yaml_registry import YamlEntryKind, YamlRegistry
from evaluation.metrics.base import ConfiguredMetric, Metric
from evaluation.tables import Level

metrics: Registry[Metric] = Registry("metric", "evaluation.metrics")

metric_kinds: Registry[YamlEntryKind[Metric]] = Registry("kind of metric", "evaluation.metrics")
"""The metrics that take options, which `metrics.yaml` may name."""


def register_metric(cls: C) -> C:
    """Decorate a class: make one metric of it, without arguments, and list it.

    A metric with options becomes a kind, too, of which `metrics.yaml` can make others.
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
        UnknownName: there is none; the message names the nearest ones.
    """
    return metrics.get(name)


def metric_and_columns(one: Metric | str, level: Level = "turn") -> tuple[Metric, tuple[str, ...]]:
    """Return the metric, or the one with the column of this name, and which of its columns are wanted; none: all.

    Args:
        level: of the columns.

    Raises:
        UnknownName: there is neither; the message names the nearest metrics.
    """
    if not isinstance(one, str):
        return one, ()
    try:
        return metric_get(one), ()
    except UnknownName:
        for metric in metric_list():
            if any((column.name, column.level) == (one, level) for column in metric.columns):
                return metric, (one,)
        raise


def metric_defaults() -> list[Metric]:
    """Return the metrics that are computed where no metrics are named: those that count as default and work here."""
    return [metric for metric in metrics if getattr(metric, "default", True) and metric.unavailable_reason() is None]


MetricId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$"),
    TypeDescription("lower-case words joined by underscores"),
]

configured_metrics: YamlRegistry[Metric] = YamlRegistry(
    metrics, metric_kinds, id_type=MetricId, is_id_needed=False, may_replace=True
)
"""The metrics of `metrics.yaml`."""
