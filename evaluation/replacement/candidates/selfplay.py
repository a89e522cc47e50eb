"""Self-play: the bots talk with themselves, and the hybrid metric predicts their ratings."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.hybrid.features import preset_get
from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, register_candidate
from evaluation.simulation.realism.verdict import MAIN_FIT


@register_candidate
class SelfPlayCandidates:
    """The main hybrid metric, applied to self-play."""

    name = "selfplay"
    title = "Self-play"
    absent = "Start a self-play run with the bots of the study."
    rated = ("chats",)

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        if data.selfplay is not None:
            yield ReplacementCandidate(
                self.name,
                MAIN_FIT,
                "Self-play",
                MAIN_FIT,
                preset_get(MAIN_FIT).features,
                data.chats,
                elsewhere=data.selfplay,
                is_own_turns=True,
            )
