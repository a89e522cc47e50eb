"""Comparison of self-play runs by each bot's means of chosen metrics.

The sampling unit is the conversation, so intervals have conversations as units. Conversations of two different bots are
left out, as for the hybrid metric (`jobs/selectors/analysis_tables.py`). Only results of current metric versions count,
because earlier ones may mean something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from chatbots.validation import Mistake
from evaluation.data.tables import ends_of
from evaluation.findings import Reason
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.means import Interval, mean_interval
from webapp.conversations.models import Conversation
from webapp.jobs.models import SELF_PLAY, MetricResult, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.metrics import metrics_all, versions_current
from webapp.jobs.selectors.selfplay import runs_newest
from webapp.search.models import Figure, Series

MOST_RUNS, MOST_COLUMNS = 8, 6
"""Maximum number of runs and metrics side by side, so that the table stays readable."""
USUAL_RUNS, USUAL_COLUMNS = 4, 3
"""Default numbers of runs and metrics."""
USUAL = ("words_bot", "question_bot", "sentiment_bot", "self_repetition_bot", "distinct_2_bot")
"""Columns preferred by default."""
_LISTED = 40
NOT_PLAYED = Reason("not_played", "the bot has no self-play with itself in this run")
NOT_COMPUTED = Reason("not_computed", "not computed for this run")

Group = tuple[int, str, int]
"""A run, a bot, and a series or a version of a metric."""


@dataclass(frozen=True, slots=True)
class RunComparisonParams:
    """Requested runs, bots and columns as texts; empty for the defaults."""

    runs: Sequence[str] = ()
    bots: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunMeasure:
    """Numeric column of a metric.

    Attributes:
        scale: its limits, infinite on an open side; None without any.
        version: key of the metric's current version; None if never computed.
        is_first: True for a metric's first column.
    """

    name: str
    title: str
    unit: str
    about: str
    scale: tuple[float, float] | None
    version: int | None
    is_first: bool


@dataclass(frozen=True, slots=True)
class RunMean:
    """A bot's mean of one measure in a run.

    Attributes:
        n_measured: conversations with a result, including undefined values.
    """

    interval: Interval
    n_measured: int


@dataclass(frozen=True, slots=True)
class Side:
    """Results of a bot in a run.

    Attributes:
        version: key of its identity, which changes with its parameters and its code.
        n: its finished self-conversations; n_failed: its failed ones.
        means: one for each of the measures.
    """

    run: SelfPlayRun
    bot_id: str
    version: str
    n: int
    n_failed: int
    means: tuple[RunMean, ...]


@dataclass(frozen=True, slots=True)
class RunsCompared:
    """Comparison of runs.

    Attributes:
        sides: sorted by bot, then by run.
        differ: names of the settings of `settings_of` that differ between runs.
        versions_differ: bots whose identity differs between runs.
        repeated: deterministic bots with identical conversations in two runs of equal settings.
        every_run, every_bot, every_measure: available choices.
        wrong: unknown names in the request, each with suggestions.
    """

    runs: list[SelfPlayRun]
    measures: list[RunMeasure]
    bots: list[str]
    sides: list[Side]
    differ: list[str]
    versions_differ: list[str]
    repeated: list[str]
    every_run: list[SelfPlayRun]
    every_bot: list[str]
    every_measure: list[RunMeasure]
    wrong: list[Mistake]


def runs_compared(params: RunComparisonParams) -> RunsCompared:
    """Compare self-play runs in a constant number of queries."""
    wrong: list[Mistake] = []
    newest = runs_newest(_LISTED)
    runs = _runs(params.runs, newest, wrong)
    every_bot = list(dict.fromkeys(bot for run in runs for bot in run.plan.get("bots", [])))
    bots = _bots(params.bots, every_bot, wrong) or every_bot
    n_measured = _count_measured(runs)
    known = _measures()
    measured_versions = {version for _run, _bot, version in n_measured}
    every_measure = [measure for measure in known if measure.version in measured_versions]
    measures = _columns(params.columns, known, every_measure, wrong)
    values = _values(runs, measures)
    played = _played(runs)
    sides = []
    for bot in bots:
        for run in runs:
            if bot not in run.plan.get("bots", []):
                continue
            n, n_failed = played.get((run.pk, bot), (0, 0))
            means = tuple(
                _mean(
                    measure,
                    n,
                    n_measured.get((run.pk, bot, measure.version or 0), 0),
                    values[(run.pk, bot, measure.name)],
                )
                for measure in measures
            )
            sides.append(Side(run, bot, _version(run, bot), n, n_failed, means))
    settings = [settings_of(run) for run in runs]
    return RunsCompared(
        runs=runs,
        measures=measures,
        bots=bots,
        sides=sides,
        differ=[
            name for name in settings[0] if any(run_settings[name] != settings[0][name] for run_settings in settings)
        ]
        if settings
        else [],
        versions_differ=[bot for bot in bots if len(_versions(runs, bot)) > 1],
        repeated=[bot for bot in bots if _is_repeated(runs, bot)],
        every_run=[*newest, *(run for run in runs if run not in newest)],
        every_bot=every_bot,
        every_measure=every_measure,
        wrong=wrong,
    )


def settings_of(run: SelfPlayRun) -> dict[str, Any]:
    """Return the run's parameters by their names in the run's form."""
    plan = run.plan
    return {
        "seed": plan.get("seed", 0),
        "conversations": plan.get("n_conversations", 0),
        "turns": plan.get("n_turns", 0),
        "pairs": plan.get("pairs", "self"),
        "openers": list(plan.get("openers") or []),
        "study": plan.get("study") or "",
    }


def _runs(requested: Sequence[str], newest: list[SelfPlayRun], wrong: list[Mistake]) -> list[SelfPlayRun]:
    """Return the requested runs, or the newest ones with conversations."""
    if not requested:
        return [run for run in newest if run.n_done][:USUAL_RUNS]
    names = list(dict.fromkeys(requested))
    known = {str(run.pk): run for run in newest}
    numbers = [int(name) for name in names if _is_number(name) and name not in known]
    for run in SelfPlayRun.objects.filter(SELF_PLAY, pk__in=numbers) if numbers else ():
        known[str(run.pk)] = run
    for name in names:
        if name not in known:
            newest_ids = ", ".join(str(run.pk) for run in newest[:5]) or _("none")
            message = _("There is no self-play run {run}. The newest are: {there}.")
            wrong.append(Mistake("runs", message.format(run=name, there=newest_ids)))
    selected_runs = sorted((known[name] for name in names if name in known), key=lambda run: -run.pk)
    if len(selected_runs) > MOST_RUNS:
        message = _("{n} runs are selected; up to {most} can be compared.")
        wrong.append(Mistake("runs", message.format(n=len(selected_runs), most=MOST_RUNS)))
    return selected_runs[:MOST_RUNS]


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 16


def _bots(requested: Sequence[str], available: Sequence[str], wrong: list[Mistake]) -> list[str]:
    for name in dict.fromkeys(requested):
        if name not in available:
            message = _("None of these runs includes the bot “{bot}”. Available: {there}.")
            known = ", ".join(available) or _("none")
            wrong.append(Mistake("bots", message.format(bot=name, there=known)))
    return [bot for bot in available if bot in requested]


def _columns(
    requested: Sequence[str], known: Sequence[RunMeasure], available: Sequence[RunMeasure], wrong: list[Mistake]
) -> list[RunMeasure]:
    """Return the requested measures, or the computed default ones."""
    if not requested:
        by_name = {measure.name: measure for measure in available}
        usual = [by_name[name] for name in USUAL if name in by_name]
        return (usual or list(available))[:USUAL_COLUMNS]
    by_name = {measure.name: measure for measure in known}
    selected = []
    for name in dict.fromkeys(requested):
        if name in by_name:
            selected.append(by_name[name])
            continue
        message = _("No metric has the column “{name}”. Available in these runs: {there}.")
        names = ", ".join(measure.name for measure in available) or _("none")
        wrong.append(Mistake("columns", message.format(name=name, there=names)))
    if len(selected) > MOST_COLUMNS:
        message = _("{n} metrics are selected; up to {most} can be compared.")
        wrong.append(Mistake("columns", message.format(n=len(selected), most=MOST_COLUMNS)))
    return selected[:MOST_COLUMNS]


def _measures() -> list[RunMeasure]:
    """Return all interpretable columns of this server's metrics, in one query."""
    measures = []
    metrics = [metric for metric in metrics_all() if not getattr(metric, "ingredient", False)]
    versions = versions_current(metrics)
    for metric in metrics:
        version = versions.get(metric.name)
        columns = [column for column in metric.columns if column.level == "conversation"]
        for column in columns:
            measures.append(
                RunMeasure(
                    name=column.name,
                    title=column.title.removesuffix(", mean"),
                    unit=column.unit,
                    about=column.description,
                    scale=ends_of(column.range),
                    version=None if version is None else version.pk,
                    is_first=column is columns[0],
                )
            )
    return measures


