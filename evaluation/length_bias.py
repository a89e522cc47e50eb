"""Correlation of replies' scores with their length: of a metric, and of people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluation.stats.correlation import is_constant


def length_bias(
    responses: Sequence[str], scores: np.ndarray, means: np.ndarray
) -> tuple[float | None, float | None]:
    """Return Spearman's coefficient with the words of the reply: of the metric, and of people on the same replies.

    What the first has beyond the second is the metric's own. None with fewer than three replies or a constant side.

    Args:
        scores, means: (N,) the metric's scores and people's means, NaN where there is none.
    """
    from scipy.stats import rankdata

    known = np.isfinite(scores) & np.isfinite(means)
    words = np.array([len(text.split()) for text in responses], dtype=float)[known]
    found: list[float | None] = []
    for side in (scores[known], means[known]):
        if len(side) < 3 or is_constant(side) or is_constant(words):
            found.append(None)
        else:
            found.append(float(np.corrcoef(rankdata(side), rankdata(words))[0, 1]))
    return found[0], found[1]
