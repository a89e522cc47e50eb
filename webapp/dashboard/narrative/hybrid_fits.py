"""Hybrid fits in the report, and comparisons of fits, self-play runs and studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from evaluation.analysis.leaderboard import leaderboard, ranks_shown
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import digits_for, figure, percent, span
from evaluation.stats.comparisons import Comparison
from webapp.dashboard.charts.figure import Cell
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.hybrid import HybridView, hybrid_view, target_in_words
from webapp.dashboard.narrative.hybrid_tables import (
    Bots,
    Predictor,
    bot_cell,
    intercept_in_words,
    named_table,
    predictor,
    predictors_of,
    predictors_selfplay,
)
from webapp.dashboard.narrative.phrases import NamedTable, Section, count_cell, number_cell, reason_text, share_cell
from webapp.jobs.models import HybridFit, SelfPlayRun
from webapp.results.study_data import StudyFrame


def hybrid_section(
    fits: Sequence[HybridFit],
    *,
    study_key: str,
    bots: Bots,
    dimensions: dict[str, str],
    link: Callable[[str], str] = lambda bot: "",
    without: Sequence[str] = (),
) -> Section:
    """Return stored fits, each with its figures.

    Args:
        fits: first the one that pages speak of.
        study_key: for the command that makes one.
        bots: of the study, for titles and marks.
        dimensions: titles of the rubric's by key.
        link: address of a bot's conversations.
        without: names of flags; the fits leave out the people with one of these.
    """
    section = Section("hybrid", "Hybrid metric")
    if not fits:
        who = " without the people who are left out here" if without else ""
        options = f" --without {','.join(without)}" if without else ""
        section.missing.append(
            f"No hybrid metric has been fitted{who}; run `{settings.CONFAB_PROGRAM} fit_hybrid --study "
            f"{study_key}{options}`."
        )
    drawn: set[tuple[str, str]] = set()
    for fit in fits:
        assert fit.result is not None
        view = hybrid_view(fit.result, bots, link, dimensions)
        name = f"Fit {fit.pk}: preset {fit.result['preset']}, target {view.target}, {view.intercept}"
        if fit is fits[0]:
            section.caution = view.caution
        section.lead.append(_sentence(name, view, fit.result))
        same = (fit.result["preset"], fit.result["target"])
        section.figures += [
            replace(figure, id=f"{figure.id}-{fit.pk}", method=f"{figure.method} ({name}.)")
            for figure in view.figures.values()
            # The slopes do not depend on the intercept, so they are drawn once.
            if figure.id != "weights" or same not in drawn
        ]
        drawn.add(same)
        section.tables += [
            replace(table, id=f"{table.id}-{fit.pk}", method=f"{table.method} ({name}.)") for table in view.tables
        ]
        section.how += [f"{name}: {note}" for note in view.notes]
        if view.conclusion != view.caution and not section.points:
            section.points.append(view.conclusion)
    return section


def _sentence(name: str, view: HybridView, result: Mapping[str, Any]) -> str:
    metric = view.metric
    if metric is None or metric.value is None:
        return f"{name}: {metric.why if metric else view.caution}"
    over = phrases.bots_text(result["n_bots"])
    chance = f"chance passes {metric.chance} once in twenty"
    return f"{name}: r = {metric.r} {metric.interval} over {over}; {chance}. {view.pairs}"


def fits_table(fits: Sequence[HybridFit], link: Callable[[HybridFit], str], *, several: bool) -> NamedTable:
    """Tabulate fits: how well each predicts bots that it has not seen, and what chance and the best rival reach.

    Args:
        fits: finished ones.
        several: whether they are of several studies, so that each says of which.
    """
    has_played = any(predictors_selfplay(fit.result or {}) for fit in fits)
    columns = ("Fit", "What", "Bots#", "r#", "95 %#", "null, 95 %#", "Q²#", "null, 95 %#", "Best baseline", "its r#")
    rows = []
    for fit in fits:
        result = fit.result or {}
        metric, best = _metric_and_best(result)
        few = _few(result)
        q2 = {} if few else result.get("q2") or {}
        why = few or reason_text(q2.get("reason")) or "not told by this fit"
        why_best = few or "no baseline has a correlation"
        played = next(iter(predictors_selfplay(result)), None)
        rows.append(
            [
                Cell(str(fit.pk), link(fit)),
                Cell(f"{fit.study.name}: {_params_of(fit)}" if several else _params_of(fit)),
                count_cell(result["n_bots"]),
                *_of_predictor(metric),
                share_cell(q2.get("value"), why=why),
                share_cell(q2.get("null95"), why=why),
                Cell(best.title if best else "–", why="" if best else why_best),
                share_cell(best.value if best else None, why=why_best),
                *(_of_predictor(played)[:2] if has_played else []),
            ]
        )
    note = (
        "The best of several fits looks better than it is: decide which one you report before you look, or test it on "
        "bots that none of them has seen."
    )
    return named_table(
        "fits",
        "Fits beside one another",
        (*columns, "r, self-play#", "95 %#") if has_played else columns,
        rows,
        "Each bot predicted without its own ratings. Null: what permuted ratings pass once in twenty fits. Q²: the "
        "gain over the mean of the other bots, 1 is perfect, 0 is none. Baseline: the best of the trivial predictors "
        "of the same bots.",
        note if len(fits) > 1 else "",
    )


def _few(result: Mapping[str, Any]) -> str:
    """Say that the bots are too few for a correlation; empty where they are not."""
    n = int(result["n_bots"])
    return "" if n >= FEW_BOTS else f"too few: {phrases.bots_text(n)}"


def _metric_and_best(result: Mapping[str, Any]) -> tuple[Predictor, Predictor | None]:
    """Return the metric and the trivial predictor with the highest r, where there are bots enough to say."""
    if few := _few(result):
        return predictor("", "", {"reason": few}), None
    metric, *rivals = predictors_of(result)
    known = [one for one in rivals if one.value is not None]
    return metric, max(known, key=lambda one: one.value or 0.0, default=None)


def _params_of(fit: HybridFit) -> str:
    result, asked = fit.result or {}, fit.request
    parts = [
        str(result["preset"]),
        target_in_words(str(result["target"]), list(result.get("dimensions") or {})),
        intercept_in_words(result),
    ]
    if asked.get("without"):
        parts.append(f"without {', '.join(asked['without'])}")
    if asked.get("exclude_bots"):
        parts.append(f"without {phrases.bots_text(len(asked['exclude_bots']))}")
    return ", ".join(parts)


def _of_predictor(found: Predictor | None) -> list[Cell]:
    """Return a predictor's r, its interval and what chance passes, as cells."""
    if found is None:
        return [Cell("–", why="it was applied to no self-play")] * 3
    why = found.why or "not told by this fit"
    return [
        Cell(found.r, why=found.why if found.value is None else "", raw=(found.value,)),
        *(Cell(text, why=why if text == "–" else "") for text in (found.interval, found.chance)),
    ]


