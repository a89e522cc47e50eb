"""Explanation of a reply's score: what a metric has seen in the reply, as tables and a graph.

A metric explains itself in its own file (`MetricDefaults.explain`). Pages and notebooks show any explanation in the
same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.data.items import JudgedItem, detokenise_reply
from evaluation.data.result_tables import NamedTable
from evaluation.metrics.base import Metric
from evaluation.metrics.text_cache import TextCache

MAX_OTHERS = 500
"""Maximum number of other replies of the data set that an explanation compares with."""


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
    """What lies behind a metric's score of a reply.

    Attributes:
        tables: their ids are unique within the explanation.
    """

    tables: tuple[NamedTable, ...] = ()
    graph: KeywordGraph | None = None

    def __str__(self) -> str:
        return "\n\n".join(table.printed(table.note) for table in self.tables)


def explain_reply(
    metric: Metric, item: JudgedItem, items: Sequence[JudgedItem], shared: TextCache
) -> Explanation | None:
    """Return a metric's explanation of its score of a reply; None if it has none.

    Args:
        items: the data set; at most `MAX_OTHERS` of its other replies are compared, evenly sampled.
    """
    explain = getattr(metric, "explain", None)
    if explain is None or metric.unavailable_reason() is not None or not item.response.strip():
        return None
    others = [other for other in items if other is not item and other.source == item.source]
    places = np.unique(np.linspace(0, len(others) - 1, MAX_OTHERS).astype(int)) if others else []
    replies = [item.reply, *(others[k].reply for k in places)]
    if not getattr(metric, "reads_tokens", False):
        replies = [detokenise_reply(reply) for reply in replies]
    explanation: Explanation | None = explain(replies[0], replies[1:], shared)
    return explanation


def shorten(text: str, length: int = 200) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"