def _played(runs: Iterable[SelfPlayRun]) -> dict[tuple[int, str], tuple[int, int]]:
    """Count finished and failed self-conversations by run and bot."""
    links = SelfPlayConversation.objects.filter(run__in=list(runs), partner_bot_id="")
    counts = links.values_list("run", "bot_id").annotate(
        n=Count("pk", filter=Q(conversation__state=Conversation.State.COMPLETED)),
        n_failed=Count("pk", filter=~Q(error="")),
    )
    return {(run, bot): (n, n_failed) for run, bot, n, n_failed in counts.order_by()}


def _self_conversations(runs: Iterable[SelfPlayRun]) -> Q:
    """Return the condition on a bot's complete conversations with itself."""
    return Q(
        conversation__selfplay__run__in=list(runs),
        conversation__selfplay__partner_bot_id="",
        conversation__state=Conversation.State.COMPLETED,
    )


_WHOSE = ("conversation__selfplay__run", "conversation__selfplay__bot_id")


def _count_measured(runs: Iterable[SelfPlayRun]) -> dict[Group, int]:
    """Count measured conversations by run, bot and metric version."""
    result_counts = MetricResult.objects.filter(_self_conversations(runs)).order_by().values_list(*_WHOSE, "metric")
    return {(run, bot, version): n for run, bot, version, n in result_counts.annotate(n=Count("pk"))}


