"""Means of a study's bots in a notebook, helped by a prediction of conversations without ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chatbots.storable import quote
from evaluation.analysis.powered import PoweredMeans, powered_means
from evaluation.hybrid.of_study import scored_table
from evaluation.hybrid.results import HybridResult
from evaluation.study import Study, rated


def powered(
    study: Study,
    metric: str | HybridResult,
    column: str | None = None,
    target: str | Sequence[str] | None = None,
) -> PoweredMeans:
    """Estimate the bots' means from their ratings and a metric of conversations without ratings (PPI++).

    Args:
        metric: its name, or a hybrid metric of this study, which predicts each bot by the fit without it.
        column: which of the metric's quantities, such as "words_user"; None where it has one.
        target: a question, or several for their mean; None: what bots are ranked by.

    Returns:
        Means with and without the metric, and what it gains, in a sentence, too.

    Raises:
        ValueError: without ratings, for a question that there is not, or a column that the metric has not.
    """
    ratings = rated(study)
    if target is not None:
        ratings = replace(ratings, headline=(target,) if isinstance(target, str) else tuple(target))
    if isinstance(metric, str):
        table = study.metrics([metric])
    else:
        table = scored_table(study, metric.fit)
    names = [str(name) for name in table.columns if name not in ("conversation", "bot")]
    if column is None and len(names) == 1:
        column = names[0]
    if column not in names:
        raise ValueError(f"column is {quote(column)}; {metric} gives {', '.join(names)}")
    return powered_means(
        ratings,
        table["conversation"].astype(str).tolist(),
        table["bot"].astype(str).tolist(),
        np.asarray(table[column], dtype=float),
        by=column,
    )
