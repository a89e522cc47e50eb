"""A column beside each rater alone: the best of them, as PONE's paper prints, and how far raters agree with one another.

The largest of several coefficients is above their mean by chance alone, so that it stands beside figures that were made the
same way, and for nothing else. `max_over_raters` is its name wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.ceilings import PUBLISHED_MEAN
from evaluation.stats.correlation import METHODS, correlate

FEWEST = 3
"""Replies that two must share for a coefficient."""
NO_RATERS = "no two raters are known by name who judged the same three replies"


def max_over_raters(
    values: np.ndarray, given: Sequence[Sequence[tuple[str, float]]]
) -> dict[str, Any]:
    """Return by method the largest coefficient over raters, with each, and the bounds Human (mean) and Human (max).

    Args:
        values: (N,) a column's scores, NaN where undefined.
        given: of each reply its raters and their scores.
    """
    raters = list(dict.fromkeys(r for one in given for r, _ in one if r and r != PUBLISHED_MEAN))
    by_name = [dict(one) for one in given]
    scores = {r: np.array([one.get(r, np.nan) for one in by_name], dtype=float) for r in raters}
    found: dict[str, Any] = {"n_raters": len(raters)}
    if len(raters) < 2:
        return {**found, "reason": NO_RATERS}
    for method in METHODS:
        own = [_r(values, one, method) for one in scores.values()]
        pairs = [_r(scores[a], scores[b], method) for a, b in combinations(raters, 2)]
        alone, both = [r for r in own if r is not None], [r for r in pairs if r is not None]
        found[method] = {
            "max_over_raters": max(alone, default=None),
            "mean_over_raters": float(np.mean(alone)) if alone else None,
            "raters": dict(zip(raters, own, strict=True)),
            "human_mean": float(np.mean(both)) if both else None,
            "human_max": max(both, default=None),
        }
    return found


def _r(x: np.ndarray, y: np.ndarray, method: Any) -> float | None:
    if (np.isfinite(x) & np.isfinite(y)).sum() < FEWEST:
        return None
    return correlate(x, y, method, interval="fisher").r


def best_raters_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each metric of the JSON of `judge(..., max_over_raters=True)`."""
    from evaluation.printing import share

    lines = []
    for name, found in result.items():
        one = found.get("max_over_raters")
        if not one:
            continue
        if "reason" in one:
            lines.append(f"{name}, max over raters: undefined, {one['reason']}")
            continue
        parts = [
            f"{method} {share(one[method]['max_over_raters'], 3)} (mean over raters "
            f"{share(one[method]['mean_over_raters'], 3)}; Human (mean) {share(one[method]['human_mean'], 3)}, "
            f"Human (max) {share(one[method]['human_max'], 3)})"
            for method in METHODS
        ]
        lines.append(f"{name}, max over {one['n_raters']} raters: {'; '.join(parts)}")
    if lines:
        lines.append(
            "max over raters: the best of the raters taken one by one, as PONE's paper prints it; above the others by chance "
            "alone. Human: of raters with one another."
        )
    return lines
