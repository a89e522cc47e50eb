"""Explanation of a reply's score: what a metric has seen in the reply, as tables and a graph.

A metric explains itself in its own file (`MetricDefaults.explain`). Pages and notebooks show any explanation in the
same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.data.result_tables import NamedTable


@dataclass(frozen=True, slots=True)
class KeywordGraph:
    """Keywords of context and reply, and the distances between them.

    Attributes:
        hops: for each context keyword, the hops to each keyword of the reply; `far` if there is no path.
    """

    context: tuple[str, ...]
    reply: tuple[str, ...]
    hops: tuple[tuple[int, ...], ...]
    far: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a metric's score of a reply.

    Attributes:
        tables: their ids are unique within the explanation.
    """

    tables: tuple[NamedTable, ...] = ()
    graph: KeywordGraph | None = None

    def __str__(self) -> str:
        return "\n\n".join(table.printed(table.note) for table in self.tables)


def shorten(text: str, length: int = 200) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"
