"""Agreement of predictions with every rating dimension, over bots and over single conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.hybrid.features import Design
from evaluation.stats.correlation import Correlation, correlate, correlate_all, within_groups


def units_of(design: Design) -> list[Any] | None:
    """Return the unit of resampling of each conversation, its participant; None where no participant is known."""
    if not any(person is not None for person in design.people):
        return None
    return [f"alone {i}" if p is None else f"p {p}" for i, p in enumerate(design.people)]


def dimensions_of(
    design: Design | None,
    scores: Mapping[str, Mapping[str, float]],
    dimensions: Mapping[str, Mapping[str, float] | None],
) -> dict[str, dict[str, dict[str, Correlation]]]:
    """Correlate the bots' scores with their means of each rating dimension (step 4 of the paper).

    Args:
        dimensions: name to the means; None: those of the ratings as they were given.
    """
    if design is None:
        return {}
    found: dict[str, dict[str, dict[str, Correlation]]] = {}
    for name, given in dimensions.items():
        means = design.means[name] if given is None else given
        found[name] = {}
        for source, predicted in scores.items():
            both = [bot for bot in predicted if bot in means]
            if both:
                found[name][source] = correlate_all(
                    [predicted[b] for b in both], [means[b] for b in both], interval="fisher"
                )
    return found


def dimensions_of_conversations(
    rated: Design | None,
    predictions: Mapping[str, np.ndarray],
    names: Sequence[str],
) -> dict[str, dict[str, Correlation]]:
    """Correlate predictions of single conversations with each rating dimension, over all bots and within bots."""
    if rated is None or not predictions:
        return {}
    predicted, units = predictions["predicted"], units_of(rated)
    found: dict[str, dict[str, Correlation]] = {}
    for name in names:
        values = rated.ratings[name]
        found[name] = {
            "spearman": correlate(predicted, values, "spearman", units=units),
            "within_bots": within_groups(
                predicted, values, [str(bot) for bot in rated.bots], units=units
            ),
        }
    return found
