"""Hybrid fits in the report, and comparisons of fits, runs and studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from evaluation.analysis.leaderboard import LeaderboardEntry, format_ranks, leaderboard
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    share_cell,
    span_cell,
)
from evaluation.number_format import digits_for, figure, percent, span
from evaluation.stats.comparisons import Comparison
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid import HybridView, hybrid_view, target_in_words
from webapp.insights.narrative.hybrid_tables import (
    Bots,
    bot_cell,
    correlation_cells,
    ends_cell,
    intercept_in_words,
    metric_level,
    rival_cell,
    rival_of,
)
from webapp.insights.narrative.phrases import Section, reason_text
from webapp.jobs.models import HybridFit, SelfPlayRun
from webapp.jobs.selectors.fits import fit_condition, fits_newest
from webapp.results.study_data import StudyFrame


def hybrid_section(frame: StudyFrame) -> Section:
    """Return the study's fits with their figures, the leading one first."""
    fits, excluded_flags = fits_newest(frame.study, frame.excluded_flags), frame.excluded_flags
    dimensions = {dimension.key: dimension.title for dimension in frame.dimensions}
    section = Section("hybrid", "Hybrid metric")
    if not fits:
        exclusion_text = " without the participants excluded here" if excluded_flags else ""
        options = f" --without {','.join(excluded_flags)}" if excluded_flags else ""
        section.missing.append(
            f"There is no hybrid-metric fit{exclusion_text} yet. Run `{settings.CONFAB_PROGRAM} fit_hybrid --study "
            f"{frame.study.key}{options}`."
        )
    drawn_weights: set[tuple[str, str, str]] = set()
    for fit in fits:
        assert fit.result is not None
        view = hybrid_view(fit.result, frame.bots, lambda bot: "", dimensions)
        name = f"Fit {fit.pk}: preset {fit.result['preset']}, target {view.target}, {view.intercept}"
        if within := fit_condition(fit):
            name += f", {within}"
        if fit is fits[0]:
            section.caution = view.caution
        section.lead.append(_sentence(name, view, fit.result))
        same = (fit.result["preset"], fit.result["target"], within)
        section.figures += [
            replace(
                figure,
                id=f"{figure.id}-{fit.pk}",
                title=_titled(figure.title, fit, fits),
                method=f"{figure.method} ({name}.)",
            )
            for figure in view.figures.values()
            # The slopes do not depend on the intercept, so they are drawn once.
            if figure.id != "weights" or same not in drawn_weights
        ]
        drawn_weights.add(same)
        section.tables += [
            replace(
                table,
                id=f"{table.id}-{fit.pk}",
                title=_titled(table.title, fit, fits),
                method=f"{table.method} ({name}.)",
            )
            for table in view.tables
        ]
        section.methods += [f"{name}: {note}" for note in view.notes]
        if view.conclusion not in view.caution and not section.points:
            section.points.append(f"{view.conclusion} {view.because}".strip())
    return section


def _titled(title: str, fit: HybridFit, fits: Sequence[HybridFit]) -> str:
    """Return a title that names the fit if the report has several."""
    if len(fits) < 2:
        return title
    stop = "?" if title.endswith("?") else ""
    return f"{title.removesuffix('?')} (fit {fit.pk}, {(fit.result or {}).get('preset')}){stop}"


def _sentence(name: str, view: HybridView, result: Mapping[str, Any]) -> str:
    correlation = metric_level(result)
    if correlation.get("r") is None:
        return f"{name}: {view.caution}"
    r, interval, chance = (cell.text for cell in correlation_cells(correlation))
    over = phrases.bots_text(result["n_bots"])
    return f"{name}: r = {r} {interval} over {over}; by chance r exceeds {chance} once in twenty. {view.pairs}"


_SEVERAL = (
    "The best of several fits looks better than it is. Decide which one to report before you look, or test it on "
    "bots that were not used in any fit."
)


