"""A stored hybrid fit in words, figures, plots and tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from evaluation.data.result_tables import NamedTable
from evaluation.hybrid.summary import WEIGHT_UNIT, human_mean, points_of, ranks_only, weights_of
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import share
from evaluation.plots.charts import ScatterPoint
from evaluation.stats.comparisons import ORDER_ALPHA
from webapp.core.language import plural
from webapp.insights.charts.figure import PageFigure
from webapp.insights.charts.scatter import Ends, predictions_figure, scatter_figure, weights_figure
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid_tables import (
    Bots,
    Result,
    checks_table,
    combined_table,
    correlation_cells,
    dimensions_table,
    expected_table,
    influence_table,
    intercept_in_words,
    is_unchecked,
    metric_level,
    predictors_table,
    ranks_table,
    raters_in_words,
    rival_cell,
    rival_of,
    selfplay_table,
)
from webapp.insights.narrative.hybrid_verdict import caution_sentences, verdict_text
from webapp.insights.narrative.phrases import feature_titles, link_bots, listed, reason_text, short_titles
from webapp.insights.narrative.verdicts import test_named

CONDITIONS = ("within_condition", "several_conditions")
"""Cautions shown together with the verdict."""
MANY_BOTS = 30
"""Minimum number of bots for a correlation that is not called one over few bots."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Key figure at the top of a page.

    Attributes:
        tone: `good` or `bad`; empty for a number that is neither.
    """

    title: str
    value: str
    words: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class HybridView:
    """Content of the page of a fit.

    Attributes:
        conclusion: the verdict in one sentence, or the reason for its absence.
        because: permitted uses of the fit, and the comparison behind the verdict.
        caution: limits of the correlation.
        tiles: r, and whether the fit is better than length and chance; empty with too few bots.
        pairs: how many pairs of bots are in the order of the ratings.
        notes: cautions of the fit.
        figures: rated bots, self-play, bots without ratings, and weights, as available.
    """

    target: str
    intercept: str
    conclusion: str
    because: str
    caution: str
    tiles: list[Tile]
    pairs: str
    notes: list[str]
    figures: dict[str, PageFigure]
    tables: list[NamedTable]


def hybrid_view(
    result: Result,
    bots: Bots,
    link: Callable[[str], str],
    dimensions: dict[str, str] | None = None,
    *,
    metric_link: Callable[[str], str] = lambda column: "",
) -> HybridView:
    """Read the stored document of a fit.

    Args:
        bots: bots of the study, for titles and marks.
        link: address of a bot's conversations, largest error first.
        metric_link: address of the conversations with a feature.
        dimensions: titles of the study's rubric by key.
    """
    titles = dimensions or {}
    target = target_in_words(result["target"], titles)
    tables = (
        predictors_table(result),
        checks_table(result, bots),
        ranks_table(result, bots),
        expected_table(result, bots, _scale(result)),
        combined_table(result, bots),
        influence_table(result, bots),
        selfplay_table(result),
        dimensions_table(result, titles),
    )
    caution = " ".join(_cautions(result))
    conclusion, stop, because = (verdict_text(result.get("verdict")) or caution).partition(". ")
    cautions = result.get("cautions", [])
    conditions = [finding for finding in cautions if not isinstance(finding, str) and finding["code"] in CONDITIONS]
    return HybridView(
        target=target,
        intercept=intercept_in_words(result),
        conclusion=conclusion + stop.strip(),
        because=" ".join(filter(None, [because, *caution_sentences(conditions)])),
        caution=caution,
        tiles=list(_tiles(result)),
        pairs=_pairs(result["pairs"]),
        notes=caution_sentences(cautions),
        figures={figure.id: figure for figure in _figures(result, bots, link, target, metric_link)},
        tables=[link_bots(table, bots, link) for table in tables if table is not None],
    )


def _cautions(result: Result) -> Iterator[str]:
    """Yield cautions on the correlation over bots."""
    n = result["n_bots"]
    if not n:
        target = listed([name.replace("_", " ") for name in result["target"].split(",")])
        yield f"There is no correlation to report: no bot here has ratings of the target, {target}."
        return
    if n < FEW_BOTS:
        yield (
            plural(
                n,
                "Only {n} bot is rated, and at least {few} are needed",
                "Only {n} bots are rated, and at least {few} are needed",
            )
            + " for a meaningful correlation: so few points can lie on a line by chance."
        ).format(n=n, few=FEW_BOTS)
        return
    correlation = metric_level(result)
    r = correlation.get("r")
    if r is None:
        yield f"There is no correlation to report: {reason_text(correlation.get('reason'))}."
    elif r < 0:
        yield "A negative correlation means that the bots are in the wrong order."
    if n < MANY_BOTS:
        yield f"{n} bots are few. More bots would be more informative than more ratings."


def _tiles(result: Result) -> Iterator[Tile]:
    correlation = metric_level(result)
    if correlation.get("r") is None:
        return
    r, interval, _ = (cell.text for cell in correlation_cells(correlation))
    over = f"95 % interval over {phrases.bots_text(result['n_bots'])}, {intercept_in_words(result)}."
    yield Tile("r with people’s means", f"{r} {interval}".removesuffix(" –"), over)
    if rival := rival_of(result):
        explanation = f"{rival_cell(rival['name']).text} alone: Q² {share(rival['q2'])}."
        yield _answer("Better than length?", rival["passed"], explanation)
    null95, verdict = correlation.get("null95"), result.get("verdict")
    if null95 is not None:
        explanation = f"With permuted ratings, one fit in twenty exceeds r = {share(null95)}."
        # The verdict also uses Q², and r with one intercept for all folds.
        is_better = (
            verdict["standing"] != "chance" if isinstance(verdict, Mapping) else correlation["r"] > max(0.0, null95)
        )
        yield _answer("Better than chance?", is_better, explanation)


def _answer(title: str, is_so: bool | None, words: str) -> Tile:
    if is_so is None:
        return Tile(title, "Not known", words)
    return Tile(title, "Yes" if is_so else "No", words, "good" if is_so else "bad")


def target_in_words(target: str, dimensions: Collection[str]) -> str:
    """Name the target of a prediction, short enough for an axis.

    Args:
        target: as stored in a result, `quality,fluency`.
        dimensions: all dimensions of the study's rubric.
    """
    names = target.split(",")
    if len(names) > 1 and set(names) == set(dimensions):
        return "all dimensions"
    if len(names) < 3:
        return listed([name.replace("_", " ") for name in names])
    return f"{len(names)} dimensions"


def _scale(result: Result) -> Ends:
    """Return the rating scale if a prediction exceeds it.

    Unknown for fits of earlier versions.
    """
    for caution in result.get("cautions", []):
        if not isinstance(caution, str) and caution["code"] == "beyond_scale":
            return caution["low"], caution["high"]
    return None


def _figures(
    result: Result, bots: Bots, link: Callable[[str], str], target: str, metric_link: Callable[[str], str]
) -> Iterator[PageFigure]:
    """Yield the plots of the predictions and of the weights."""
    x_title = f"Rank by people, {target}" if ranks_only(result) else f"Human mean of {target}"
    on_line = "On the dashed line, the prediction equals the human mean."
    scale = _scale(result)
    points = _points(result, bots, link, "predicted")
    played = _points(result, bots, link, "predicted_selfplay")
    # All plots show ratings of the same question, so they share one range.
    drawn_points = [
        point
        for point in [*(rated_point for rated_point in points if rated_point.human is not None), *played]
        if point.predicted is not None
    ]
    all_values = [value for point in drawn_points for value in point.values]
    if any(point.human is not None for point in points):
        yield scatter_figure(
            points,
            id="scatter",
            title="Predicted and human ratings",
            method="Each bot is predicted by a fit that excludes its ratings."
            + (" Ranks among the rated bots; 1 is best." if ranks_only(result) else ""),
            marks=_scatter_marks(result),
            x_title=x_title,
            y_title="Rank predicted" if ranks_only(result) else "Predicted, leave-one-bot-out",
            note=f"{on_line} {raters_in_words(result)}".strip(),
            scale=scale,
            other_values=all_values,
        )
    if rated := [point for point in played if point.human is not None]:
        yield scatter_figure(
            rated,
            id="scatter-selfplay",
            title="Prediction from self-play",
            method="The same fits, applied to each bot’s conversations with itself.",
            marks=_scatter_marks(result),
            x_title=x_title,
            y_title="Rank predicted from self-play" if ranks_only(result) else "Predicted from self-play",
            note=on_line,
            scale=scale,
            other_values=all_values,
        )
    # Marks of the run's page would repeat those of rated bots on this page.
    if unrated := [replace(point, slot=0, href="") for point in played if point.human is None]:
        means = [mean for bot in result["bots"].values() if (mean := human_mean(bot)) is not None]
        yield predictions_figure(
            unrated,
            (min(means), max(means)) if means else None,
            id="predictions",
            title="Bots without ratings",
            method=_unrated_method(result),
            scale=scale,
            other_values=all_values,
        )
    if weights := weights_of(result):
        titles = short_titles(feature_titles([weight.title for weight in weights]))
        yield weights_figure(
            [
                replace(weight, title=title, href=metric_link(weight.title))
                for weight, title in zip(weights, titles, strict=True)
            ],
            title="Feature weights",
            method="Mean weight with 90 % interval over folds, in rating points per standard deviation of the feature.",
            marks="Hollow: the interval includes 0.",
            unit=WEIGHT_UNIT,
            id="weights",
            note="Folds share most of their data, so the interval shows how stable a weight is, not how certain.",
        )


def _points(result: Result, bots: Bots, link: Callable[[str], str], source: str) -> list[ScatterPoint]:
    """Return the bots with a prediction from `source`, best rated first.

    They have names and marks.
    """
    points = []
    for point in points_of(result, source):
        if (info := bots.get(point.title)) is None:
            # Bots that are not in the study get marks after those of the study.
            points.append(replace(point, slot=len(bots) + point.slot, says=""))
        else:
            marked = replace(point, title=info.title, slot=info.slot, is_control=info.is_control)
            points.append(replace(marked, href=link(info.bot_id), says=""))
    return points


def _scatter_marks(result: Result) -> str:
    """Describe the intervals drawn as lines; empty without any."""
    if ranks_only(result):
        return ""
    if any(bot.get("interval95") for bot in result["bots"].values()):
        return (
            "Horizontal lines: 90 % intervals of people’s means. Vertical lines: 90 % prediction intervals of the "
            "true means."
        )
    return "Lines: 90 % intervals of people’s means."


def _unrated_method(result: Result) -> str:
    """Describe the predictions of bots without ratings, and missing intervals."""
    method = "Predicted from self-play by the fit on all rated bots"
    if any(bot.get("selfplay") for bot in result["bots"].values()):
        method += ", with 90 % prediction intervals of the true mean."
    else:
        method += (
            ". The 90 % intervals describe how the prediction varies with other conversations and bots. The human "
            "mean can be far outside."
        )
    unrated = [bot for bot in result["bots"].values() if bot["human_mean"] is None]
    if any(is_unchecked(reason) for bot in unrated for reason in bot.get("reasons", [])):
        method += " There is no interval if too few rated bots have self-play; then only the order is meaningful."
    return method


def _pairs(pairs: Result) -> str:
    if not pairs.get("all"):
        return ""
    sentence = f"{pairs['ordered']} of {phrases.pairs_text(pairs['all'])} of bots are in the order of the ratings"
    if pairs.get("resolvable"):
        test = test_named(pairs.get("test"), pairs.get("alpha", ORDER_ALPHA))
        sentence += (
            f"; of the {phrases.pairs_text(pairs['resolvable'])} that differ significantly ({test}), "
            f"{pairs.get('resolvable_ordered')}"
        )
    return f"{sentence}."
