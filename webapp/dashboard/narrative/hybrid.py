"""A stored hybrid fit as the page tells it: the caution first, then figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evaluation.analysis.correlations import selfplay_bots
from evaluation.hybrid.summary import human_mean, points_of, ranks_only, weights_of
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import share
from evaluation.plots.charts import ScatterPoint
from evaluation.stats.comparisons import ORDER_ALPHA
from webapp.core.language import plural
from webapp.dashboard.charts.figure import PageFigure
from webapp.dashboard.charts.scatter import (
    CROWDED,
    Ends,
    predictions_figure,
    scatter_figure,
    weights_figure,
)
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.hybrid_bots import (
    carrying_table,
    expected_table,
    ranks_table,
    raters_in_words,
    selfplay_table,
)
from webapp.dashboard.narrative.hybrid_tables import (
    METHODS,
    Check,
    Predictor,
    checks_of,
    choices_of,
    combined_table,
    dimensions_table,
    intercept_in_words,
    predictor,
    predictors_of,
    predictors_selfplay,
)
from webapp.dashboard.narrative.hybrid_verdict import caution_sentences, verdict_text
from webapp.dashboard.narrative.phrases import (
    NamedTable,
    feature_titles,
    listed,
    reason_text,
    short_titles,
)
from webapp.dashboard.narrative.verdicts import test_named
from webapp.ratings.selectors import BotInfo

MANY_BOTS = 30
"""From so many on a correlation over bots is not called one of few."""


@dataclass(frozen=True, slots=True)
class HybridView:
    """Content of the page of a fit."""

    target: str
    caution_lead: str
    caution: str
    notes: list[str]
    intercept: str
    scatter: PageFigure | None
    selfplay: PageFigure | None
    unrated: PageFigure | None
    weights: PageFigure | None
    predictors: list[Predictor]
    predictors_selfplay: list[Predictor]
    tables: list[NamedTable]
    n_bots: int
    n_selfplay: int
    n_conversations: int
    conversation_level: list[Predictor]
    pairs: str
    no_correlation: str
    verdict: str
    checks: list[Check]
    is_crowded: bool


def hybrid_view(
    result: Mapping[str, Any],
    bots: Mapping[str, BotInfo],
    link: Callable[[str], str],
    dimensions: Mapping[str, str] | None = None,
) -> HybridView:
    """Read `HybridResult.to_json()`.

    Args:
        result: the stored document.
        bots: of the study, for titles and marks.
        link: address of a bot's conversations.
        dimensions: titles of the study's rubric by key.
    """
    n_bots = result["n_bots"]
    titles = dimensions or {}
    target = target_in_words(result["target"], titles)
    x_title = f"Human mean of {target}"
    if ranks_only(result):
        x_title = f"Rank by people, {target}"
    enough = n_bots >= FEW_BOTS
    pearson = result["bot_level"].get("pearson", {})
    predictors = predictors_of(result) if enough else []
    lead, caution = _caution(result, pearson, predictors, enough)
    return HybridView(
        target=target,
        intercept=intercept_in_words(result),
        caution_lead=lead,
        caution=caution,
        notes=caution_sentences(result.get("cautions", [])),
        scatter=_scatter(result, bots, link, x_title),
        selfplay=_selfplay(result, bots, link, x_title),
        unrated=_unrated(result, bots),
        weights=_weights(result),
        predictors=predictors,
        predictors_selfplay=predictors_selfplay(result) if enough else [],
        tables=_tables(result, bots, titles),
        n_bots=n_bots,
        n_selfplay=selfplay_bots(result),
        n_conversations=result["n_conversations"],
        conversation_level=[
            predictor(METHODS.get(name, name), found, False)
            for name, found in result["conversation_level"].items()
            if result["n_conversations"]
        ],
        pairs=_pairs(result["pairs"]),
        no_correlation="" if enough else _too_few(n_bots),
        verdict=verdict_text(result.get("verdict")),
        checks=checks_of(result, bots) if enough else choices_of(result),
        is_crowded=n_bots > CROWDED,
    )


def _too_few(n_bots: int) -> str:
    """Return the reason for showing no correlation over bots."""
    if not n_bots:
        return "There is no correlation over bots to judge, for no bot is rated."
    return plural(
        n_bots,
        "%(n)d bot is too few for a correlation over bots: any order of so few points can look "
        "like a line. From %(few)d bots on it is shown here.",
        "%(n)d bots are too few for a correlation over bots: any order of so few points can look "
        "like a line. From %(few)d bots on it is shown here.",
    ) % {"n": n_bots, "few": FEW_BOTS}


def _tables(result: Mapping[str, Any], bots: Mapping[str, BotInfo], titles: Mapping[str, str]) -> list[NamedTable]:
    """Return the tables of a fit, bot by bot, block by block and dimension by dimension; those it has."""
    tables = (
        ranks_table(result, bots),
        expected_table(result, bots, _scale(result)),
        combined_table(result, bots),
        carrying_table(result, bots),
        selfplay_table(result),
        dimensions_table(result, titles),
    )
    return [table for table in tables if table is not None]


def _caution(
    result: Mapping[str, Any],
    pearson: Mapping[str, Any],
    predictors: list[Predictor],
    enough: bool,
) -> tuple[str, str]:
    """Compose the caution before quoting the correlation: bold first words, and the rest."""
    n_bots = result["n_bots"]
    if not n_bots:
        return (
            "There is no correlation to quote.",
            "No bot here is rated by what the fit predicts: {target}.".format(
                target=listed([name.replace("_", " ") for name in result["target"].split(",")])
            ),
        )
    if not enough:
        return "Do not quote a correlation from this fit.", plural(
            n_bots,
            "%(n)s bot is rated, and %(few)s are the fewest that say anything.",
            "%(n)s bots are rated, and %(few)s are the fewest that say anything.",
        ) % {"n": n_bots, "few": FEW_BOTS}
    r = pearson.get("r")
    if r is None:
        return "There is no correlation to quote.", reason_text(pearson.get("reason"))
    lead = f"Read this before you quote r = {share(r)} ({intercept_in_words(result)})."
    return lead, " ".join(_cautions(n_bots, pearson, predictors))


def _cautions(n_bots: int, pearson: Mapping[str, Any], predictors: list[Predictor]) -> Iterator[str]:
    """Yield a sentence for each thing to know of a correlation over enough bots."""
    r, ci, null95 = pearson["r"], pearson.get("ci95"), pearson.get("null95")
    if ci:
        words = (
            "{n} bots are few: the true value could lie anywhere from {low} to {high}."
            if n_bots < MANY_BOTS
            else "Over {n} bots the true value could lie anywhere from {low} to {high}."
        )
        yield words.format(n=n_bots, low=share(ci[0]), high=share(ci[1]))
    if r < 0:
        yield "Below 0 it puts the bots in the wrong order."
    rivals = [p for p in predictors if not p.is_metric and p.value is not None]
    best = max(rivals, key=lambda p: p.value or 0, default=None)
    if r > 0 and best is not None and (best.value or 0) > 0:
        yield f"The trivial predictor “{best.title.lower()}” already reaches {best.r}."
    if null95 is not None:
        yield f"Chance alone passes {share(null95)} in one of twenty fits."
    if n_bots < MANY_BOTS:
        yield "More bots would tell you more than more ratings."


def target_in_words(target: str, dimensions: Collection[str]) -> str:
    """Name the target of a prediction, short enough for an axis.

    Args:
        target: as a result holds it, `quality,fluency`.
        dimensions: all dimensions of the study's rubric.
    """
    names = target.split(",")
    if len(names) > 1 and set(names) == set(dimensions):
        return "all dimensions"
    if len(names) < 3:
        return listed([name.replace("_", " ") for name in names])
    return f"{len(names)} dimensions"


def _scale(result: Mapping[str, Any]) -> Ends:
    """Return the ends of the rating scale where a bot is predicted beyond them; fits of earlier versions do not say."""
    for one in result.get("cautions", []):
        if isinstance(one, Mapping) and one["code"] == "beyond_scale":
            return one["low"], one["high"]
    return None


def _points(
    result: Mapping[str, Any],
    bots: Mapping[str, BotInfo],
    link: Callable[[str], str],
    source: str,
) -> list[ScatterPoint]:
    """Return the bots with a prediction from `source`, best rated first, as they are named and marked here."""
    points = []
    for point in points_of(result, source):
        info = bots.get(point.title)
        points.append(
            # A bot that the study does not have is marked after all of its own.
            replace(point, slot=len(bots) + point.slot, says="")
            if info is None
            else replace(
                point,
                title=info.title,
                slot=info.slot,
                is_control=info.is_control,
                href=link(info.bot_id),
                says="",
            )
        )
    return points


def _scatter(
    result: Mapping[str, Any],
    bots: Mapping[str, BotInfo],
    link: Callable[[str], str],
    x_title: str,
) -> PageFigure | None:
    """Draw the rated bots by what is predicted of them; None where no bot is rated."""
    points = _points(result, bots, link, "predicted")
    if not any(point.human is not None for point in points):
        return None
    return scatter_figure(
        points,
        id="scatter",
        title="Does it predict what people said?",
        method=_scatter_method(result),
        x_title=x_title,
        y_title="Rank predicted" if ranks_only(result) else "Predicted, bot left out",
        note=_scatter_note(result),
        scale=_scale(result),
    )


def _selfplay(
    result: Mapping[str, Any],
    bots: Mapping[str, BotInfo],
    link: Callable[[str], str],
    x_title: str,
) -> PageFigure | None:
    """Draw the rated bots by what their self-play predicts."""
    points = [p for p in _points(result, bots, link, "predicted_selfplay") if p.human is not None]
    if not points:
        return None
    return scatter_figure(
        points,
        id="scatter-selfplay",
        title="And from self-play?",
        method="The same fits applied to conversations of each bot with itself.",
        x_title=x_title,
        y_title="Rank predicted from self-play" if ranks_only(result) else "Predicted from self-play",
        note="A point on the dashed line is predicted as people rated it.",
        scale=_scale(result),
    )


def _unrated(result: Mapping[str, Any], bots: Mapping[str, BotInfo]) -> PageFigure | None:
    """Draw the bots that nobody rated, by what their self-play predicts."""
    points = [p for p in _points(result, bots, lambda bot: "", "predicted_selfplay") if p.human is None]
    if not points:
        return None
    # Marks as the run's own page gives them would repeat those of rated bots on this page.
    points = [replace(point, slot=0) for point in points]
    rated = [human_mean(bot) for bot in result["bots"].values()]
    means = [mean for mean in rated if mean is not None]
    return predictions_figure(
        points,
        (min(means), max(means)) if means else None,
        id="predictions",
        title="Bots without ratings",
        method=_unrated_method(result),
        scale=_scale(result),
    )


def _scatter_method(result: Mapping[str, Any]) -> str:
    """Describe the method of the predictions, and the intervals drawn as lines."""
    told = f"Each bot predicted by a fit that never saw it, {intercept_in_words(result)}."
    if ranks_only(result):
        lines = "Places among the rated bots, 1 is best."
    elif any(bot.get("interval95") for bot in result["bots"].values()):
        lines = "Lines: 90 % intervals, across of people’s mean, upright of where its true value is expected."
    else:
        lines = "Lines: 90 % intervals of people’s means."
    return f"{told} {lines}"


def _scatter_note(result: Mapping[str, Any]) -> str:
    """Explain the dashed line, and any adjustment of human means for raters' habits."""
    told = "A point on the dashed line is predicted as people rated it."
    return f"{told} {raters_in_words(result)}".strip()


