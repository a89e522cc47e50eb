"""Finds every metric in this folder."""

from __future__ import annotations

from chatbots.registry import C, Registry
from evaluation.metrics.base import Metric

metrics: Registry[Metric] = Registry("metric", "evaluation.metrics")


def register_metric(cls: C) -> C:
    """Class decorator: makes one metric of the class (no arguments) and lists it."""
    metrics.register(cls)
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