def runs_table(
    fits: Sequence[HybridFit], bots: Bots, link: Callable[[SelfPlayRun], str]
) -> tuple[NamedTable, list[tuple[str, str]]] | None:
    """Tabulate what self-play predicts of each bot, run by run, with the addresses of the runs; None without a run.

    Args:
        fits: the newest first; of each run and study the newest one tells.
    """
    newest: dict[tuple[int, int], HybridFit] = {}
    for fit in fits:
        if fit.run_id is not None and predictors_selfplay(fit.result or {}):
            newest.setdefault((fit.study_id, fit.run_id), fit)
    if not newest:
        return None
    by_fit = [(fit.result or {})["bots"] for fit in newest.values()]
    names = dict.fromkeys(
        bot
        for found in by_fit
        for bot, one in found.items()
        if one.get("predicted_selfplay") is not None or one.get("rank_selfplay") is not None
    )
    rows = []
    for bot in sorted(names, key=lambda bot: bots[bot].slot if bot in bots else len(bots) + 1):
        of_bot = [found.get(bot) or {} for found in by_fit]
        human = next((mean for one in of_bot if (mean := one.get("human_mean")) is not None), None)
        rows.append([bot_cell(bot, bots), number_cell(human, why="it has no ratings"), *map(_played, of_bot)])
    table = named_table(
        "runs",
        "What self-play predicts, run by run",
        ("Bot", "People#", *(f"run {fit.run_id}, fit {fit.pk}#" for fit in newest.values())),
        rows,
        "The rating that the newest fit of each run predicts from the bot’s conversations with itself, with the 90 % "
        "interval named on the fit’s page; bots that were rated are predicted without their ratings.",
    )
    runs = {fit.run_id: fit.run for fit in newest.values() if fit.run is not None}
    return table, [(f"run {pk}", link(run)) for pk, run in runs.items()]


