"""Fits of the hybrid metric beside one another, what self-play predicts run by run, and bots in several studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.leaderboard import leaderboard, ranks_shown
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.printing import digits_for, figure, percent, span
from evaluation.stats.compare import Comparison
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.hybrid import target_in_words
from webapp.dashboard.wording.hybrid_tables import (
    Predictor,
    intercept_in_words,
    predictor,
    predictors_of,
    predictors_selfplay,
)
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import NamedTable, count_cell, share_cell
from webapp.ratings.bots import BotInfo
from webapp.results.study_data import StudyFrame
from webapp.runs.models import HybridFit, SelfPlayRun

FitLink = Callable[[HybridFit], str]


def fits_table(fits: Sequence[HybridFit], link: FitLink, *, several: bool) -> NamedTable:
    """Tabulate fits: how well each predicts bots that it has not seen, and what chance and the best rival reach.

    Args:
        fits: finished ones.
        several: whether they are of several studies, so that each says of which.
    """
    headers = [Header("Fit")]
    headers += [Header("What"), Header("Bots", numeric=True)]
    numbers = ["r", "95 %", "null, 95 %", "Q²", "null, 95 %", "Best baseline", "its r"]
    has_played = any(predictors_selfplay(fit.result or {}) for fit in fits)
    numbers += ["r, self-play", "95 %"] if has_played else []
    headers += [Header(title, numeric=title != "Best baseline") for title in numbers]
    rows = []
    for fit in fits:
        result = fit.result or {}
        metric, best = _metric_and_best(result)
        played = next(iter(predictors_selfplay(result)), None)
        few = _few(result)
        q2 = {} if few else result.get("q2") or {}
        why = few or said(q2.get("reason")) or "not told by this fit"
        cells = [Cell(str(fit.pk), link(fit))]
        cells += [
            Cell(f"{fit.study.name}: {_what(fit)}" if several else _what(fit)),
            count_cell(result["n_bots"]),
            *_of_predictor(metric),
            share_cell(q2.get("value"), why=why),
            share_cell(q2.get("null95"), why=why),
            Cell(best.title if best else "–", why="" if best else few or _no_baseline()),
            share_cell(best.value if best else None, why=few or _no_baseline()),
            *(_of_predictor(played)[:2] if has_played else []),
        ]
        rows.append(cells)
    return NamedTable(
        "fits",
        "Fits beside one another",
        Table(headers, rows),
        method=(
            "Each bot predicted without its own ratings. Null: what permuted ratings pass once in twenty fits. Q²: the "
            "gain over the mean of the other bots, 1 is perfect, 0 is none. Baseline: the best of the trivial "
            "predictors of the same bots."
        ),
        note=(
            "The best of several fits looks better than it is: decide which one you report before you look, or test it "
            "on bots that none of them has seen."
        )
        if len(fits) > 1
        else "",
    )


def _no_baseline() -> str:
    return "no baseline has a correlation"


def _few(result: Mapping[str, Any]) -> str:
    """Say that the bots are too few for a correlation; empty where they are not."""
    n = int(result["n_bots"])
    return "" if n >= FEW_BOTS else f"too few: {counts.bots(n)}"


def _metric_and_best(result: Mapping[str, Any]) -> tuple[Predictor, Predictor | None]:
    """Return the metric and the trivial predictor with the highest r, where there are bots enough to say."""
    few = _few(result)
    if few:
        return predictor("", {"reason": few}, True), None
    metric, *rivals = predictors_of(result)
    known = [one for one in rivals if one.value is not None]
    return metric, max(known, key=lambda one: one.value or 0.0, default=None)


def _what(fit: HybridFit) -> str:
    """Summarise the params of a fit."""
    result = fit.result or {}
    parts = [
        str(result["preset"]),
        target_in_words(str(result["target"]), list(result.get("dimensions") or {})),
        intercept_in_words(result),
    ]
    without = fit.request.get("without")
    if without:
        parts.append("without {flags}".format(flags=", ".join(without)))
    excluded = fit.request.get("exclude_bots")
    if excluded:
        parts.append(f"without {counts.bots(len(excluded))}")
    return ", ".join(parts)


def _of_predictor(found: Predictor | None) -> list[Cell]:
    """Return a predictor's r, its interval and what chance passes, as cells."""
    if found is None:
        why = "it was applied to no self-play"
        return [Cell("–", why=why), Cell("–", why=why), Cell("–", why=why)]
    why = found.why if found.value is None else ""
    none = found.why or "not told by this fit"
    return [
        Cell(found.r, why=why, raw=(found.value,)),
        Cell(found.interval, why=none if found.interval == "–" else ""),
        Cell(found.chance, why=none if found.chance == "–" else ""),
    ]


