"""Extension points of `evaluation`.

A feature is added by a single new file and registered by its decorator.

`docs/extend.md` shows them with examples.
"""

from __future__ import annotations

from chatbots.extension_points import ExtensionPoint
from evaluation.data.formats.base import FileFormat, formats, register_format
from evaluation.data.formats.record_formats import RecordFormat, record_formats, register_record_format
from evaluation.metrics.base import ConfiguredMetric, Metric
from evaluation.metrics.registry import metric_kinds, metrics, register_metric
from evaluation.replacement.candidate import CandidateKind, candidate_kinds, register_candidate
from evaluation.training.config import learned_metrics, register_learned
from evaluation.training.contract import LearnedMetric

EXTENSION_POINTS: tuple[ExtensionPoint, ...] = (
    ExtensionPoint("a metric", "evaluation/metrics", register_metric, Metric, metrics),
    ExtensionPoint(
        "a kind of metric for `metrics.yaml`", "evaluation/metrics", register_metric, ConfiguredMetric, metric_kinds
    ),
    ExtensionPoint("a trained metric", "evaluation/training/metrics", register_learned, LearnedMetric, learned_metrics),
    ExtensionPoint("an imported file format", "evaluation/data/formats", register_format, FileFormat, formats),
    ExtensionPoint(
        "a format of JSON records",
        "evaluation/data/formats/records",
        register_record_format,
        RecordFormat,
        record_formats,
    ),
    ExtensionPoint(
        "a kind of candidate to replace people",
        "evaluation/replacement/candidates",
        register_candidate,
        CandidateKind,
        candidate_kinds,
    ),
)