def fits_table(fits: Sequence[HybridFit], link: Callable[[HybridFit], str], *, several: bool) -> NamedTable:
    """Tabulate the accuracy of fits on left-out bots.

    The table has the chance level and the strongest rival.

    Args:
        fits: finished fits.
        several: whether they belong to several studies; the table then names the studies.
    """
    rows = [(fit, fit.result or {}) for fit in fits]
    has_played = any(result.get("bot_level_selfplay") for _, result in rows)
    return declared_table(
        "fits",
        "Comparison of fits",
        rows,
        ("Fit", lambda row: Cell(str(row[0].pk), link(row[0]))),
        (
            "Settings",
            lambda row: Cell(
                f"{row[0].study.name}: {_describe_params(row[0])}" if several else _describe_params(row[0])
            ),
        ),
        ("Bots", lambda row: count_cell(row[1]["n_bots"])),
        ("r", lambda row: correlation_cells(metric_level(row[1]))[0]),
        ("95 %", lambda row: correlation_cells(metric_level(row[1]))[1]),
        ("null, 95 %", lambda row: correlation_cells(metric_level(row[1]))[2]),
        ("Q²", lambda row: _value_cell(row[1], "value")),
        ("null, 95 %", lambda row: _value_cell(row[1], "null95")),
        ("Strongest rival", lambda row: _rival_cells(row[1])[0]),
        ("Error ratio", lambda row: _rival_cells(row[1])[1]),
        ("95 %", lambda row: _rival_cells(row[1])[2]),
        *[
            ("r, self-play", lambda row: correlation_cells(metric_level(row[1], "bot_level_selfplay"))[0]),
            ("95 %", lambda row: correlation_cells(metric_level(row[1], "bot_level_selfplay"))[1]),
        ][: 2 * has_played],
        method=(
            "Each bot is predicted without its own ratings. Null: the value exceeded by permuted ratings in one fit "
            "of twenty. Q²: the gain over predicting the mean of the other bots (1: perfect, 0: no gain). Error "
            "ratio: errors of the fit divided by those of the strongest rival. The fit is clearly better if the "
            "whole interval is below 1."
        ),
        note=_SEVERAL if len(fits) > 1 else "",
    )


def _value_cell(result: Mapping[str, Any], key: str) -> Cell:
    correlation = metric_level(result)
    q2 = result.get("q2") or {} if correlation.get("r") is not None else correlation
    return share_cell(q2.get(key), reason=reason_text(q2.get("reason")) or "not reported by this fit")


def _rival_cells(result: Mapping[str, Any]) -> list[Cell]:
    """Make the cells of the rival: name, error ratio, and interval."""
    rival = rival_of(result)
    if rival is None:
        reason = reason_text(metric_level(result).get("reason")) or "no rival fitted"
        return [Cell("–", reason=reason), number_cell(None, reason=reason), span_cell(None, None, reason=reason)]
    return [rival_cell(rival["name"]), number_cell(rival["error_ratio"]), ends_cell(rival["ci95"])]


def _describe_params(fit: HybridFit) -> str:
    result, request = fit.result or {}, fit.request
    parts = [
        str(result["preset"]),
        target_in_words(str(result["target"]), list(result.get("dimensions") or {})),
        intercept_in_words(result),
    ]
    if request.get("without"):
        parts.append(f"without {', '.join(request['without'])}")
    if request.get("exclude_bots"):
        parts.append(f"without {phrases.bots_text(len(request['exclude_bots']))}")
    return ", ".join(filter(None, [*parts, fit_condition(fit)]))


def runs_table(
    fits: Sequence[HybridFit], bots: Bots, link: Callable[[SelfPlayRun], str]
) -> tuple[NamedTable, list[tuple[str, str]]] | None:
    """Tabulate predictions from self-play by bot and run.

    Rows have the addresses of runs. None without a run.

    Args:
        fits: newest first; only the newest of each run and study is used.
    """
    newest: dict[tuple[int, int], HybridFit] = {}
    for fit in fits:
        if fit.run_id is not None and (fit.result or {}).get("bot_level_selfplay"):
            newest.setdefault((fit.study_id, fit.run_id), fit)
    if not newest:
        return None
    by_fit = [(fit.result or {})["bots"] for fit in newest.values()]
    names = dict.fromkeys(
        bot
        for predictions in by_fit
        for bot, prediction in predictions.items()
        if prediction.get("predicted_selfplay") is not None or prediction.get("rank_selfplay") is not None
    )

    def human(bot: str) -> float | None:
        means = [predictions.get(bot, {}).get("human_mean") for predictions in by_fit]
        return next((mean for mean in means if mean is not None), None)

    def make_prediction_column(predictions: Mapping[str, Any]) -> Callable[[str], Cell]:
        return lambda bot: _prediction_cell(predictions.get(bot) or {})

    table = declared_table(
        "runs",
        "Predictions from self-play, by run",
        sorted(names, key=lambda bot: bots[bot].slot if bot in bots else len(bots) + 1),
        ("Bot", lambda bot: bot_cell(bot, bots)),
        ("People", lambda bot: number_cell(human(bot), reason="no ratings")),
        *(
            (f"run {fit.run_id}, fit {fit.pk}", make_prediction_column(predictions))
            for fit, predictions in zip(newest.values(), by_fit, strict=True)
        ),
        method=(
            "Rating predicted by the newest fit of each run from the bot’s conversations with itself. The fit’s page "
            "explains the 90 % interval. Rated bots are predicted without their own ratings."
        ),
    )
    runs = {fit.run_id: fit.run for fit in newest.values() if fit.run is not None}
    return table, [(f"run {pk}", link(run)) for pk, run in runs.items()]


