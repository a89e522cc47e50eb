"""Scores from elsewhere, of chats or of bots."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.replacement.candidate import ReplacementCandidate, ReplacementData, register_candidate


@register_candidate
class ImportedCandidates:
    """Imported scores, such as a benchmark's figure of each bot."""

    name = "imported"
    title = "Imported scores"
    absent = "Import a file of scores, or upload a table of the bots with a column of scores."
    rated = ("chats", "replies")

    def candidates(self, data: ReplacementData) -> Iterable[ReplacementCandidate]:
        for by, columns in (("conversation", data.imported), ("bot", data.imported_bots)):
            for name, scores in columns.items():
                yield data.make_candidate(self.name, name, f"Imported scores ({name})", scores, by)
