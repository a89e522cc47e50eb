"""The drawings of a hybrid fit, made of its document (`HybridResult.to_json`)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from chatbots.storable import quote
from evaluation.plots.plot import Plot
from evaluation.plots.scatter import Point, scatter_drawing
from evaluation.plots.weights import Weight, weights_drawing
from evaluation.printing import figure, share, span
from evaluation.wording import counted

SOURCES = {"conversations": "predicted", "selfplay": "predicted_selfplay"}
"""What the bots can be predicted from, and the key of that prediction."""
RANKS = {"predicted": "rank", "predicted_selfplay": "rank_selfplay"}
"""Where a bot has its place by each of these, if a fit of another study gives no values."""
LEVEL_OF = {"conversations": "bot_level", "selfplay": "bot_level_selfplay"}
"""Where the document keeps the correlation over bots of each source."""


def points_of(result: Mapping[str, Any], source: str) -> list[Point]:
    """Return the bots that are predicted from `source`, best rated first, those without ratings last.

    Args:
        result: the document of a fit.
        source: `predicted` or `predicted_selfplay`.
    """
    if ranks_only(result):
        return _points_of_ranks(result, source)
    points = []
    for slot, (bot, found) in enumerate(result["bots"].items(), start=1):
        if found[source] is None:
            continue
        points.append(
            Point(
                title=bot,
                slot=slot,
                is_control=False,
                human=human_mean(found),
                human_span=_human_span(found),
                predicted=found[source],
                predicted_span=_predicted_span(found, source),
                n=found["n"] if source == "predicted" else found.get("n_selfplay", 0),
                says=f"{bot}\nhuman mean {figure(human_mean(found))}\npredicted {figure(found[source])}",
            )
        )
    return sorted(points, key=lambda point: (point.human is None, -(point.human or 0)))


def ranks_only(result: Mapping[str, Any]) -> bool:
    """Return True if the bots have ranks and no values, because the fit is of another study."""
    return any("rank" in found for found in result["bots"].values())


def _points_of_ranks(result: Mapping[str, Any], source: str) -> list[Point]:
    """Return the rated bots by their places among each other: by people, and by the predictions. 1 is best."""
    key = RANKS[source]
    rated = {
        bot: (mean, found[key])
        for bot, found in result["bots"].items()
        if found.get(key) is not None and (mean := human_mean(found)) is not None
    }
    slots = {bot: slot for slot, bot in enumerate(result["bots"], start=1)}
    points = []
    for bot, (mean, rank) in rated.items():
        by_people = 1 + sum(other > mean for other, _ in rated.values())
        predicted = 1 + sum(other < rank for _, other in rated.values())
        found = result["bots"][bot]
        points.append(
            Point(
                title=bot,
                slot=slots[bot],
                is_control=False,
                human=by_people,
                human_span=None,
                predicted=predicted,
                predicted_span=None,
                n=found["n"] if source == "predicted" else found.get("n_selfplay", 0),
                says=f"{bot}\nby people {by_people}\npredicted {predicted}",
            )
        )
    return sorted(points, key=lambda point: point.human or 0)


def human_mean(found: Mapping[str, Any]) -> float | None:
    """Return the mean that a bot's prediction is compared with, less its raters' effects where the fit has them."""
    adjusted: float | None = found.get("adjusted_mean", found["human_mean"])
    return adjusted


def _predicted_span(found: Mapping[str, Any], source: str) -> tuple[float, float] | None:
    """Return the 90 % interval of the bot's true mean about a prediction; None of a fit that states none.

    Those fits state one of the mean prediction itself, which would look like it: of a bot without ratings alone it is
    shown, and named.
    """
    expected = found if source == "predicted" else found.get("selfplay") or {}
    if human_mean(found) is not None and not expected.get("interval95"):
        return None
    return _pair(found.get(f"{source}_ci90"))


def _human_span(found: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the 90 % interval of that mean, from the 95 % interval of its normal distribution in the document."""
    # Fits of earlier versions have this interval next to the combined mean alone.
    ends = found.get("adjusted_ci95") or (found.get("combined") or {}).get("ratings_ci95")
    if not ends or found.get("adjusted_mean") is None:
        return _pair(found.get("human_ci90"))
    normal = NormalDist()
    half = (ends[1] - ends[0]) / 2 * normal.inv_cdf(0.95) / normal.inv_cdf(0.975)
    return found["adjusted_mean"] - half, found["adjusted_mean"] + half


def weights_of(result: Mapping[str, Any]) -> list[Weight]:
    """Return the features' weights per standard deviation, largest first, titled by their names."""
    weights = [
        Weight(name, found["scaled_mean"], *(found.get("scaled_ci90") or (None, None)))
        for name, found in result["coefficients"].items()
        if found.get("scaled_mean") is not None
    ]
    return sorted(weights, key=lambda weight: -weight.mean)


def predictions_plot(result: Mapping[str, Any], source: str = "conversations") -> Plot:
    """Draw predicted against human means, a point for each rated bot.

    Args:
        result: the document of a fit.
        source: `conversations` (with people) or `selfplay`.

    Raises:
        ValueError: for another source, or one that the fit has no prediction from.
    """
    if source not in SOURCES:
        raise ValueError(f"source is {quote(source)}; it must be one of {', '.join(SOURCES)}")
    points = [point for point in points_of(result, SOURCES[source]) if point.human is not None]
    if not points:
        raise ValueError(f"no rated bot is predicted from {source}, so there is nothing to draw")
    r = ((result.get(LEVEL_OF[source]) or {}).get("pearson") or {}).get("r")
    x_title, y_title = f"human mean of {result['target']}", "predicted, bot left out"
    if source == "selfplay":
        y_title = "predicted from self-play"
    if ranks_only(result):
        x_title, y_title = f"rank by people, 1 is best, {result['target']}", "rank predicted"
    return Plot.of(
        scatter_drawing(
            points,
            515,
            390,
            x_title=x_title,
            y_title=y_title,
            name=f"Predicted against human means of {counted(len(points), 'bot')}, r = {share(r)}",
        )
    )


def weights_plot(result: Mapping[str, Any]) -> Plot:
    """Draw the features' weights per standard deviation with their intervals over the folds.

    Raises:
        ValueError: where no feature has a weight.
    """
    weights = weights_of(result)
    if not weights:
        raise ValueError("no feature has a weight, so there is nothing to draw")
    widest = weights[0]
    return Plot.of(
        weights_drawing(
            weights,
            380,
            name=f"Weights of {counted(len(weights), 'feature')}; the largest is {widest.title}, "
            f"{share(widest.mean)} {span(widest.low, widest.high, shares=True)}",
        )
    )


def _pair(value: Any) -> tuple[float, float] | None:
    return (value[0], value[1]) if value else None
