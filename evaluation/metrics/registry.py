"""Finds every metric in this folder."""

from __future__ import annotations

from chatbots.entries import Kind
from chatbots.registry import C, Registry
from evaluation.metrics.base import ConfiguredMetric, Metric

metrics: Registry[Metric] = Registry("metric", "evaluation.metrics")

metric_kinds: Registry[Kind[Metric]] = Registry("kind of metric", "evaluation.metrics")
"""The metrics that take options, which `metrics.yaml` may name."""


def register_metric(cls: C) -> C:
    """Class decorator: makes one metric of the class (no arguments) and lists it; one with options is a kind, too."""
    metrics.register(cls)
    if issubclass(cls, ConfiguredMetric):
        metric_kinds.add(Kind(cls.kind, cls, cls.options_type))
    return cls


def metric_list() -> list[Metric]:
    """Every registered metric, by name. Loads nothing."""
    return list(metrics)


def metric_get(name: str) -> Metric:
    """The metric called `name`.

    Raises:
        UnknownName: with the nearest names.
    """
    return metrics.get(name)


def metric_defaults() -> list[Metric]:
    """The metrics that are computed where nobody names any: by default, and available here."""
    return [
        metric
        for metric in metrics
        if getattr(metric, "default", True) and metric.unavailable_reason() is None
    ]