def _prediction_cell(prediction: Mapping[str, Any]) -> Cell:
    value, ends = prediction.get("predicted_selfplay"), prediction.get("predicted_selfplay_ci90")
    if (rank := prediction.get("rank_selfplay")) is not None:
        return Cell(
            f"rank {rank}", reason=("the fit comes from another study, so it gives ranks but no values"), raw=(rank,)
        )
    if value is None:
        return Cell("–", reason="the run has no self-play of this bot")
    if not ends:
        return Cell(figure(value), reason="no interval for this bot", raw=(value,))
    return Cell(f"{figure(value)} {span(*ends)}", raw=(value,))


@dataclass(frozen=True, slots=True)
class ComparedStudy:
    """A study in a comparison: context and results (`StudyComparisons`)."""

    frame: StudyFrame
    comparisons: Any


def studies_table(studies: Sequence[ComparedStudy]) -> NamedTable | None:
    """Tabulate every bot's mean, interval and ranks by study.

    None for fewer than two studies.
    """
    if len(studies) < 2:
        return None
    boards = [
        {place.bot: place for place in leaderboard(study.comparisons.means, study.comparisons.compared).places}
        for study in studies
    ]

    def title(bot: str) -> str:
        return next(study.frame.bots[bot].title for study in studies if bot in study.frame.bots)

    def columns(study: ComparedStudy, board: Mapping[str, Any]) -> list[tuple[str, Callable[[str], Cell]]]:
        rated = study.frame.headline
        column_title = f"{study.frame.study.name}: {rated.title.lower()}, {rated.low:g} to {rated.high:g}"
        return [
            (column_title, lambda bot: _mean_cell(study, board.get(bot))),
            ("Rank", lambda bot: _rank_cell(board.get(bot))),
        ]

    level = percent(studies[0].comparisons.means.level)
    note = "Raters, and possibly conversations, differ between studies. Compare the order of the bots, not their means."
    return declared_table(
        "studies",
        "The same bots in several studies",
        dict.fromkeys(bot for board in boards for bot in board),
        # A bot's mark depends on the study, so this table has no marks.
        ("Bot", lambda bot: Cell(title(bot))),
        *(column for study, board in zip(studies, boards, strict=True) for column in columns(study, board)),
        method=f"Mean of all ratings with {level} interval; ranks as on each leaderboard.",
        note=" ".join([*(_agreement_sentence(studies[0], other) for other in studies[1:]), note]),
    )


_NOT_RATED = "not rated in this study"


def _mean_cell(study: ComparedStudy, place: LeaderboardEntry | None) -> Cell:
    if place is None:
        return Cell("–", reason=_NOT_RATED)
    digits, mean = digits_for(study.frame.headline.low, study.frame.headline.high), place.mean
    text = f"{figure(mean.mean, digits)} {span(mean.low, mean.high, digits)}"
    return Cell(
        text, study.frame.mean_link(study.frame.headline, place.bot), reason=reason_text(mean.reason), raw=(mean.mean,)
    )


def _rank_cell(place: LeaderboardEntry | None) -> Cell:
    if place is None:
        return Cell("–", reason=_NOT_RATED)
    reason = "" if place.ranks else "a control bot has no rank"
    return Cell(format_ranks(place.ranks), reason=reason, raw=place.ranks or (None, None))


def _agreement_sentence(first: ComparedStudy, second: ComparedStudy) -> str:
    """Compose a sentence on pairs that are significant in both studies.

    It compares their orders.
    """

    def sign(pair: Comparison) -> bool:
        return (pair.difference or 0.0) > 0

    same_order = [
        sign(pair) == sign(twin)
        for pair in first.comparisons.compared.pairs
        if pair.ordered and (twin := second.comparisons.compared.pair(pair.a, pair.b)) is not None and twin.ordered
    ]
    n_same = sum(same_order)
    return (
        f"Significant in both {first.frame.study.name} and {second.frame.study.name}: "
        f"{phrases.pairs_text(len(same_order))} of bots, {n_same} in the same order, {len(same_order) - n_same} in "
        "opposite order."
    )
