"""Language models as judges, and the mean of all of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evaluation.replacement.candidate import SCORE, ReplacementCandidate, ReplacementData, register_candidate
from evaluation.simulation.realism.verdict import MAIN_FIT


@register_candidate
class JudgeCandidates:
    """Scores of each judge."""

    name = "judge"
    title = "Judge"
    absent = "Compare a judge with the ratings of the study."

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        for judge, scores in data.judges.items():
            yield ReplacementCandidate(
                self.name,
                judge,
                f"Judge ({judge})",
                MAIN_FIT,
                (SCORE,),
                data.score_chats(scores),
                built_on=data.built_on.get(judge, frozenset()),
            )


@register_candidate
class PanelCandidates:
    """Mean score of all judges, for chats that every one of them scored."""

    name = "panel"
    title = "Panel of judges"
    absent = "Compare two or more judges with the ratings of the study."

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        if len(data.judges) < 2:
            return
        panel = list(data.judges.values())
        common = set.intersection(*(set(scores) for scores in panel))
        scores = {chat: float(np.mean([judge[chat] for judge in panel])) for chat in common}
        yield ReplacementCandidate(
            self.name,
            "mean",
            f"Panel of {len(panel)} judges",
            MAIN_FIT,
            (SCORE,),
            data.score_chats(scores),
            built_on=frozenset().union(*(data.built_on.get(judge, frozenset()) for judge in data.judges)),
        )
