"""Tables for analysis: metrics, ratings, values by exchange, facts about bots.

All frames have `conversation` and `bot`; undefined is NaN. Synthetic conversations are left out unless requested;
open, failed and withdrawn ones always are.

Facts about bots, such as how they were made, come from the researcher's table (`webapp/studies/bot_columns.py`),
else from the bots' identities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import QuerySet

from evaluation.analysis.trajectories import by_exchange
from evaluation.data.tables import ends_of
from evaluation.metrics.imported import ScoreFileMetric
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.jobs.models import MetricResult, MetricVersion, SelfPlayRun
from webapp.jobs.selectors.metrics import measurable, metrics_all, versions_current
from webapp.jobs.selectors.selfplay import PARTICIPANT
from webapp.ratings.flag_selectors import left_out
from webapp.studies.bot_columns import GROUP, BotColumns
from webapp.studies.models import Study

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.data.ratings import Ratings
    from evaluation.metrics.base import Metric

CHUNK = 2000


def metric_frame(
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    metrics: Sequence[Metric] | None = None,
    include_synthetic: bool = False,
    excluded_flags: Sequence[str] = (),
    participant: str = "",
) -> pd.DataFrame:
    """Return a table with one row per conversation of a study or run.

    The run is a self-play run, or one of simulated participants.

    For self-play, only conversations of a bot with itself count: a conversation of two different bots would be credited
    to the one that answers.

    Args:
        participant: simulated participant of the run; empty: self-play.
        metrics: metrics whose conversation-level columns are returned; None for all registered.
        excluded_flags: names of flags; conversations of participants with one of them are left out.

    Returns:
        `conversation`, `bot`, `participant`, and every column of the current metric versions; NaN if undefined or not
        computed yet.
    """
    import pandas as pd

    metrics = metrics_all((study or run).project_id) if metrics is None else metrics  # type: ignore[union-attr]
    rows = _drop_bot_pairs(measurable(study=study, run=run), run, participant)
    if not include_synthetic and not participant:
        rows = rows.filter(is_synthetic=False)
    if study is not None:
        rows = rows.filter(left_out(study, excluded_flags))
    conversations = rows.order_by("created_at", "pk").values_list("pk", "bot__bot_id", "participant_id")
    table: dict[Any, dict[str, Any]] = {
        pk: {"conversation": str(pk), "bot": bot, "participant": str(participant) if participant else None}
        for pk, bot, participant in conversations.iterator(chunk_size=CHUNK)
    }
    versions = versions_current(metrics)
    results = MetricResult.objects.filter(conversation__in=rows, metric__in=list(versions.values())).values_list(
        "conversation_id", "values"
    )
    for conversation_id, values in results.iterator(chunk_size=CHUNK):
        if conversation_id in table:
            table[conversation_id].update(values)
    names = column_names(metrics)
    frame = pd.DataFrame(list(table.values()), columns=["conversation", "bot", "participant", *names])
    frame[names] = frame[names].astype(float)
    return frame


def _drop_bot_pairs(
    rows: QuerySet[Conversation], run: SelfPlayRun | None, participant: str = ""
) -> QuerySet[Conversation]:
    partner = PARTICIPANT + participant if participant else ""
    return rows if run is None else rows.filter(selfplay__partner_bot_id=partner)


def rated_frame(
    ratings: Ratings, *, study: Study, metrics: Sequence[Metric] | None = None, include_synthetic: bool = False
) -> pd.DataFrame:
    """Return one row per rated conversation, with metrics and mean ratings.

    It extends `metric_frame` by the mean of each dimension. `participant` is the chat's participant, or the only rater
    of the conversation. A dimension replaces a metric column of the same name.
    """
    metric_table = metric_frame(study=study, metrics=metrics, include_synthetic=include_synthetic)
    means = ratings.per_conversation()
    names = list(ratings.answers)
    clash = [name for name in names if name in metric_table.columns]
    frame = metric_table.drop(columns=clash).merge(means[names], left_on="conversation", right_index=True, how="inner")
    alone = frame["conversation"].map(means["rater"])
    frame["participant"] = frame["participant"].where(frame["participant"].notna(), alone)
    return frame


def column_names(metrics: Iterable[Metric]) -> list[str]:
    """Return the conversation-level columns of the metrics."""
    return [column.name for metric in metrics for column in metric.columns if column.level == "conversation"]


def metrics_of_columns(names: Sequence[str], project: str | None = None) -> list[Metric]:
    """Return the metrics that have these conversation-level columns; unknown names are ignored."""
    requested_names = set(names)
    return [metric for metric in metrics_all(project) if requested_names & set(column_names([metric]))]


def check_computed(metrics: Sequence[Metric], *, study: Study | None = None, run: SelfPlayRun | None = None) -> None:
    """Check that every metric has results for the table's conversations.

    A study's table needs its rated conversations.

    Raises:
        Refused: `not_computed`, with the command to run.
    """
    rows = _drop_bot_pairs(measurable(study=study, run=run), run)
    if study is not None:
        rows = rows.filter(ratings__isnull=False).distinct()
    n_rows = rows.count()
    versions = versions_current(metrics)
    lacking = []
    for metric in metrics:
        version = versions.get(metric.name)
        if isinstance(metric, ScoreFileMetric):
            _check_bots_scored(metric, version, rows)
            continue
        n_there = rows.filter(metric_results__metric=version).count() if version is not None else 0
        if n_there < n_rows:
            lacking.append(f"{metric.name} ({n_rows - n_there} of {n_rows})")
    if lacking:
        source = f"study {study.key}" if study is not None else f"self-play run {run.pk}"  # type: ignore[union-attr]
        option = f"--study {study.key}" if study is not None else f"--run {run.pk}"  # type: ignore[union-attr]
        raise Refused(
            "not_computed",
            f"conversations of {source} lack metrics: {', '.join(lacking)}; run `{settings.CONFAB_PROGRAM} "
            f"compute_metrics {option}` first",
        )


def _check_bots_scored(metric: ScoreFileMetric, version: MetricVersion | None, rows: QuerySet[Conversation]) -> None:
    """Check that every bot has values of an imported metric.

    Raises:
        Refused: `not_computed`, with the bots that have none.
    """
    scored = rows.filter(metric_results__metric=version, metric_results__reasons={})
    of_bots, bots = ((each.order_by().values_list("bot__bot_id", flat=True).distinct()) for each in (scored, rows))
    if unscored := sorted(set(bots) - set(of_bots if version is not None else ())):
        raise Refused(
            "not_computed",
            f"the imported metric {metric.name} has no values for {', '.join(unscored)}; import a file with their "
            "scores, or leave the metric out",
        )


VOTES = "votes"
"""Name of the participants' votes on replies among the columns."""
_MOST_IDS = 1000
_Rows = dict[str, list[float | None]]


