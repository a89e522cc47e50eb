"""Several metrics over many conversations, in batches with shared encodings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from chatbots import Conversation
from evaluation.metrics.base import Metric, MetricTable
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache

BATCH = 256

Progress = Callable[[int, int], None]


class MetricUnavailable(Exception):
    """Error for a requested metric that cannot be computed here; the message gives the reason."""


def compute_batches(
    conversations: Sequence[Conversation],
    metrics: Sequence[Metric | str],
    *,
    self_play: bool = False,
    batch: int = BATCH,
    shared: TextCache | None = None,
) -> Iterator[dict[str, MetricTable]]:
    """Compute metrics batch by batch; each batch's tables come as soon as they are there.

    Args:
        conversations: with unique ids.
        metrics: metrics or their names.
        self_play: see `Metric.compute`.
        batch: conversations at a time. It decides how often results come, never what they are.
        shared: texts encoded so far, to go on with; by default a new one for this run.

    Yields:
        For every batch, in order, the tables by metric name.

    Raises:
        MetricUnavailable: before anything is computed, if one of them cannot be.
        UnknownName: for an unknown name, with the nearest ones.
    """
    chosen = [metric_get(metric) if isinstance(metric, str) else metric for metric in metrics]
    for metric in chosen:
        reason = metric.unavailable_reason()
        if reason is not None:
            raise MetricUnavailable(f"{metric.name} cannot be computed: {reason}")
    shared = shared or TextCache()
    for start in range(0, len(conversations), batch):
        part = conversations[start : start + batch]
        yield {metric.name: metric.compute(part, self_play=self_play, shared=shared) for metric in chosen}


def compute_all(
    conversations: Sequence[Conversation],
    metrics: Sequence[Metric | str],
    *,
    self_play: bool = False,
    batch: int = BATCH,
    shared: TextCache | None = None,
    progress: Progress | None = None,
) -> dict[str, MetricTable]:
    """Compute metrics for all conversations; no text is encoded twice.

    Args:
        shared: `TextCache("cuda")` encodes there; by default a new one for this run, on the CPU.
        progress: called with (conversations done, conversations in all) after each batch.

    Returns:
        One table per metric name, the conversations in the order given.
    """
    parts: list[dict[str, MetricTable]] = []
    for tables in compute_batches(conversations, metrics, self_play=self_play, batch=batch, shared=shared):
        parts.append(tables)
        if progress is not None:
            progress(min(len(parts) * batch, len(conversations)), len(conversations))
    if not parts:  # an empty table has the declared columns too
        chosen = [metric_get(m) if isinstance(m, str) else m for m in metrics]
        return {metric.name: metric.compute([], self_play=self_play) for metric in chosen}
    return {name: joined([tables[name] for tables in parts]) for name in parts[0]}


def joined(tables: Sequence[MetricTable]) -> MetricTable:
    """Join tables of one metric for different conversations, one below the other."""
    import pandas as pd

    if len(tables) == 1:
        return tables[0]
    clauses: dict[str, set[str]] = {}
    for table in tables:
        for name, reason in table.reasons.items():
            clauses.setdefault(name, set()).update(reason.split("; "))
    return MetricTable(
        turns=pd.concat([table.turns for table in tables]),
        conversations=pd.concat([table.conversations for table in tables]),
        reasons={name: "; ".join(sorted(found)) for name, found in clauses.items()},
    )
