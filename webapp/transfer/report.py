"""Report of an import: the number of new rows, those left out, and the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation.formats.base import Skipped

MAX_REPORTED = 10_000

Progress = Callable[[str, int], None]


@dataclass
class ImportReport:
    """Result of an import: new conversations and ratings, and those left out."""

    conversations: int = 0
    ratings: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    n_skipped: int = 0
    n_read: int = 0

    def skip(self, skipped: Skipped) -> None:
        """Note a record left out; beyond `MAX_REPORTED` they are counted only."""
        self.n_skipped += 1
        if self.n_skipped <= MAX_REPORTED:
            self.skipped.append(skipped)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> ImportReport:
        """Return the report that `as_dict` wrote."""
        return cls(
            conversations=stored["conversations"],
            ratings=stored["ratings"],
            skipped=[Skipped(item["line"], item["reason"]) for item in stored["skipped"]],
            n_skipped=stored.get("n_skipped", len(stored["skipped"])),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the JSON of `import_conversations`."""
        listed = sorted(self.skipped, key=lambda item: item.line)
        rest = self.n_skipped - len(listed)
        if rest:
            listed.append(Skipped(listed[-1].line, f"and {rest} more after this line"))
        return {
            "conversations": self.conversations,
            "ratings": self.ratings,
            **({"n_skipped": self.n_skipped} if rest else {}),
            "skipped": [{"line": item.line, "reason": item.reason} for item in listed],
        }