def _played(found: Mapping[str, Any]) -> Cell:
    value, ends = found.get("predicted_selfplay"), found.get("predicted_selfplay_ci90")
    if (rank := found.get("rank_selfplay")) is not None:
        return Cell(f"rank {rank}", why="the fit is of another study: it gives ranks and no values", raw=(rank,))
    if value is None:
        return Cell("–", why="no self-play of this bot in the run")
    if not ends:
        return Cell(figure(value), why="no interval for this bot", raw=(value,))
    return Cell(f"{figure(value)} {span(*ends)}", raw=(value,))


@dataclass(frozen=True, slots=True)
class ComparedStudy:
    """A study beside others: what stands around its results, and these (`StudyComparisons`)."""

    frame: StudyFrame
    found: Any


def studies_table(studies: Sequence[ComparedStudy]) -> NamedTable | None:
    """Tabulate every bot's mean, interval and range of ranks, study by study; None for fewer than two studies."""
    if len(studies) < 2:
        return None
    boards = [
        {place.bot: place for place in leaderboard(one.found.means, one.found.compared).places} for one in studies
    ]
    columns = ["Bot"]
    for one in studies:
        rated = one.frame.headline
        columns += [f"{one.frame.study.name}: {rated.title.lower()}, {rated.low:g} to {rated.high:g}#", "Rank#"]
    rows = []
    for bot in dict.fromkeys(bot for board in boards for bot in board):
        # A bot's mark is that of its place in one study, so here it has none.
        cells = [Cell(next(one.frame.bots[bot].title for one in studies if bot in one.frame.bots))]
        for one, board in zip(studies, boards, strict=True):
            place = board.get(bot)
            if place is None:
                cells += [Cell("–", why="not rated in this study")] * 2
                continue
            digits, mean = digits_for(one.frame.headline.low, one.frame.headline.high), place.mean
            shown = f"{figure(mean.mean, digits)} {span(mean.low, mean.high, digits)}"
            why_rank = "" if place.ranks else "a control bot has no rank"
            cells.append(Cell(shown, one.frame.link(bot), why=reason_text(mean.reason), raw=(mean.mean,)))
            cells.append(Cell(ranks_shown(place.ranks), why=why_rank, raw=place.ranks or (None, None)))
        rows.append(cells)
    level = percent(studies[0].found.means.level)
    note = (
        "Other people rated in each study, perhaps of other conversations: compare who is above whom, not means with "
        "means."
    )
    return named_table(
        "studies",
        "The same bots in several studies",
        columns,
        rows,
        f"Mean of all ratings with {level} interval; ranks as on each leaderboard.",
        " ".join([*(_agreement(studies[0], other) for other in studies[1:]), note]),
    )


def _agreement(first: ComparedStudy, other: ComparedStudy) -> str:
    """Compose a sentence on pairs significant in both studies, by agreement in order."""

    def sign(pair: Comparison) -> bool:
        return (pair.difference or 0.0) > 0

    both = [
        sign(pair) == sign(twin)
        for pair in first.found.compared.pairs
        if pair.ordered and (twin := other.found.compared.pair(pair.a, pair.b)) is not None and twin.ordered
    ]
    return (
        f"{first.frame.study.name} and {other.frame.study.name} tell {phrases.pairs_text(len(both))} of the same bots "
        f"apart both: {sum(both)} in the same order, {len(both) - sum(both)} in the contrary one."
    )
