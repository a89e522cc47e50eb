"""Detection of rating dimensions with the wrong direction.

Their answers contradict the other dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

OPPOSED = -0.3
"""Correlation with the other dimensions below which a dimension probably has the opposite direction."""
FEWEST_CONVERSATIONS = 30
"""Minimum number of conversations for such a correlation."""


def opposed_dimensions(means: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the dimensions that contradict the others, with their correlations below `OPPOSED`.

    Args:
        means: by dimension, each conversation's mean as a share of the scale; NaN if it has none. A dimension is
            correlated with the mean of the others over conversations that have both.
    """
    opposed = {}
    for key, dimension_means in means.items():
        other_means = np.array([values for other_key, values in means.items() if other_key != key])
        is_shared = (
            np.isfinite(dimension_means) & np.isfinite(other_means).any(axis=0)
            if len(other_means)
            else np.zeros(len(dimension_means), bool)
        )
        if is_shared.sum() < FEWEST_CONVERSATIONS:
            continue
        x, y = dimension_means[is_shared], np.nanmean(other_means[:, is_shared], axis=0)
        if min(np.ptp(x), np.ptp(y)) > 0 and (r := float(np.corrcoef(x, y)[0, 1])) < OPPOSED:
            opposed[key] = r
    return opposed
