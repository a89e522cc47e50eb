"""Tables that compare self-play runs: metrics and settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.formats import date_format

from evaluation.data.result_tables import Cell, NamedTable, count_cell, declared_table
from evaluation.number_format import figure, percent, span
from evaluation.plots.marks import slots_of
from evaluation.stats.constants import SCORE_LEVEL
from webapp.core.language import plural
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import listed, reason_text
from webapp.jobs.models import SelfPlayRun
from webapp.search.run_comparison import RunMean, RunMeasure, RunsCompared, Side, settings_of

_SMALL = 1.0
"""Numbers below this value have three decimals."""


def means_table(comparison: RunsCompared) -> NamedTable:
    """Tabulate the means with intervals by bot and run."""
    digits = {measure.name: _digits(comparison, place) for place, measure in enumerate(comparison.measures)}
    slots = dict(zip(comparison.every_bot, slots_of(len(comparison.every_bot)), strict=True))
    measures = [
        (_title(measure), partial(_mean_cell, place, digits[measure.name]))
        for place, measure in enumerate(comparison.measures)
    ]
    return declared_table(
        "run-means",
        "Bots by run",
        comparison.sides,
        ("Bot", lambda side: Cell(side.bot_id, slot=slots[side.bot_id])),
        ("Run", lambda side: Cell(run_title(side.run), reverse("dashboard:run", args=[side.run.pk]))),
        *measures,
        ("Conversations", _n_cell),
        method=(
            f"Mean over a bot’s conversations with itself, with {percent(SCORE_LEVEL)} interval over "
            "conversations. Current versions of the metrics."
        ),
        note=" ".join(_cautions(comparison)),
    )


def settings_table(comparison: RunsCompared) -> NamedTable:
    """Tabulate the differences between the runs, and describe what they share."""
    run_settings = [(run, settings_of(run)) for run in comparison.runs]
    versions = {(side.run.pk, side.bot_id): side.version for side in comparison.sides}

    def version_cell(bot: str, row: tuple[SelfPlayRun, Mapping[str, Any]]) -> Cell:
        version = versions.get((row[0].pk, bot), "")
        return Cell(version[:8]) if version else Cell("–", reason="not in this run")

    shared_settings = [
        f"{_SETTINGS[name]}: {_setting_cell(name, value).text}"
        for name, value in (run_settings[0][1].items() if len(run_settings) > 1 else ())
        if name not in comparison.differ
    ]
    return declared_table(
        "run-settings",
        "Differences between the runs",
        run_settings,
        ("Run", lambda row: Cell(run_title(row[0]), reverse("dashboard:run", args=[row[0].pk]))),
        ("Started", lambda row: Cell(date_format(row[0].created_at, "j M Y H:i"))),
        ("State", lambda row: Cell(str(row[0].get_state_display()))),
        *[(_SETTINGS[name], partial(_setting_of, name)) for name in comparison.differ],
        *[(f"Version of {bot}", partial(version_cell, bot)) for bot in comparison.versions_differ],
        note=f"Same in all runs. {'; '.join(shared_settings)}." if shared_settings else "",
    )


def _setting_of(name: str, row: tuple[SelfPlayRun, Mapping[str, Any]]) -> Cell:
    return _setting_cell(name, row[1][name])


def run_title(run: SelfPlayRun) -> str:
    """Return the title of a run on pages."""
    return run.title


def _cautions(comparison: RunsCompared) -> list[str]:
    """Compose the cautions on conclusions from the means."""
    cautions = [
        ("This table has no significance tests. With many bots and metrics, some means differ a lot by chance.")
    ]
    if comparison.repeated:
        cautions.append(
            f"{listed(comparison.repeated)}: deterministic, and two runs share seed, length and version. Their "
            "conversations are identical, so they are not independent evidence."
        )
    if any(run.plan.get("pairs") == "all" for run in comparison.runs):
        cautions.append("Conversations between two different bots are excluded.")
    return cautions


def _title(measure: RunMeasure) -> str:
    has_unit = measure.unit in ("", "1") or measure.unit in measure.title.lower()
    return measure.title if has_unit else f"{measure.title}, {measure.unit}"


def _digits(comparison: RunsCompared, place: int) -> int:
    means = [side.means[place].interval.mean for side in comparison.sides]
    return 3 if max((abs(mean) for mean in means if mean is not None), default=0.0) < _SMALL else 2


def _n_cell(side: Side) -> Cell:
    if not side.n:
        return Cell("0", reason=_failed(side.n_failed), raw=(0,))
    query = urlencode({"bot": side.bot_id, "first": side.bot_id})
    address = reverse("dashboard:run_conversations", args=[side.run.pk])
    return Cell(f"{side.n:,}", f"{address}?{query}", reason=_failed(side.n_failed), raw=(side.n,))


def _failed(n: int) -> str:
    return plural(n, "%(n)s more failed", "%(n)s more failed") % {"n": n} if n else ""


def _mean_cell(place: int, digits: int, side: Side) -> Cell:
    run_mean, n = side.means[place], side.n
    interval = run_mean.interval
    if interval.mean is None:
        return Cell("–", reason=reason_text(interval.reason), raw=(None,))
    text = figure(interval.mean, digits)
    if interval.low is not None:
        text = f"{text} {span(interval.low, interval.high, digits)}"
    return Cell(text, reason="; ".join(filter(None, _gap_reasons(run_mean, n))), raw=(interval.mean,))


def _gap_reasons(run_mean: RunMean, n: int) -> list[str]:
    """Return the reason for a missing interval, and counts of excluded conversations."""
    reasons = [reason_text(run_mean.interval.reason)]
    if run_mean.n_measured < n:
        reasons.append(f"computed for {run_mean.n_measured} of {phrases.conversations_text(n)}")
    if run_mean.interval.n < run_mean.n_measured:
        n_none = run_mean.n_measured - run_mean.interval.n
        reasons.append(f"{phrases.conversations_text(n_none)} without a value")
    return reasons


_SETTINGS = {
    "seed": "Seed",
    "conversations": "Conversations per bot",
    "turns": "Turns",
    "pairs": "Pairing",
    "openers": "Openers",
    "study": "Filters of study",
}
_NUMBERS = {"seed", "conversations", "turns"}


def _setting_cell(name: str, value: Any) -> Cell:
    if name == "conversations":
        return count_cell(value)
    if name in _NUMBERS:
        return Cell(str(value), raw=(value,))
    if name == "pairs":
        return Cell("all pairs" if value == "all" else "themselves")
    if name == "openers":
        n = len(value)
        return Cell(plural(n, "%(n)s line", "%(n)s lines") % {"n": n} if n else "none")
    return Cell(value or "none")