def runs_table(
    fits: Sequence[HybridFit],
    bots: Mapping[str, BotInfo],
    link: Callable[[SelfPlayRun], str],
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
    told = list(newest.values())
    names = list(
        dict.fromkeys(
            bot
            for fit in told
            for bot, one in (fit.result or {})["bots"].items()
            if one.get("predicted_selfplay") is not None or one.get("rank_selfplay") is not None
        )
    )
    names.sort(key=lambda bot: bots[bot].slot if bot in bots else len(bots) + 1)
    headers = [Header("Bot"), Header("People", numeric=True)]
    headers += [Header(f"run {fit.run_id}, fit {fit.pk}", numeric=True) for fit in told]
    rows = []
    for bot in names:
        info = bots.get(bot)
        found = [(fit.result or {})["bots"].get(bot) or {} for fit in told]
        human = next((h for one in found if (h := one.get("human_mean")) is not None), None)
        cells = [
            Cell(
                info.title if info else bot,
                slot=info.slot if info else 0,
                hollow=info.is_control if info else False,
            ),
            Cell(figure(human), why="nobody rated it" if human is None else "", raw=(human,)),
        ]
        cells += [_played(one) for one in found]
        rows.append(cells)
    table = NamedTable(
        "runs",
        "What self-play predicts, run by run",
        Table(headers, rows),
        method=(
            "The rating that the newest fit of each run predicts from the bot’s conversations with itself, with the "
            "90 % interval named on the fit’s page; bots that were rated are predicted without their ratings."
        ),
    )
    runs = {fit.run_id: fit.run for fit in told if fit.run is not None}
    return table, [(f"run {pk}", link(run)) for pk, run in runs.items()]


def _played(found: Mapping[str, Any]) -> Cell:
    value, ends = found.get("predicted_selfplay"), found.get("predicted_selfplay_ci90")
    rank = found.get("rank_selfplay")
    if rank is not None:
        why_rank = "the fit is of another study: it gives ranks and no values"
        return Cell(f"rank {rank}", why=why_rank, raw=(rank,))
    if value is None:
        return Cell("–", why="no self-play of this bot in the run")
    return Cell(
        f"{figure(value)} {span(*ends)}" if ends else figure(value),
        why="" if ends else "no interval for this bot",
        raw=(value,),
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """A study beside others: what stands around its results, and these (`StudyComparisons`)."""

    frame: StudyFrame
    found: Any


def studies_table(studies: Sequence[Beside]) -> NamedTable | None:
    """Tabulate every bot's mean, interval and range of ranks, study by study; None for fewer than two studies."""
    if len(studies) < 2:
        return None
    boards = [
        {place.bot: place for place in leaderboard(one.found.means, one.found.compared).places}
        for one in studies
    ]
    bots = list(dict.fromkeys(bot for board in boards for bot in board))
    headers = [Header("Bot")]
    for one in studies:
        headline = one.frame.headline
        title = "{study}: {name}, {low} to {high}".format(
            study=one.frame.study.name,
            name=headline.title.lower(),
            low=f"{headline.low:g}",
            high=f"{headline.high:g}",
        )
        headers += [Header(title, numeric=True), Header("Rank", numeric=True)]
    rows = []
    for bot in bots:
        info = next(one.frame.bots[bot] for one in studies if bot in one.frame.bots)
        # A bot's mark is that of its place in one study, so here it has none.
        cells = [Cell(info.title)]
        for one, board in zip(studies, boards, strict=True):
            place = board.get(bot)
            if place is None:
                why = "not rated in this study"
                cells += [Cell("–", why=why), Cell("–", why=why)]
                continue
            digits = digits_for(one.frame.headline.low, one.frame.headline.high)
            mean = place.mean
            cells += [
                Cell(
                    f"{figure(mean.mean, digits)} {span(mean.low, mean.high, digits)}",
                    one.frame.link(bot),
                    why=said(mean.reason),
                    raw=(mean.mean,),
                ),
                Cell(
                    ranks_shown(place.ranks),
                    why="" if place.ranks else "a control bot has no rank",
                    raw=place.ranks or (None, None),
                ),
            ]
        rows.append(cells)
    return NamedTable(
        "studies",
        "The same bots in several studies",
        Table(headers, rows),
        method=f"Mean of all ratings with {percent(studies[0].found.means.level)} interval; ranks as on each "
        "leaderboard.",
        note=" ".join([_told_alike(studies), _other_people()]).strip(),
    )


def _other_people() -> str:
    return (
        "Other people rated in each study, perhaps of other conversations: compare who is above whom, not means "
        "with means."
    )


def _told_alike(studies: Sequence[Beside]) -> str:
    """Compose sentences on pairs significant in the first and another study, by agreement in order."""
    first, sentences = studies[0], []
    for other in studies[1:]:
        same = contrary = 0
        for pair in first.found.compared.pairs:
            twin = other.found.compared.pair(pair.a, pair.b)
            if not pair.ordered or twin is None or not twin.ordered:
                continue
            if _sign(pair) == _sign(twin):
                same += 1
            else:
                contrary += 1
        sentences.append(
            f"{first.frame.study.name} and {other.frame.study.name} tell {counts.pairs(same + contrary)} of the same "
            f"bots apart both: {same} in the same order, {contrary} in the contrary one."
        )
    return " ".join(sentences)


def _sign(pair: Comparison) -> bool:
    return (pair.difference or 0.0) > 0
