"""Scores from elsewhere, of chats or of bots."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.replacement.candidate import SCORE, ReplacementCandidate, ReplacementData, register_candidate
from evaluation.simulation.realism.verdict import MAIN_FIT


@register_candidate
class ImportedCandidates:
    """Imported scores, such as a benchmark's figure of each bot."""

    name = "imported"
    title = "Imported scores"
    absent = "Import a file of scores, or upload a table of the bots with a column of scores."

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        # A score per bot does not vary within bots, so a Gaussian process has no unit for it; least squares needs none.
        sources = (("conversation", data.imported, MAIN_FIT), ("bot", data.imported_bots, "paper"))
        for by, columns, preset in sources:
            for name, scores in columns.items():
                yield ReplacementCandidate(
                    self.name,
                    name,
                    f"Imported scores ({name})",
                    preset,
                    (SCORE,),
                    data.score_chats(scores, by),
                    scores_chats=by == "conversation",
                    built_on=data.built_on.get(name, frozenset()),
                )