def _values(runs: Iterable[SelfPlayRun], measures: Sequence[RunMeasure]) -> Mapping[tuple[int, str, str], list[float]]:
    """Return values by run, bot and measure, in ascending order."""
    names_by_version = {(measure.name, measure.version): measure.name for measure in measures}
    versions = {measure.version for measure in measures if measure.version is not None}
    metric_series = Series.objects.filter(kind=Series.Kind.METRIC, metric__in=versions)
    series = {
        pk: names_by_version[(name, version)]
        for pk, name, version in metric_series.values_list("pk", "name", "metric")
        if (name, version) in names_by_version
    }
    values_by_group: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    rows = Figure.objects.filter(_self_conversations(runs), series__in=list(series))
    for run, bot, series_id, value in rows.values_list(*_WHOSE, "series", "value").order_by("value"):
        values_by_group[(run, bot, series[series_id])].append(value)
    return values_by_group


def _mean(measure: RunMeasure, n: int, n_measured: int, values: list[float]) -> RunMean:
    if not n_measured:
        reason = NOT_COMPUTED if n else NOT_PLAYED
        return RunMean(Interval(None, None, None, 0, reason), 0)
    scale = measure.scale
    if scale is not None and values and not scale[0] <= values[0] <= values[-1] <= scale[1]:
        scale = None  # a metric with values beyond its declared scale is treated as unbounded
    return RunMean(mean_interval(values, level=SCORE_LEVEL, scale=scale), n_measured)


def _version(run: SelfPlayRun, bot: str) -> str:
    return str(run.plan.get("identities", {}).get(bot, {}).get("key", ""))


def _versions(runs: Iterable[SelfPlayRun], bot: str) -> set[str]:
    return {_version(run, bot) for run in runs if bot in run.plan.get("bots", [])}


def _is_repeated(runs: Iterable[SelfPlayRun], bot: str) -> bool:
    """Return True if a bot's self-conversations are equal in two runs.

    Compares as many as the shorter run has.
    """
    seen: set[tuple[Any, ...]] = set()
    for run in runs:
        if bot not in run.plan.get("bots", []) or not run.plan.get("deterministic", {}).get(bot):
            continue
        run_settings = settings_of(run)
        made_by = (_version(run, bot), run_settings["seed"], run_settings["turns"], tuple(run_settings["openers"]))
        if made_by in seen:
            return True
        seen.add(made_by)
    return False