def turn_values(conversations: QuerySet[Conversation], ids: Sequence[str], columns: Sequence[str]) -> dict[str, _Rows]:
    """Return the values per exchange, in order, by column and conversation.

    An exchange begins with a participant's first message after the bot's turn; several values within it are
    averaged. A bot's messages before the first participant message belong to no exchange. Columns without any value are
    left out, as are votes if none was cast: a missing vote does not mean indifference.

    Args:
        conversations: all of the study's, including `ids`.
        columns: columns of turn-level metrics, or `VOTES`.
    """
    requested_ids = set(ids)
    # Many ids do not fit into one query, and the number of batches would grow with the study.
    which: Any = list(ids) if len(ids) <= _MOST_IDS else conversations.values("pk")
    values_by_column: dict[str, _Rows] = {name: {} for name in columns}
    exchanges: dict[str, list[int]] = {}
    spoke: dict[str, str] = {}
    turns = Turn.objects.filter(conversation__in=which, is_refused=False).order_by("conversation", "index")
    for pk, speaker, vote in turns.values_list("conversation_id", "speaker", "vote").iterator():
        key = str(pk)
        if key not in requested_ids:
            continue
        exchange_numbers = exchanges.setdefault(key, [])
        human = speaker == Turn.Speaker.HUMAN
        last_number = exchange_numbers[-1] if exchange_numbers else 0
        exchange_numbers.append(last_number + 1 if human and spoke.get(key) != speaker else last_number)
        spoke[key] = speaker
        if VOTES in values_by_column:
            values_by_column[VOTES].setdefault(key, []).append(None if human else float(vote))
    metrics = [m for m in metrics_all() if {c.name for c in m.columns if c.level == "turn"} & set(columns)]
    results = MetricResult.objects.filter(conversation__in=which, metric__in=list(versions_current(metrics).values()))
    for pk, values in results.values_list("conversation_id", "turns").iterator():
        if str(pk) in requested_ids:
            for name in values.keys() & values_by_column.keys():
                values_by_column[name][str(pk)] = values[name]
    return {
        name: {key: by_exchange(exchanges.get(key, []), row) for key, row in rows.items()}
        for name, rows in values_by_column.items()
        if any(value if name == VOTES else value is not None for row in rows.values() for value in row)
    }