def _unrated_method(result: Mapping[str, Any]) -> str:
    """Describe the predictions of bots without ratings, and any intervals that the fit refuses."""
    told = (
        "Predicted from self-play by the fit on all rated bots, with 90 % intervals of where the true mean is expected."
    )
    if not any(bot.get("selfplay") for bot in result["bots"].values()):
        told = (
            "Predicted from self-play by the fit on all rated bots. 90 % intervals of the prediction itself, were "
            "other conversations and bots drawn: people’s mean can lie far outside."
        )
    refused = any(
        isinstance(reason, Mapping) and reason["code"] == "selfplay_unchecked"
        for bot in result["bots"].values()
        if bot["human_mean"] is None
        for reason in bot.get("reasons", [])
    )
    if not refused:
        return told
    return f"{told} " + "Where too few rated bots have self-play there is none: only the order counts."


def _weights(result: Mapping[str, Any]) -> PageFigure | None:
    found = weights_of(result)
    if not found:
        return None
    long = feature_titles([weight.title for weight in found])
    weights = [replace(weight, title=title) for weight, title in zip(found, short_titles(long), strict=True)]
    return weights_figure(
        weights,
        title="What it looks at",
        method="Mean weight per standard deviation of the feature, 90 % over folds. Hollow: includes 0.",
        note="Folds share most of their data, so the interval shows how steady a weight is, not how certain.",
    )


def _pairs(pairs: Mapping[str, Any]) -> str:
    if not pairs.get("all"):
        return ""
    words = (
        (
            "{ordered} of {pairs} of bots are in the order of the ratings; of the {resolvable} that differ "
            "significantly ({test}), {resolvable_ordered}."
        )
        if pairs.get("resolvable")
        else "{ordered} of {pairs} of bots are in the order of the ratings."
    )
    return words.format(
        ordered=pairs["ordered"],
        pairs=phrases.pairs_text(pairs["all"]),
        resolvable=phrases.pairs_text(pairs.get("resolvable", 0)),
        resolvable_ordered=pairs.get("resolvable_ordered"),
        test=test_named(pairs.get("test"), ORDER_ALPHA),
    )
