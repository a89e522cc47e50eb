"""Metrics that need parameters, declared in a YAML file (`metrics.yaml`): one list entry, one metric.

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

from chatbots.entries import Configured
from chatbots.outside_types import Wanted
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_kinds, metrics

MetricId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$"),
    Wanted("lower-case words joined by underscores"),
]

configured_metrics: Configured[Metric] = Configured(
    metrics, metric_kinds, id_type=MetricId, is_id_needed=False, may_replace=True
)
"""The metrics of `metrics.yaml`."""
