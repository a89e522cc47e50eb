"""Language models as judges, each by itself and all of them as a panel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from evaluation.agreement.judges.gold import scale_points
from evaluation.agreement.judges.panels import mean_scores, vote_scores
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
    """All judges together, for chats that every one of them scored: their mean, and their vote on a scale of points."""

    name = "panel"
    title = "Panel of judges"
    absent = "Compare two or more judges with the ratings of the study."
    rated = ("chats", "replies")

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        if len(data.judges) < 2:
            return
        panel = list(data.judges.values())
        common = sorted(set.intersection(*(set(scores) for scores in panel)))
        rows = np.array([[judge[chat] for chat in common] for judge in panel])
        combined = {"mean": mean_scores(rows)}
        leading = data.ratings.leading
        points = () if leading is None else scale_points(leading.low, leading.high, data.ratings.values())
        if len(panel) > 2 and points:  # two judges either agree or tie
            combined["vote"] = vote_scores(rows, points)
        reasons = [data.unknown_origins[judge] for judge in data.judges if judge in data.unknown_origins]
        built_on = frozenset[str]().union(*(data.built_on.get(judge, frozenset()) for judge in data.judges))
        for rule, values in combined.items():
            title = f"Panel of {len(panel)} judges" + (", vote" if rule == "vote" else "")
            scores = dict(zip(common, values.tolist(), strict=True))
            candidate = data.make_candidate(self.name, rule, title, scores)
            yield replace(candidate, built_on=built_on, reason=reasons[0] if reasons else None)
