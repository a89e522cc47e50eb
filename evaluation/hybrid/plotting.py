"""The drawings of a hybrid fit, made of its document (`HybridResult.to_json`)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from evaluation.plots.plot import Plot
from evaluation.plots.scatter import Point, scatter_drawing
from evaluation.plots.weights import Weight, weights_drawing
from evaluation.printing import figure, share, span
from evaluation.wording import counted

SOURCES = {"conversations": "predicted", "selfplay": "predicted_selfplay"}
"""What the bots can be predicted from, and the key of that prediction."""
LEVEL_OF = {"conversations": "bot_level", "selfplay": "bot_level_selfplay"}
"""Where the document keeps the correlation over bots of each source."""


def points_of(result: Mapping[str, Any], source: str) -> list[Point]:
    """Return the bots that are predicted from `source`, best rated first, those without ratings last.

    Args:
        result: the document of a fit.
        source: `predicted` or `predicted_selfplay`.
    """
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
                predicted_span=_pair(found.get(f"{source}_ci90")),
                n=found["n"] if source == "predicted" else found.get("n_selfplay", 0),
                says=f"{bot}\nhuman mean {figure(human_mean(found))}\npredicted {figure(found[source])}",
            )
        )
    return sorted(points, key=lambda point: (point.human is None, -(point.human or 0)))


def human_mean(found: Mapping[str, Any]) -> float | None:
    """Return the mean that a bot's prediction is compared with: less the habits of its raters where the fit knows them."""
    adjusted: float | None = found.get("adjusted_mean", found["human_mean"])
    return adjusted


def _human_span(found: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the 90 % interval of that mean, of whose distribution, a normal one, the document has the 95 % interval."""
    together = found.get("combined")
    if not together or found.get("adjusted_mean") is None:
        return _pair(found.get("human_ci90"))
    low, high = together["ratings_ci95"]
    normal = NormalDist()
    half = (high - low) / 2 * normal.inv_cdf(0.95) / normal.inv_cdf(0.975)
    return together["ratings_mean"] - half, together["ratings_mean"] + half


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
        raise ValueError(f"source is {source!r}; it must be one of {', '.join(SOURCES)}")
    points = [point for point in points_of(result, SOURCES[source]) if point.human is not None]
    if not points:
        raise ValueError(f"no rated bot is predicted from {source}, so there is nothing to draw")
    r = ((result.get(LEVEL_OF[source]) or {}).get("pearson") or {}).get("r")
    return Plot.of(
        scatter_drawing(
            points,
            515,
            390,
            x_title=f"human mean of {result['target']}",
            y_title="predicted, bot left out"
            if source == "conversations"
            else "predicted from self-play",
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
