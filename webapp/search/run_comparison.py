"""Comparison of self-play runs by each bot's means of chosen metrics.

The sampling unit is the conversation, so intervals have conversations as units. Conversations of two different bots
are no self-play of either and are left out, as where the hybrid metric reads a run
(`jobs/selectors/analysis_tables.py`). Only results of the present versions of metrics count: a number of an earlier
version may mean something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from chatbots.validation import Mistake
from evaluation.findings import Reason
from evaluation.stats.means import Interval, mean_interval
from evaluation.tables import ends_of
from webapp.conversations.models import Conversation
from webapp.jobs.models import SELF_PLAY, MetricResult, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.metrics import metrics_all, versions_current
from webapp.jobs.selectors.selfplay import runs_newest
from webapp.search.models import Figure, Series

LEVEL = 0.95
MOST_RUNS, MOST_COLUMNS = 8, 6
"""So many runs and metrics stand beside one another: a table of more cannot be read."""
USUAL_RUNS, USUAL_COLUMNS = 4, 3
"""So many are taken where none are named."""
USUAL = ("words_bot", "question_bot", "sentiment_bot", "self_repetition_bot", "distinct_2_bot")
"""Columns that are taken first where none are named."""
_LISTED = 40
NOT_PLAYED = Reason("not_played", "it has no conversation with itself here")
NOT_COMPUTED = Reason("not_computed", "not computed for this run")

Group = tuple[int, str, int]
"""A run, a bot, and a series or a version of a metric."""


@dataclass(frozen=True, slots=True)
class RunComparisonParams:
    """Requested runs, bots and columns, as they were written; empty: the usual ones."""

    runs: Sequence[str] = ()
    bots: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunMeasure:
    """A number that a metric gives of each conversation.

    Attributes:
        scale: its ends, where it cannot leave them, infinite on an open side.
        version: key of the metric's present version; None where it was never computed.
        is_first: the metric's other numbers follow it.
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
        n_measured: conversations that the metric was computed for; those without a value are among them.
    """

    found: Interval
    n_measured: int


@dataclass(frozen=True, slots=True)
class Side:
    """A bot in a run.

    Attributes:
        version: key of its identity, which changes with its parameters and its code.
        n: its conversations with itself that came to their end; n_failed: that did not.
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
        sides: bot by bot, and of each bot run by run.
        differ: names of the settings in which the runs differ, of those that `settings_of` tells.
        versions_differ: bots that are not the same in all of their runs.
        repeated: bots that said the same in two of the runs, for they are deterministic and everything else is alike.
        every_run, every_bot, every_measure: what can be chosen.
        wrong: what was asked for and is not there, each with what would be right.
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


