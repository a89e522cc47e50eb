"""The hybrid metric, by preset."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.hybrid.features import PRESETS
from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, register_candidate


@register_candidate
class HybridCandidates:
    """Hybrid metrics of chats with people."""

    name = "hybrid"
    title = "Hybrid metric"
    absent = "Compute the metrics of the study."
    rated = ("chats",)

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        for preset in PRESETS.values():
            columns = [name for name in preset.features if name in data.chats]
            if not columns or not data.chats[columns].notna().any().any():
                continue
            yield ReplacementCandidate(
                self.name, preset.name, f"Hybrid metric ({preset.name})", preset.name, preset.features, data.chats
            )
