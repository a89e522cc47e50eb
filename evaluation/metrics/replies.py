"""Turn-level metrics, which score one reply in its context.

Some also compare it with a human reply.

Derive from `ReplyMetric`, declare `columns` (`per_turn`) and write `score`. The same class then works on rated items
(`evaluation/agreement/metric_agreement.py`) and on conversations, where every bot turn is a reply to the turns before
it and the conversation's value is the mean over them. Conversations have no references, so a metric that needs one is
undefined there and gives the reason.

`item_scores` scores items by any metric; one that is not a `ReplyMetric` receives the item as a short conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from chatbots import Conversation
from chatbots.text import sanitise
from evaluation.data.items import ReplyInContext
from evaluation.metrics.base import NO_TURN, OTHER_TURNS, Measured, Metric, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.text_cache import BLANK, TextCache, blank

BATCH = 256
NO_REFERENCE = "there is no reference"
NO_CONTEXT = "the reply opens the conversation"

Progress = Callable[[int, int], None]


class ReplyMetric(MetricDefaults):
    """Base class of metrics of single replies; subclasses write `score`.

    Attributes:
        needs_reference: True if it compares the reply with a human reply.
        reads_reference: True if some of its columns use a reference, required or optional.
        reference_columns: columns that are undefined without a reference.
        over_references: score of a reply with several references: the "best" score, or the "mean".
        needs_context: True if it is undefined for a reply that opens a conversation.
        reads_tokens: True if it reads the published tokenisation ("I ' m"); other metrics read normal spelling.
        window: number of context utterances it reads; None for all.
    """

    default = False
    needs_reference: bool = False
    reads_reference: bool = False
    reference_columns: tuple[str, ...] = ()
    over_references: Literal["best", "mean"] = "best"
    needs_context: bool = False
    reads_tokens: bool = False
    window: int | None = None

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> Mapping[str, np.ndarray]:
        """Score distinct, non-blank replies that have all required inputs.

        Returns:
            For each turn-level column (N,), NaN if undefined.
        """
        raise NotImplementedError

    def together(self, replies: Sequence[ReplyInContext]) -> Mapping[str, float]:
        """Score one reply against several references, by column.

        Override it if the score is neither the best nor the mean of single scores.
        """
        return {}

    def over_all(self, scores: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the columns that depend on all replies; `score` leaves them NaN.

        Args:
            scores: by column, (N,) of all these replies.
        """
        return {}

    def remarks(self, scores: Mapping[str, np.ndarray]) -> dict[str, int]:
        """Count replies by remark, such as being scored on truncated input."""
        return {}

    @property
    def turn_columns(self) -> list[str]:
        """Names of its turn-level columns; the first is the main one."""
        return [column.name for column in self.columns if column.level == "turn"]

    def seen(self, reply: ReplyInContext) -> ReplyInContext:
        """Return the reply with only the inputs that the metric uses."""
        context, response, reference = reply
        keeps = self.needs_reference or self.reads_reference
        if self.window is not None:
            context = context[max(0, len(context) - self.window) :] if self.window else ()
        return ReplyInContext(context, response, reference if keeps else None)

    def lacking(self, reply: ReplyInContext, column: str = "") -> str | None:
        """Return the reason for a missing score or column value, or None."""
        if blank(reply.response):
            return BLANK
        if reply.reference is None and (self.needs_reference or column in self.reference_columns):
            return NO_REFERENCE
        if self.needs_context and not reply.context:
            return NO_CONTEXT
        return None

    def scored(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        """Score replies, identical ones once; NaN for those lacking an input."""
        seen = [self.seen(reply) for reply in replies]
        complete = [reply for reply in dict.fromkeys(seen) if self.lacking(reply) is None]
        scores = {name: np.full(len(replies), np.nan) for name in self.turn_columns}
        if complete:
            complete_scores = self.score(complete, shared)
            place = {reply: k for k, reply in enumerate(complete)}
            indices = np.array([place.get(reply, -1) for reply in seen])
            for name, values in scores.items():
                values[indices >= 0] = np.asarray(complete_scores[name], dtype=float)[indices[indices >= 0]]
        return scores

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        begins = np.arange(len(layout.texts)) - layout.turn_of
        replies = [
            ReplyInContext(tuple(text for text in layout.texts[begins[i] : i] if not blank(text)), layout.texts[i])
            for i in layout.bot.tolist()
        ]
        scores = self.scored(replies, shared)
        return Measured(
            {name: layout.spread(layout.bot, values) for name, values in scores.items()},
            reasons={
                name: sorted({reason for reply in replies if (reason := self.lacking(reply, name))}) for name in scores
            },
        )


def item_scores(
    metric: Metric,
    replies: Sequence[ReplyInContext],
    shared: TextCache,
    *,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> dict[str, np.ndarray]:
    """Score replies by any metric, identical ones once.

    Batches are grouped by context and ordered by length.

    Args:
        replies: in any order.
        progress: called with (replies done, total replies) after each batch.

    Returns:
        (N,) for each turn-level column that can describe a reply, main column first, NaN if undefined. Columns without
        any value are omitted, unless all are empty.
    """
    distinct = list(dict.fromkeys(replies))
    order = sorted(range(len(distinct)), key=lambda k: _place(distinct[k]))
    names = [column.name for column in metric.columns if column.level == "turn"]
    values = {name: np.full(len(distinct), np.nan) for name in names}
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        chunk = [distinct[k] for k in part]
        chunk_scores = (
            metric.scored(chunk, shared)
            if isinstance(metric, ReplyMetric)
            else _as_conversations(metric, chunk, shared)
        )
        for name in names:
            values[name][part] = chunk_scores[name]
        if progress is not None:
            progress(min(start + batch, len(order)), len(order))
    if isinstance(metric, ReplyMetric):
        values.update(metric.over_all(values))
    defined = [name for name in names if np.isfinite(values[name]).any()]
    place = {reply: k for k, reply in enumerate(distinct)}
    indices = [place[reply] for reply in replies]
    return {name: values[name][indices] for name in defined or names[:1]}


def missing_reasons(
    metric: Metric,
    replies: Sequence[ReplyInContext],
    column: str,
    values: np.ndarray,
    was_scored: np.ndarray,
    shared: TextCache,
) -> list[str | None]:
    """Return each reply's reason for a missing value in a column.

    None if the reply has a value or the reason is unknown.

    A metric of conversations is recomputed individually for each reply without a value.

    Args:
        values: (N,) of the column.
        was_scored: (N,) True for scored replies.
    """
    if isinstance(metric, ReplyMetric):
        return [metric.lacking(metric.seen(reply), column) for reply in replies]
    reasons: list[str | None] = [None] * len(replies)
    if not np.isfinite(values).any():
        return reasons
    reasons_by_reply: dict[ReplyInContext, str] = {}
    for k in np.flatnonzero(was_scored & ~np.isfinite(values)).tolist():
        reply = replies[k]
        if reply not in reasons_by_reply:
            table = metric.compute([_conversation_of(reply, "0")], shared=shared)
            clauses = table.reasons.get(column, "").split("; ")
            reasons_by_reply[reply] = "; ".join(x for x in clauses if x not in ("", OTHER_TURNS, NO_TURN))
        reasons[k] = reasons_by_reply[reply] or (None if reply.context else NO_CONTEXT)
    return reasons


def _place(reply: ReplyInContext) -> tuple[int, tuple[str, ...], int]:
    return sum(map(len, reply.context)), reply.context, len(reply.response)


def _as_conversations(metric: Metric, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
    """Score replies as the last turns of short conversations."""
    conversations = [_conversation_of(reply, str(k)) for k, reply in enumerate(replies)]
    turns = metric.compute(conversations, shared=shared).turns
    last = np.cumsum([len(conversation.turns) for conversation in conversations]) - 1
    return {str(name): turns[name].to_numpy(dtype=float)[last] for name in turns.columns}


def _conversation_of(reply: ReplyInContext, name: str) -> Conversation:
    """Return the conversation that ends with the reply as a bot turn."""
    return Conversation.from_texts(
        [*map(sanitise, reply.context), sanitise(reply.response)],
        id=name,
        first="bot" if len(reply.context) % 2 == 0 else "human",
    )