def runs_compared(asked: RunComparisonParams) -> RunsCompared:
    """Compare self-play runs, in as many queries however many there are."""
    wrong: list[Mistake] = []
    newest = runs_newest(_LISTED)
    runs = _runs(asked.runs, newest, wrong)
    every_bot = list(dict.fromkeys(bot for run in runs for bot in run.plan.get("bots", [])))
    bots = _bots(asked.bots, every_bot, wrong) or every_bot
    n_measured = _measured(runs)
    known = _measures()
    there = {version for _run, _bot, version in n_measured}
    every_measure = [one for one in known if one.version in there]
    measures = _columns(asked.columns, known, every_measure, wrong)
    values = _values(runs, measures)
    played = _played(runs)
    sides = []
    for bot in bots:
        for run in runs:
            if bot not in run.plan.get("bots", []):
                continue
            n, n_failed = played.get((run.pk, bot), (0, 0))
            means = tuple(
                _mean(one, n, n_measured.get((run.pk, bot, one.version or 0), 0), values[(run.pk, bot, one.name)])
                for one in measures
            )  # fmt: skip
            sides.append(Side(run, bot, _version(run, bot), n, n_failed, means))
    settings = [settings_of(run) for run in runs]
    return RunsCompared(
        runs=runs,
        measures=measures,
        bots=bots,
        sides=sides,
        differ=[name for name in settings[0] if any(one[name] != settings[0][name] for one in settings)]
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
    """Return the run's parameters, by the names that starting a run has."""
    plan = run.plan
    return {
        "seed": plan.get("seed", 0),
        "conversations": plan.get("n_conversations", 0),
        "turns": plan.get("n_turns", 0),
        "pairs": plan.get("pairs", "self"),
        "openers": list(plan.get("openers") or []),
        "study": plan.get("study") or "",
    }


def _runs(asked: Sequence[str], newest: list[SelfPlayRun], wrong: list[Mistake]) -> list[SelfPlayRun]:
    """Return the requested runs, the newest first; without any the newest ones with conversations."""
    if not asked:
        return [run for run in newest if run.n_done][:USUAL_RUNS]
    names = list(dict.fromkeys(asked))
    known = {str(run.pk): run for run in newest}
    numbers = [int(name) for name in names if _is_number(name) and name not in known]
    for run in SelfPlayRun.objects.filter(SELF_PLAY, pk__in=numbers) if numbers else ():
        known[str(run.pk)] = run
    for name in names:
        if name not in known:
            there = ", ".join(str(run.pk) for run in newest[:5]) or _("none")
            told = _("There is no self-play run {run}; the newest are: {there}.")
            wrong.append(Mistake("runs", told.format(run=name, there=there)))
    found = sorted((known[name] for name in names if name in known), key=lambda run: -run.pk)
    if len(found) > MOST_RUNS:
        told = _("{n} runs are chosen, and {most} can stand beside one another.")
        wrong.append(Mistake("runs", told.format(n=len(found), most=MOST_RUNS)))
    return found[:MOST_RUNS]


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 16


def _bots(asked: Sequence[str], there: Sequence[str], wrong: list[Mistake]) -> list[str]:
    for name in dict.fromkeys(asked):
        if name not in there:
            told = _("None of these runs has the bot “{bot}”; they have: {there}.")
            known = ", ".join(there) or _("none")
            wrong.append(Mistake("bots", told.format(bot=name, there=known)))
    return [bot for bot in there if bot in asked]


def _columns(
    asked: Sequence[str], known: Sequence[RunMeasure], there: Sequence[RunMeasure], wrong: list[Mistake]
) -> list[RunMeasure]:
    """Return the requested measures; without any the usual ones that were computed."""
    if not asked:
        by_name = {one.name: one for one in there}
        usual = [by_name[name] for name in USUAL if name in by_name]
        return (usual or list(there))[:USUAL_COLUMNS]
    by_name = {one.name: one for one in known}
    found = []
    for name in dict.fromkeys(asked):
        if name in by_name:
            found.append(by_name[name])
            continue
        told = _("No metric has the column “{name}”; these runs have: {there}.")
        names = ", ".join(one.name for one in there) or _("none")
        wrong.append(Mistake("columns", told.format(name=name, there=names)))
    if len(found) > MOST_COLUMNS:
        told = _("{n} metrics are chosen, and {most} can stand beside one another.")
        wrong.append(Mistake("columns", told.format(n=len(found), most=MOST_COLUMNS)))
    return found[:MOST_COLUMNS]


def _measures() -> list[RunMeasure]:
    """Return every number of the metrics of this server that can be read one by one, in one query."""
    found = []
    metrics = [one for one in metrics_all() if not getattr(one, "ingredient", False)]
    versions = versions_current(metrics)
    for metric in metrics:
        version = versions.get(metric.name)
        columns = [column for column in metric.columns if column.level == "conversation"]
        for column in columns:
            found.append(
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
    return found


def _played(runs: Iterable[SelfPlayRun]) -> dict[tuple[int, str], tuple[int, int]]:
    """Return by run and bot how many of its conversations with itself came to their end, and how many failed."""
    links = SelfPlayConversation.objects.filter(run__in=list(runs), partner_bot_id="")
    counted = links.values_list("run", "bot_id").annotate(
        n=Count("pk", filter=Q(conversation__state=Conversation.State.COMPLETED)),
        n_failed=Count("pk", filter=~Q(error="")),
    )
    return {(run, bot): (n, n_failed) for run, bot, n, n_failed in counted.order_by()}


def _own(runs: Iterable[SelfPlayRun]) -> Q:
    """Return the condition that conversations found are a bot's with itself and complete."""
    return Q(
        conversation__selfplay__run__in=list(runs),
        conversation__selfplay__partner_bot_id="",
        conversation__state=Conversation.State.COMPLETED,
    )


_WHOSE = ("conversation__selfplay__run", "conversation__selfplay__bot_id")


def _measured(runs: Iterable[SelfPlayRun]) -> dict[Group, int]:
    """Return by run, bot and version of a metric how many conversations it was computed for."""
    counted = MetricResult.objects.filter(_own(runs)).order_by().values_list(*_WHOSE, "metric")
    return {(run, bot, version): n for run, bot, version, n in counted.annotate(n=Count("pk"))}


def _values(runs: Iterable[SelfPlayRun], measures: Sequence[RunMeasure]) -> Mapping[tuple[int, str, str], list[float]]:
    """Return by run, bot and measure the values of its conversations, in ascending order."""
    wanted = {(one.name, one.version): one.name for one in measures}
    versions = {one.version for one in measures if one.version is not None}
    kept = Series.objects.filter(kind=Series.Kind.METRIC, metric__in=versions)
    series = {
        pk: wanted[(name, version)]
        for pk, name, version in kept.values_list("pk", "name", "metric")
        if (name, version) in wanted
    }
    found: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    rows = Figure.objects.filter(_own(runs), series__in=list(series))
    for run, bot, one, value in rows.values_list(*_WHOSE, "series", "value").order_by("value"):
        found[(run, bot, series[one])].append(value)
    return found


def _mean(one: RunMeasure, n: int, n_measured: int, values: list[float]) -> RunMean:
    if not n_measured:
        reason = NOT_COMPUTED if n else NOT_PLAYED
        return RunMean(Interval(None, None, None, 0, reason), 0)
    scale = one.scale
    if scale is not None and values and not scale[0] <= values[0] <= values[-1] <= scale[1]:
        scale = None  # a metric that leaves the scale that it declares has none to keep to
    return RunMean(mean_interval(values, level=LEVEL, scale=scale), n_measured)


def _version(run: SelfPlayRun, bot: str) -> str:
    return str(run.plan.get("identities", {}).get(bot, {}).get("key", ""))


def _versions(runs: Iterable[SelfPlayRun], bot: str) -> set[str]:
    return {_version(run, bot) for run in runs if bot in run.plan.get("bots", [])}


def _is_repeated(runs: Iterable[SelfPlayRun], bot: str) -> bool:
    """Return True if two runs have equal self-conversations of a bot, as far as the shorter one goes."""
    seen: set[tuple[Any, ...]] = set()
    for run in runs:
        if bot not in run.plan.get("bots", []) or not run.plan.get("deterministic", {}).get(bot):
            continue
        asked = settings_of(run)
        made_by = (_version(run, bot), asked["seed"], asked["turns"], tuple(asked["openers"]))
        if made_by in seen:
            return True
        seen.add(made_by)
    return False