def participants_of(conversations: QuerySet[Conversation], ids: Sequence[str]) -> dict[str, str | None]:
    """Return the participant (or None) by conversation.

    Args:
        conversations: all of the study's, including `ids`.
    """
    requested_ids = set(ids)
    which = conversations.filter(pk__in=ids) if len(ids) <= _MOST_IDS else conversations
    return {
        str(pk): None if person is None else str(person)
        for pk, person in which.values_list("pk", "participant")
        if str(pk) in requested_ids
    }


def scales_of(columns: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """Return the limits of these columns' values; None without any.

    An open side is infinite.
    """
    ends_by_column: dict[str, tuple[float, float] | None] = {}
    for metric in metrics_all():
        for column in metric.columns:
            if column.level == "turn" and column.name in columns:
                ends_by_column[column.name] = ends_of(column.range)
    return {**ends_by_column, VOTES: (-1.0, 1.0)}


FACTORS = {"corpus": "corpus", "architecture": "architecture", "model": "architecture", "ei": "EI"}
"""Parameters of an identity that are factors of a bot's making, with their titles."""
MEASURED = "metrics"
"""Parameter with the final figures of a checkpoint's training."""

Factors = dict[str, dict[str, str]]
"""Level by factor and bot."""


def bot_versions(study: Study) -> list[BotVersion]:
    """Return the bot identities in a study's conversations."""
    version_ids = study.conversations.order_by().values("bot").distinct()
    return list(BotVersion.objects.filter(pk__in=version_ids).order_by("bot_id", "created_at"))


def factors_of(versions: Iterable[BotVersion], columns: BotColumns) -> Factors:
    """Return the factors of the bots' identities.

    Those of the researcher's table replace them.
    """
    factors: Factors = {}
    for version in versions:
        for name, value in version.params.items():
            factor = FACTORS.get(name.lower())
            if factor == "EI":
                level = "EI" if value else "plain"
            elif factor and isinstance(value, str) and value and "/" not in value:
                level = value
            else:  # not a factor, or a model's path
                continue
            factors.setdefault(factor, {}).setdefault(version.bot_id, level)
    return {**factors, **{name: dict(levels) for name, levels in columns.factors.items()}}


def measured_of(versions: Iterable[BotVersion], columns: BotColumns) -> dict[str, dict[str, float]]:
    """Return numbers by name and bot, from checkpoints and the researcher's table."""
    figures_by_name: dict[str, dict[str, float]] = {}
    for version in versions:
        figures = version.params.get(MEASURED)
        for name, value in figures.items() if isinstance(figures, Mapping) else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                figures_by_name.setdefault(name, {})[version.bot_id] = float(value)
    return {**figures_by_name, **{name: dict(values) for name, values in columns.metrics.items()}}


def bot_groups(study: Study) -> dict[str, str]:
    """Return each bot's family, if families might explain the ratings.

    Families come from the column `group` of the researcher's table, else from the corpora, else from the
    architectures: the first source with at least two families, one of which has two bots. Empty if there is none.
    """
    columns = BotColumns.from_json(study.bot_columns)
    factors = factors_of(bot_versions(study), columns)
    for name in (GROUP, "corpus", "architecture"):
        labels = factors.get(name, {})
        if 2 <= len(set(labels.values())) < len(labels):
            return labels
    return {}
