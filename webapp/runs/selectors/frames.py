"""Tables for analysis: metric columns of conversations, and their ratings.

All frames have `conversation` and `bot`; undefined is NaN. Synthetic conversations are left out unless
requested; open, failed and withdrawn ones always are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import QuerySet

from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.quality.selectors import left_out
from webapp.runs.models import MetricResult, SelfPlayRun
from webapp.runs.selectors.metrics import measurable, metrics_all, versions_current
from webapp.studies.models import Study

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.metrics.base import Metric
    from evaluation.ratings import Ratings

CHUNK = 2000


def metric_frame(
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    metrics: Sequence[Metric] | None = None,
    include_synthetic: bool = False,
    without: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a table with one row per conversation of a study or a self-play run.

    Of a run only conversations of a bot with itself count. What two different bots say to each other is no
    self-play of either, and would be credited to the one that happened to answer.

    Args:
        metrics: whose conversation-level columns to give; None for all registered.
        without: names of flags; conversations of the study's people with one of them are left out.

    Returns:
        `conversation`, `bot`, `participant`, and every column of the metrics as they are now; NaN where
        undefined or not computed yet.
    """
    import pandas as pd

    metrics = metrics_all() if metrics is None else metrics
    rows = _own(measurable(study=study, run=run), run)
    if not include_synthetic:
        rows = rows.filter(is_synthetic=False)
    if study is not None:
        rows = rows.filter(left_out(study, without))
    found = rows.order_by("created_at", "pk").values_list("pk", "bot__bot_id", "participant_id")
    table: dict[Any, dict[str, Any]] = {
        pk: {
            "conversation": str(pk),
            "bot": bot,
            "participant": str(participant) if participant else None,
        }
        for pk, bot, participant in found.iterator(chunk_size=CHUNK)
    }
    versions = versions_current(metrics)
    results = MetricResult.objects.filter(
        conversation__in=rows, metric__in=list(versions.values())
    ).values_list("conversation_id", "values")
    for conversation_id, values in results.iterator(chunk_size=CHUNK):
        if conversation_id in table:
            table[conversation_id].update(values)
    names = column_names(metrics)
    frame = pd.DataFrame(
        list(table.values()), columns=["conversation", "bot", "participant", *names]
    )
    frame[names] = frame[names].astype(float)
    return frame


def _own(rows: QuerySet[Conversation], run: SelfPlayRun | None) -> QuerySet[Conversation]:
    return rows if run is None else rows.filter(selfplay__partner_bot_id="")


def rated_frame(
    ratings: Ratings,
    *,
    study: Study,
    metrics: Sequence[Metric] | None = None,
    include_synthetic: bool = False,
) -> pd.DataFrame:
    """Return one row per rated conversation: `metric_frame` with the mean of every dimension of the ratings.

    `participant` is who chatted, or the rater where the conversation has just one. A metric column called
    like a dimension gives way to it.
    """
    metric_table = metric_frame(study=study, metrics=metrics, include_synthetic=include_synthetic)
    means = ratings.per_conversation()
    names = list(ratings.answers)
    clash = [name for name in names if name in metric_table.columns]
    frame = metric_table.drop(columns=clash).merge(
        means[names], left_on="conversation", right_index=True, how="inner"
    )
    alone = frame["conversation"].map(means["rater"])
    frame["participant"] = frame["participant"].where(frame["participant"].notna(), alone)
    return frame


def column_names(metrics: Iterable[Metric]) -> list[str]:
    """Return the conversation-level columns of the metrics."""
    return [
        column.name
        for metric in metrics
        for column in metric.columns
        if column.level == "conversation"
    ]


def metrics_of_columns(names: Sequence[str]) -> list[Metric]:
    """Return the metrics that have these conversation-level columns; names that no metric has are passed over."""
    wanted = set(names)
    return [metric for metric in metrics_all() if wanted & set(column_names([metric]))]


def check_computed(
    metrics: Sequence[Metric], *, study: Study | None = None, run: SelfPlayRun | None = None
) -> None:
    """See that every metric has a result for every conversation that a table would need.

    For a study those are its rated conversations.

    Raises:
        Refused: `not_computed`, with the command that helps.
    """
    rows = _own(measurable(study=study, run=run), run)
    if study is not None:
        rows = rows.filter(ratings__isnull=False).distinct()
    n_rows = rows.count()
    versions = versions_current(metrics)
    lacking = []
    for metric in metrics:
        version = versions.get(metric.name)
        n_there = rows.filter(metric_results__metric=version).count() if version is not None else 0
        if n_there < n_rows:
            lacking.append(f"{metric.name} ({n_rows - n_there} of {n_rows})")
    if lacking:
        where = f"study {study.key}" if study is not None else f"self-play run {run.pk}"  # type: ignore[union-attr]
        option = f"--study {study.key}" if study is not None else f"--run {run.pk}"  # type: ignore[union-attr]
        raise Refused(
            "not_computed",
            f"conversations of {where} lack metrics: {', '.join(lacking)}; "
            f"run `{settings.CONFAB_PROGRAM} compute_metrics {option}` first",
        )
