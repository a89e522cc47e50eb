"""Hybrid fits of a study, and comparisons of fits, runs and studies.

Each fit shows how well it predicts bots that it has not seen, next to trivial predictors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from evaluation.analysis.leaderboard import leaderboard, ranks_shown
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import digits_for, figure, percent, span
from evaluation.stats.comparisons import Comparison
from webapp.dashboard.charts.figure import Cell, Header, PageFigure, PageTable
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.hybrid import HybridView, hybrid_view, target_in_words
from webapp.dashboard.narrative.hybrid_tables import (
    Predictor,
    intercept_in_words,
    predictor,
    predictors_of,
    predictors_selfplay,
)
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    Section,
    count_cell,
    reason_text,
    share_cell,
)
from webapp.jobs.models import HybridFit, SelfPlayRun
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame


def hybrid_section(
    fits: Sequence[HybridFit],
    *,
    study_key: str,
    bots: Mapping[str, BotInfo],
    dimensions: Mapping[str, str],
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
        words = (
            (
                "No hybrid metric has been fitted without the people who are left out here; run `{program} fit_hybrid "
                "--study {key} --without {without}`."
            )
            if without
            else "No hybrid metric has been fitted; run `{program} fit_hybrid --study {key}`."
        )
        section.missing.append(words.format(key=study_key, program=settings.CONFAB_PROGRAM, without=",".join(without)))
        return section
    drawn: set[tuple[str, str]] = set()
    for fit in fits:
        assert fit.result is not None
        view = hybrid_view(fit.result, bots, link, dimensions)
        name = "Fit {pk}: preset {preset}, target {target}, {intercept}".format(
            pk=fit.pk,
            preset=fit.result["preset"],
            target=view.target,
            intercept=view.intercept,
        )
        same = (fit.result["preset"], fit.result["target"])
        if fit is fits[0]:
            section.caution = f"{view.caution_lead} {view.caution}"
        section.lead.append(_sentence(name, view, fit.result))
        # The slopes do not depend on the intercept, so they are drawn once.
        section.figures.extend(_figures(view, fit.pk, name, with_weights=same not in drawn))
        drawn.add(same)
        section.tables.append(_predictors(view, fit.pk, name))
        section.tables.extend(
            replace(table, id=f"{table.id}-{fit.pk}", method=f"{table.method} ({name}.)") for table in view.tables
        )
        if view.verdict and not section.points:
            section.points.append(view.verdict)
        if view.checks:
            section.tables.append(_checks(view, fit.pk, name))
    return section


def _sentence(name: str, view: HybridView, result: Mapping[str, Any]) -> str:
    found = next((row for row in view.predictors if row.is_metric), None)
    if found is None or found.value is None:
        why = view.no_correlation or (found.why if found else "")
        return f"{name}: {why}"
    return "{name}: r = {r} {ends} over {bots}; chance passes {null} once in twenty. {pairs}".format(
        name=name,
        r=found.r,
        ends=found.interval,
        bots=phrases.bots_text(result["n_bots"]),
        null=found.chance,
        pairs=view.pairs,
    )


def _figures(view: HybridView, pk: int, name: str, *, with_weights: bool) -> list[PageFigure]:
    wanted = (
        view.scatter,
        view.selfplay,
        view.unrated,
        view.weights if with_weights else None,
    )
    found = [figure for figure in wanted if figure is not None]
    return [_named(figure, f"{figure.id}-{pk}", name) for figure in found]


def _named(figure: PageFigure, id: str, name: str) -> PageFigure:
    return replace(figure, id=id, method=f"{figure.method} ({name}.)")


def _checks(view: HybridView, pk: int, name: str) -> NamedTable:
    rows = [[Cell(check.title), Cell(check.found), Cell(check.why)] for check in view.checks]
    return NamedTable(
        f"checks-{pk}",
        "What to hold it against",
        PageTable([Header("Check"), Header("Found", numeric=True), Header("What it says")], rows),
        method=f"{name}.",
    )


def _predictors(view: HybridView, pk: int, name: str) -> NamedTable:
    def row(found: Predictor, unit: str) -> list[Cell]:
        return [
            Cell(found.title),
            Cell(unit),
            Cell(found.r, why=found.why if found.value is None else "", raw=(found.value,)),
            Cell(found.interval),
            Cell(found.chance),
        ]

    rows = [row(found, "bots") for found in view.predictors]
    rows += [row(found, "bots, from self-play") for found in view.predictors_selfplay]
    rows += [row(found, "conversations") for found in view.conversation_level]
    return NamedTable(
        f"predictors-{pk}",
        "Against trivial predictors",
        PageTable(
            [
                Header("Predictor"),
                Header("Over"),
                Header("r", numeric=True),
                Header("95 %", numeric=True),
                Header("null, 95 %", numeric=True),
            ],
            rows,
        ),
        method=f"{name}.",
        note=" ".join([view.no_correlation, *view.notes]).strip(),
    )


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
        why = few or reason_text(q2.get("reason")) or "not told by this fit"
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
        PageTable(headers, rows),
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
    return "" if n >= FEW_BOTS else f"too few: {phrases.bots_text(n)}"


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
        parts.append(f"without {phrases.bots_text(len(excluded))}")
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
            Cell(figure(human), why="it has no ratings" if human is None else "", raw=(human,)),
        ]
        cells += [_played(one) for one in found]
        rows.append(cells)
    table = NamedTable(
        "runs",
        "What self-play predicts, run by run",
        PageTable(headers, rows),
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
                    why=reason_text(mean.reason),
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
        PageTable(headers, rows),
        method=f"Mean of all ratings with {percent(studies[0].found.means.level)} interval; ranks as on each "
        "leaderboard.",
        note=" ".join([_told_alike(studies), _other_people()]).strip(),
    )


def _other_people() -> str:
    return (
        "Other people rated in each study, perhaps of other conversations: compare who is above whom, not means "
        "with means."
    )


def _told_alike(studies: Sequence[ComparedStudy]) -> str:
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
            f"{first.frame.study.name} and {other.frame.study.name} tell {phrases.pairs_text(same + contrary)} "
            f"of the same bots apart both: {same} in the same order, {contrary} in the contrary one."
        )
    return " ".join(sentences)


def _sign(pair: Comparison) -> bool:
    return (pair.difference or 0.0) > 0
