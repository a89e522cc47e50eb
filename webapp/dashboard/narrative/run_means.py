"""Tables that compare self-play runs: every bot's metrics run by run, and the runs' differing settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.formats import date_format

from evaluation.number_format import figure, percent, span
from evaluation.plots.marks import slots_of
from webapp.core.language import plural
from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import NamedTable, count_cell, listed, reason_text
from webapp.jobs.models import SelfPlayRun
from webapp.search.run_comparison import LEVEL, RunMean, RunMeasure, RunsCompared, Side, settings_of

_SMALL = 1.0
"""Of numbers below it three decimals are told."""


def means_table(found: RunsCompared) -> NamedTable:
    """Tabulate, bot by bot and run by run, the means with their intervals."""
    digits = {one.name: _digits(found, place) for place, one in enumerate(found.measures)}
    slots = dict(zip(found.every_bot, slots_of(len(found.every_bot)), strict=True))
    headers = [Header("Bot"), Header("Run")]
    headers += [Header(_title(one), numeric=True) for one in found.measures]
    headers.append(Header("Conversations", numeric=True))
    rows = []
    for side in found.sides:
        cells = [
            Cell(side.bot_id, slot=slots[side.bot_id]),
            Cell(run_title(side.run), reverse("dashboard:run", args=[side.run.pk])),
        ]
        for one, mean in zip(found.measures, side.means, strict=True):
            cells.append(_mean_cell(mean, side.n, digits[one.name]))
        cells.append(_n_cell(side))
        rows.append(cells)
    return NamedTable(
        "run-means",
        "Bots, run by run",
        PageTable(headers, rows),
        method=(
            f"Mean over a bot’s conversations with itself, with its {percent(LEVEL)} interval, for which each "
            "conversation is one draw. Metrics as they are now."
        ),
        note=" ".join(_cautions(found)),
    )


def settings_table(found: RunsCompared) -> NamedTable:
    """Tabulate in what the runs differ, and say what they have in common."""
    told = [(run, settings_of(run)) for run in found.runs]
    headers = [Header("Run"), Header("Started"), Header("State")]
    headers += [Header(_SETTINGS[name](), numeric=name in _NUMBERS) for name in found.differ]
    headers += [Header(f"Version of {bot}") for bot in found.versions_differ]
    versions = {(side.run.pk, side.bot_id): side.version for side in found.sides}
    rows = []
    for run, settings in told:
        cells = [
            Cell(run_title(run), reverse("dashboard:run", args=[run.pk])),
            Cell(date_format(run.created_at, "j M Y H:i")),
            Cell(str(run.get_state_display())),
        ]
        cells += [_setting_cell(name, settings[name]) for name in found.differ]
        cells += [
            Cell(version[:8], why="")
            if (version := versions.get((run.pk, bot), ""))
            else Cell("–", why="not in this run")
            for bot in found.versions_differ
        ]
        rows.append(cells)
    alike = [
        f"{_SETTINGS[name]()}: {_setting_cell(name, value).text}"
        for name, value in (told[0][1].items() if told else ())
        if name not in found.differ
    ]
    note = "Alike in all of them. {settings}.".format(settings="; ".join(alike)) if alike else ""
    return NamedTable(
        "run-settings", "In what the runs differ", PageTable(headers, rows), note=note if len(told) > 1 else ""
    )


def run_title(run: SelfPlayRun) -> str:
    """Return the title of a run on pages."""
    return run.name or f"Self-play {run.pk}"


def _cautions(found: RunsCompared) -> list[str]:
    """Compose the cautions on conclusions from the means."""
    told = [
        (
            "Nothing is tested here: of many means side by side some lie far apart by chance, and the more bots and "
            "metrics are looked at, the more of them do."
        )
    ]
    if found.repeated:
        told.append(
            f"{listed(found.repeated)}: deterministic, and two runs have one seed, length and version, so they hold "
            "the same conversations and are no evidence of their own."
        )
    if any(run.plan.get("pairs") == "all" for run in found.runs):
        told.append("What two different bots said to each other is left out.")
    return told


def _title(one: RunMeasure) -> str:
    is_told = one.unit in ("", "1") or one.unit in one.title.lower()
    return one.title if is_told else f"{one.title}, {one.unit}"


def _digits(found: RunsCompared, place: int) -> int:
    means = [side.means[place].found.mean for side in found.sides]
    return 3 if max((abs(mean) for mean in means if mean is not None), default=0.0) < _SMALL else 2


def _n_cell(side: Side) -> Cell:
    if not side.n:
        return Cell("0", why=_failed(side.n_failed), raw=(0,))
    query = urlencode({"bot": side.bot_id, "first": side.bot_id})
    where = reverse("dashboard:run_conversations", args=[side.run.pk])
    return Cell(f"{side.n:,}", f"{where}?{query}", why=_failed(side.n_failed), raw=(side.n,))


def _failed(n: int) -> str:
    return plural(n, "%(n)s more failed", "%(n)s more failed") % {"n": n} if n else ""


def _mean_cell(one: RunMean, n: int, digits: int) -> Cell:
    interval = one.found
    if interval.mean is None:
        return Cell("–", why=reason_text(interval.reason), raw=(None,))
    text = figure(interval.mean, digits)
    if interval.low is not None:
        text = f"{text} {span(interval.low, interval.high, digits)}"
    return Cell(text, why="; ".join(filter(None, _why(one, n))), raw=(interval.mean,))


def _why(one: RunMean, n: int) -> list[str]:
    """Return the reason for a missing interval, and counts of conversations left out."""
    told = [reason_text(one.found.reason)]
    if one.n_measured < n:
        told.append(f"computed for {one.n_measured} of {phrases.conversations_text(n)}")
    if one.found.n < one.n_measured:
        n_none = one.n_measured - one.found.n
        told.append(f"{phrases.conversations_text(n_none)} without a value")
    return told


_SETTINGS: dict[str, Callable[[], str]] = {
    "seed": lambda: "Seed",
    "conversations": lambda: "Conversations of each",
    "turns": lambda: "Turns",
    "pairs": lambda: "Who with whom",
    "openers": lambda: "Openers",
    "study": lambda: "Filters of study",
}
_NUMBERS = {"seed", "conversations", "turns"}


def _setting_cell(name: str, value: Any) -> Cell:
    if name == "conversations":
        return count_cell(value)
    if name in _NUMBERS:
        return Cell(str(value), raw=(value,))
    if name == "pairs":
        return Cell("all with all" if value == "all" else "themselves")
    if name == "openers":
        n = len(value)
        return Cell(plural(n, "%(n)s line", "%(n)s lines") % {"n": n} if n else "none")
    return Cell(value or "none")
