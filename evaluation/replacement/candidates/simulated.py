"""Simulated participants, one candidate each."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.findings import Reason
from evaluation.hybrid.features import preset_get
from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, register_candidate
from evaluation.simulation.realism.verdict import MAIN_FIT

WITHIN = Reason(
    "simulated_within", "its messages replace those of people in stored chats, so the bots never answered it"
)


@register_candidate
class SimulatedCandidates:
    """The main hybrid metric, applied to chats with a simulated participant."""

    name = "simulated"
    title = "Simulated participants"
    absent = "Simulate participants who chat with the bots of the study."
    rated = ("chats",)

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        for participant, chats in data.simulated.items():
            yield ReplacementCandidate(
                self.name,
                participant,
                f"Simulated participants ({participant})",
                MAIN_FIT,
                preset_get(MAIN_FIT).features,
                data.chats,
                elsewhere=chats,
                built_on=data.built_on.get(participant, frozenset()),
                reason=WITHIN if participant in data.within else data.unknown_origins.get(participant),
            )
