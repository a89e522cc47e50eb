"""Language models as judges, and the mean of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, register_candidate


@register_candidate
class JudgeCandidates:
    """Scores of each judge."""

    name = "judge"
    title = "Judge"
    absent = "Compare a judge with the ratings of the study."
    rated = ("chats", "replies")

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        for judge, scores in data.judges.items():
            yield data.make_candidate(self.name, judge, f"Judge ({judge})", scores)


@register_candidate
class PanelCandidates:
    """Mean score of all judges, for chats that every one of them scored."""

    name = "panel"
    title = "Panel of judges"
    absent = "Compare two or more judges with the ratings of the study."
    rated = ("chats", "replies")

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        if len(data.judges) < 2:
            return
        panel = list(data.judges.values())
        common = set.intersection(*(set(scores) for scores in panel))
        scores = {chat: float(np.mean([judge[chat] for judge in panel])) for chat in common}
        candidate = data.make_candidate(self.name, "mean", f"Panel of {len(panel)} judges", scores)
        reasons = [data.unknown_origins[judge] for judge in data.judges if judge in data.unknown_origins]
        built_on = frozenset[str]().union(*(data.built_on.get(judge, frozenset()) for judge in data.judges))
        yield replace(candidate, built_on=built_on, reason=reasons[0] if reasons else None)
