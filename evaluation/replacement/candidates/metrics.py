"""Metrics of single replies."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, register_candidate


@register_candidate
class MetricCandidates:
    """Metrics that were compared with ratings of the same replies."""

    name = "metric"
    title = "Metric"
    absent = "Compare metrics with the ratings of the study on the page Benchmark."
    rated = ("replies",)

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        for name, scores in data.metrics.items():
            yield data.make_candidate(self.name, name, f"Metric ({name})", scores)
